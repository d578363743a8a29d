/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the framework sections of p4d.conf. */
#include "report/margins.h"

#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "plan/stage_memory.h"
#include "report/report.h"
#include "request/framework.h"

static const char *choice_or_any(p4d_option option, int64_t value, char *buf, size_t size)
{
	p4d_request request = {.model = ""};

	if (value < 0)
		return "*";
	p4d_request_put(&request, option, value, P4D_BY_SITE);
	return p4d_request_value_text(&request, option, buf, size);
}

/* The title of a margin's section in p4d.conf: "fsdp", "fsdp/torchtitan/bf16/h100-80gb". */
enum { MARGIN_TITLE = 128 };
static const char *title_of(const p4d_gpu_margin *m, char buf[MARGIN_TITLE])
{
	char code[32], precision[32];

	snprintf(buf, MARGIN_TITLE, "%s/%s/%s/%s", p4d_framework_of(m->framework)->name,
		 choice_or_any(P4D_MODEL_CODE, m->model_code, code, sizeof(code)),
		 choice_or_any(P4D_PRECISION, m->precision, precision, sizeof(precision)),
		 m->gpu[0] ? m->gpu : "*");
	for (size_t length = strlen(buf); length > 2 && !strcmp(buf + length - 2, "/*"); length -= 2)
		buf[length - 2] = '\0';
	return buf;
}

void p4d_margins_print(const p4d_gpu_margins *all)
{
	const double own = p4d_to_gib(p4d_memory_context_bytes());
	char title[MARGIN_TITLE];

	for (size_t i = 0; i < all->count; i++) {
		const p4d_gpu_margin *m = &all->margin[i];
		const unsigned share = p4d_framework_of(m->framework)->fragmentation[P4D_ALLOCATOR_DEFAULT];
		const double reserve = p4d_to_gib(m->reserve_bytes);
		printf("Jobs of %s: reserve %.2f GiB (p4d's own: %.2f), fragmentation %.1f %% (%.1f %%)%s.\n",
		       title_of(m, title), reserve > own ? reserve : own, own,
		       (m->fragmentation > share ? m->fragmentation : share) / 10.0, share / 10.0,
		       (m->reserve_bytes && reserve < own) || (m->fragmentation && m->fragmentation < share)
			   ? "; p4d ignores values below its own"
			   : "");
	}
}

struct json_object *p4d_margins_json(const p4d_gpu_margins *all)
{
	struct json_object *list = json_object_new_array();
	char title[MARGIN_TITLE];

	for (size_t i = 0; i < all->count; i++) {
		const p4d_gpu_margin *m = &all->margin[i];
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "framework", json_object_new_string(title_of(m, title)));
		json_object_object_add(
		    object, "reserve_gib",
		    m->reserve_bytes ? p4d_report_json_fraction(p4d_to_gib(m->reserve_bytes)) : NULL);
		json_object_object_add(object, "fragmentation",
				       m->fragmentation ? p4d_report_json_fraction(m->fragmentation / 1000.0)
							: NULL);
		json_object_array_add(list, object);
	}
	return list;
}
