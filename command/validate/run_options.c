/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/run_options.h"

#include <string.h>

#include "base/text.h"

enum { VALUE = 1100 };

static bool is_written(const p4d_request *request, bool shape, p4d_option option)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	const p4d_origin origin = (p4d_origin)request->origin[option];

	if (origin == P4D_UNSET || origin == P4D_BY_P4D || info->kind == P4D_SWITCH_KIND ||
	    !(info->where & P4D_WHERE_COMMAND) || option == P4D_GPU || option == P4D_OVERRIDE)
		return false;
	if (option == P4D_MODEL)
		return !shape;
	return shape || !(info->where & P4D_WHERE_MODEL) || origin != P4D_BY_MODEL;
}

bool p4d_run_options_write(const p4d_request *request, bool shape, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	char value[VALUE];

	if (p4d_is_set(request, P4D_UNMODELLED))
		return false;
	if (shape)
		p4d_text_add(&text, "--model=custom");
	for (int i = 0; i < P4D_OPTIONS; i++) {
		if (!is_written(request, shape, (p4d_option)i))
			continue;
		p4d_request_value_text(request, (p4d_option)i, value, sizeof(value));
		if (!*value || strpbrk(value, " \t\"\r\n"))
			return false;
		p4d_text_print(&text, "%s--%s=%s", text.length ? " " : "",
			       p4d_request_option_info((p4d_option)i)->name, value);
	}
	return !text.truncated;
}
