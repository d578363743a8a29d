/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_step.h"

#include <stdio.h>

#include "report/report.h"

/* If no PyTorch operation started a larger share of the kernels than this, the step's time is unknown. */
#define FOREIGN_SHARE 0.05

/* The least seconds for matmuls and convolutions, at the rate in data sheets; 0: unknown. */
static double least_seconds(const p4d_rehearse_answer *a, const p4d_rehearsed *r, uint64_t flops)
{
	const double rate = a->player->gpu->peak_bf16_flops;

	return rate > 0 ? ((double)flops + r->work.convolutions) / rate : 0;
}

static bool waits_for_stages(const p4d_counted *w)
{
	for (unsigned i = 0; i < w->wires; i++)
		if (w->wire[i].transferred > 0)
			return true;
	return false;
}

/*
 * Estimated seconds of a rank's last rehearsed step on a real GPU, between low and high, from the work that
 * was counted. high is 0 if some work was not counted, or waits for ranks that did not run; low is then a
 * lower bound, and `why` has the reason. low is 0 if nothing is known.
 */
typedef struct p4d_rehearse_step {
	p4d_seconds seconds;
	char why[96]; /* "" if low and high are known */
} p4d_rehearse_step;

static p4d_rehearse_step step_of(const p4d_rehearsed *r, const p4d_gpu *gpu)
{
	p4d_rehearse_step s = {.why = ""};
	const p4d_counted *w = &r->work;

	if (!r->followed || !w->kernels)
		return s;
	const char *key = p4d_cost_counted(w, gpu, &s.seconds);
	if (key)
		snprintf(s.why, sizeof(s.why), "%s of %s is not known", key, gpu->name);
	else if (waits_for_stages(w))
		snprintf(s.why, sizeof(s.why), "without the time that it waits for other pipeline stages");
	else if (w->foreign > FOREIGN_SHARE * w->kernels)
		snprintf(s.why, sizeof(s.why), "without %.0f of %.0f kernels, which PyTorch did not start",
			 w->foreign, w->kernels);
	if (*s.why)
		s.seconds.high = 0;
	return s;
}

/* Returns the separator for the next part. */
static const char *print_seconds(const p4d_rehearse_step *s)
{
	char low[P4D_SIZE_TEXT], high[P4D_SIZE_TEXT];

	if (s->seconds.high > 0)
		printf(", %s to %s", p4d_report_seconds(s->seconds.low, low),
		       p4d_report_seconds(s->seconds.high, high));
	else if (s->seconds.low > 0)
		printf(", %s or more %s", p4d_report_seconds(s->seconds.low, low), s->why);
	else if (*s->why)
		printf(" (the time is not known: %s)", s->why);
	else
		return ",";
	return ";";
}

static void print_flops(double flops)
{
	const bool many = flops >= 1e15;

	printf("%.3g %s", flops / (many ? 1e15 : 1e12), many ? "PFLOP" : "TFLOP");
}

void p4d_rehearse_step__print(const p4d_rehearse_answer *a, const p4d_rehearsed *r)
{
	const p4d_rehearse_step step = step_of(r, a->player->gpu);
	uint64_t flops, bytes;
	char text[P4D_SIZE_TEXT];

	if (!p4d_rehearsed__last_step(r, &flops, &bytes) || (!flops && r->work.convolutions <= 0))
		return;
	const double least = least_seconds(a, r, flops);
	printf("Step:  ");
	print_flops((double)flops);
	printf(" of matrix products");
	if (r->work.convolutions > 0) {
		printf(" and ");
		print_flops(r->work.convolutions);
		printf(" of convolutions");
	}
	const char *then = print_seconds(&step);
	if (least > 0)
		printf("%s at least %s at %.0f TFLOP/s", then, p4d_report_seconds(least, text),
		       a->player->gpu->peak_bf16_flops / 1e12);
	if (bytes)
		printf("; %.2f GiB handed to NCCL", p4d_to_gib(bytes));
	puts(".");
}

static void add_seconds(struct json_object *o, const char *name, double seconds)
{
	json_object_object_add(o, name, seconds > 0 ? json_object_new_double(seconds) : NULL);
}

struct json_object *p4d_rehearse_step__json(const p4d_rehearse_answer *a, const p4d_rehearsed *r)
{
	const p4d_rehearse_step step = step_of(r, a->player->gpu);
	struct json_object *o;
	uint64_t flops, bytes;

	if (!p4d_rehearsed__last_step(r, &flops, &bytes))
		return NULL;
	o = json_object_new_object();
	json_object_object_add(o, "flops", json_object_new_uint64(flops));
	add_seconds(o, "least_seconds", least_seconds(a, r, flops));
	add_seconds(o, "low_seconds", step.seconds.low);
	add_seconds(o, "high_seconds", step.seconds.high);
	json_object_object_add(o, "why", *step.why ? json_object_new_string(step.why) : NULL);
	json_object_object_add(o, "kernels", json_object_new_uint64((uint64_t)r->work.kernels));
	json_object_object_add(o, "collective_bytes", json_object_new_uint64(bytes));
	return o;
}
