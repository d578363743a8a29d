/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which part of a step is drawn, and where. */
#include <math.h>

#include "picture/svg_timeline.h"

enum {
	LEAST_PASS =
	    3, /* minimum pixels of a forward pass; if the whole step does not fit with it, it gets a break */
	BROKEN_PASS = 6, /* pixels of a forward pass in a step with a break */
};

/* Mean duration of a forward pass over all chunks. */
static double forward_pass(const p4d_simulation *s)
{
	const uint32_t chunks = s->schedule.stages * s->schedule.chunks;
	double sum = 0;

	for (uint32_t i = 0; i < chunks; i++)
		sum += s->durations.forward[i];
	return sum / chunks;
}

/* The time until all stages have started: the end of the first pass on the stage that starts last. */
static double fill_time(const p4d_simulation *s)
{
	double latest = 0;

	for (uint32_t stage = 0; stage < s->schedule.stages; stage++) {
		const p4d_instruction_list *list = &s->lists[stage];
		for (size_t i = 0; i < list->count; i++)
			if (list->at[i].op == P4D_OP_FORWARD) {
				latest = fmax(latest, s->timeline.span[stage][i].end);
				break;
			}
	}
	return latest;
}

p4d_view p4d_view__of(const p4d_simulation *s)
{
	const double end = s->timeline.seconds, pass = forward_pass(s), plot = P4D_VIEW_PLOT;
	p4d_view view = {.end = end, .shown = end, .scale = plot / end};

	if (pass * view.scale >= LEAST_PASS)
		return view;
	/* each side of the break shows at least one micro-batch that passes through all stages and back,
	 * which takes three fill times */
	const double shown = fmax((plot - P4D_VIEW_GAP) / BROKEN_PASS * pass, 7 * fill_time(s));
	if (shown > 0.8 * end)
		return view;
	view.broken = true;
	view.shown = shown / 2;
	view.scale = (plot - P4D_VIEW_GAP) / shown;
	return view;
}

double p4d_view__x(const p4d_view *view, double time)
{
	if (!view->broken || time <= view->shown)
		return P4D_VIEW_LEFT + time * view->scale;
	return P4D_VIEW_LEFT + P4D_VIEW_PLOT - fmin(view->end - time, view->shown) * view->scale;
}

bool p4d_view__span(const p4d_view *view, const p4d_span *span, double *x, double *width)
{
	double start = span->start, end = span->end;

	if (view->broken && start < view->shown)
		end = fmin(end, view->shown);
	else if (view->broken)
		start = fmax(start, view->end - view->shown);
	*x = P4D_VIEW_LEFT + start * view->scale;
	*width = (end - start) * view->scale;
	if (view->broken && start >= view->shown)
		*x = p4d_view__x(view, start);
	return *width >= 0.05;
}

p4d_rows_shown p4d_view__rows(uint32_t stages, uint32_t most)
{
	const uint32_t step = stages <= most ? 1 : (stages - 1 + most - 2) / (most - 1);

	return (p4d_rows_shown){.count = (stages - 1 + step - 1) / step + 1, .step = step, .stages = stages};
}
