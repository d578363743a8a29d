/* SPDX-License-Identifier: Apache-2.0 */
/* Prints step times as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "report/table.h"
#include "request/framework.h"

const char *p4d_report_seconds(double seconds, char buf[P4D_SIZE_TEXT])
{
	if (seconds < 1)
		snprintf(buf, P4D_SIZE_TEXT, "%.1f ms", 1e3 * seconds);
	else
		snprintf(buf, P4D_SIZE_TEXT, "%.*f s", seconds < 10 ? 3 : seconds < 100 ? 2 : 1, seconds);
	return buf;
}

int p4d_report_time_step(const p4d_layout *layout, const p4d_gpu *gpu, p4d_timed *timed, p4d_error *err)
{
	p4d_timeline_work work = {0};
	p4d_step step = {.seconds = 0};
	int result = 0;

	if (gpu && p4d_on_gpu(layout->device) && p4d_cost_known(layout, gpu))
		result = p4d_cost_step(layout, gpu, &work, &step, err);
	p4d_timeline_work_free(&work);
	return result < 0 ? -1 : p4d_report_timed_of(layout, gpu, &step, timed, err);
}

int p4d_report_timed_of(const p4d_layout *layout, const p4d_gpu *gpu, const p4d_step *step, p4d_timed *timed,
			p4d_error *err)
{
	memset(timed, 0, sizeof(*timed));
	timed->known = step->seconds > 0;
	timed->missing = gpu && p4d_on_gpu(layout->device) ? p4d_cost_missing(layout, gpu) : NULL;
	timed->step = *step;
	timed->unvalidated = layout->state.heads ? "state-space layers" : NULL;
	timed->error = p4d_framework_of(layout->framework)->cost.error;
	return timed->known ? p4d_breakdown_of(layout, gpu, step, &timed->losses, err) : 0;
}

const char *p4d_report_limits(const p4d_timed *timed, char *buf, size_t size)
{
	const p4d_breakdown *losses = &timed->losses;
	const double first = 100 * losses->fraction[losses->largest];
	const double second = 100 * losses->fraction[losses->second];

	if (!timed->known)
		snprintf(buf, size, "-");
	else if (second < 1)
		snprintf(buf, size, "%s %.0f %%", p4d_breakdown_name(losses->largest), first);
	else
		snprintf(buf, size, "%s %.0f %%, %s %.0f %%", p4d_breakdown_name(losses->largest), first,
			 p4d_breakdown_name(losses->second), second);
	return buf;
}

const char *p4d_report_step_text(const p4d_gpu *gpu, const p4d_timed *timed, char *buf, size_t size)
{
	const p4d_step *s = &timed->step;
	char seconds[P4D_SIZE_TEXT], limits[96];

	buf[0] = '\0';
	if (gpu && !timed->known)
		snprintf(buf, size, "Step time: not predicted, %s has no %s (p4d explain P4D014)", gpu->name,
			 timed->missing ? timed->missing : "performance data");
	else if (gpu)
		snprintf(buf, size,
			 "Step%s%s%s: %s, %.0f tokens/s per GPU, MFU %.1f %% (%.0f TFLOP/s; %.1f %%, %.0f "
			 "TFLOP/s with "
			 "full attention and recomputation), bubble %.1f %%; largest losses: %s%s%s",
			 timed->unvalidated ? " (unvalidated: " : "",
			 timed->unvalidated ? timed->unvalidated : "", timed->unvalidated ? ")" : "",
			 p4d_report_seconds(s->seconds, seconds), s->tokens_per_second_per_gpu, 100 * s->mfu,
			 s->tflops_per_gpu, 100 * s->hfu, s->hardware_tflops_per_gpu,
			 100 * s->bubble_fraction, p4d_report_limits(timed, limits, sizeof(limits)),
			 timed->error ? "; accuracy: " : "", timed->error ? timed->error : "");
	return buf;
}

void p4d_report_step(const p4d_gpu *gpu, const p4d_timed *timed)
{
	char text[512];

	if (gpu)
		p4d_table_print_wrapped(0, 0, p4d_report_step_text(gpu, timed, text, sizeof(text)));
}

static struct json_object *number(double value, int decimals)
{
	char digits[400];

	snprintf(digits, sizeof(digits), "%.*f", decimals, value);
	return json_object_new_double_s(value, digits);
}

struct json_object *p4d_report_json_seconds(double seconds)
{
	return number(seconds, 6);
}

struct json_object *p4d_report_json_step(const p4d_timed *timed)
{
	const p4d_step *s = &timed->step;
	const struct {
		const char *name;
		int decimals;
		double value;
	} members[] = {
	    {"seconds", 6, s->seconds},
	    {"tokens_per_second_per_gpu", 2, s->tokens_per_second_per_gpu},
	    {"tflops_per_gpu", 3, s->tflops_per_gpu},
	    {"hardware_tflops_per_gpu", 3, s->hardware_tflops_per_gpu},
	    {"mfu", 4, s->mfu},
	    {"hfu", 4, s->hfu},
	    {"bubble_fraction", 4, s->bubble_fraction},
	};

	if (!timed->known)
		return NULL;
	struct json_object *object = json_object_new_object();
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_object_object_add(object, members[i].name,
				       number(members[i].value, members[i].decimals));
	if (timed->unvalidated)
		json_object_object_add(object, "unvalidated", json_object_new_string(timed->unvalidated));
	if (timed->error)
		json_object_object_add(object, "accuracy", json_object_new_string(timed->error));
	return object;
}

struct json_object *p4d_report_json_breakdown(const p4d_timed *timed)
{
	if (!timed->known)
		return NULL;
	struct json_object *object = json_object_new_object();
	for (int i = 0; i < P4D_LOSS_COUNT; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s", p4d_breakdown_name((p4d_breakdown_part)i));
		for (char *at = name; (at = strchr(at, '-'));)
			*at = '_';
		json_object_object_add(object, name, p4d_report_json_fraction(timed->losses.fraction[i]));
	}
	return object;
}
