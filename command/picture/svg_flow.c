/* SPDX-License-Identifier: Apache-2.0 */
/* Draws memory over time, below the passes that allocate and free it. */
#include <math.h>
#include <stdio.h>

#include "picture/svg_timeline.h"

enum { MOST_ROWS = 16, HEAD = 22 };

typedef struct strip {
	double floor, height; /* pixels */
	double bytes;         /* bytes that the full height stands for */
} strip;

static double y_of(const strip *s, double bytes)
{
	return s->floor - s->height * fmin(bytes / s->bytes, 1);
}

/* Draws the memory of one stage over time. An instruction occupies its slots when it starts, and frees
 * them when it ends. If several changes fall on one pixel, it draws the highest level. */
static int draw_level(p4d_svg *svg, const p4d_simulation *s, const p4d_view *view, uint32_t stage,
		      const strip *in, p4d_error *err)
{
	const p4d_simulated *of = &s->stage[stage];
	const p4d_instruction_list *list = &s->lists[stage];
	double pixel = P4D_VIEW_LEFT, highest = (double)of->base_bytes, level = highest;
	p4d_live live;

	if (p4d_simulation__live_begin(&live, list, err) < 0)
		return -1;
	p4d_svg__area(svg, "held", P4D_VIEW_LEFT, in->floor);
	for (size_t i = 0; i < 2 * list->count; i++) {
		const p4d_span *span = &s->timeline.span[stage][i / 2];
		const p4d_instruction *at = &list->at[i / 2];
		if (i % 2 == 0)
			p4d_simulation__live_take(&live, at);
		else
			p4d_simulation__live_release(&live, at);
		const bool updates = at->op == P4D_OP_OPTIMIZER && i % 2 == 0;
		const double next =
		    updates ? (double)of->step_bytes : (double)p4d_simulation__bytes(of, &live.now);
		if (next == level)
			continue;
		const double time = i % 2 == 0 ? span->start : span->end;
		const bool hidden = view->broken && time > view->shown && time < view->end - view->shown;
		const double x = p4d_view__x(view, time);
		if (x - pixel >= 0.5) {
			p4d_svg__area_to(svg, pixel, y_of(in, highest));
			/* draws the level up to here, unless it is the highest of its pixel */
			if (level != highest)
				p4d_svg__area_to(svg, pixel + 0.3, y_of(in, level));
			pixel = x;
			highest = next;
		}
		highest = hidden ? next : fmax(highest, next);
		level = next;
	}
	p4d_svg__area_to(svg, pixel, y_of(in, highest));
	p4d_svg__area_end(svg, p4d_view__x(view, view->end), in->floor);
	p4d_simulation__live_free(&live);
	return 0;
}

static void draw_numbers(p4d_svg *svg, uint32_t stage, double bytes, double capacity, double limit, double y)
{
	const bool over = capacity > 0 && bytes > limit * capacity;

	p4d_svg__text(svg, "right", P4D_VIEW_LEFT - 8, y, "stage %u", stage);
	p4d_svg__text(svg, over ? "right bad" : "right", P4D_VIEW_WIDTH - P4D_VIEW_RIGHT + 56, y, "%.1f",
		      bytes / (1 << 30));
	if (capacity > 0)
		p4d_svg__text(svg, over ? "right bad" : "right dim", P4D_VIEW_WIDTH - 14, y, "%.1f %%",
			      100 * bytes / capacity);
}

static void draw_limit(p4d_svg *svg, double y)
{
	p4d_svg__line(svg, "halo", P4D_VIEW_LEFT, y, P4D_VIEW_LEFT + P4D_VIEW_PLOT, y);
	p4d_svg__line(svg, "room", P4D_VIEW_LEFT, y, P4D_VIEW_LEFT + P4D_VIEW_PLOT, y);
}

int p4d_picture__flow(p4d_svg *svg, const p4d_simulation *s, const p4d_view *view, double capacity,
		      double limit, double y, double *height, p4d_error *err)
{
	const p4d_rows_shown rows = p4d_view__rows(s->schedule.stages, MOST_ROWS);
	const double pitch = rows.count <= 4 ? 52 : rows.count <= 8 ? 38 : 26;
	const char *what = p4d_on_gpu(s->layout->device) ? "GPU" : "rank";
	double most = capacity;

	for (uint32_t i = 0; i < s->schedule.stages; i++)
		most = fmax(most, (double)s->stage[i].memory.device_bytes);
	if (rows.step > 1)
		p4d_svg__text(svg, "", P4D_VIEW_LEFT, y + 10, "Memory over time, one %s of one stage in %u",
			      what, rows.step);
	else
		p4d_svg__text(svg, "", P4D_VIEW_LEFT, y + 10, "Memory over time, one %s of each stage", what);
	p4d_svg__text(svg, "dim right", P4D_VIEW_WIDTH - P4D_VIEW_RIGHT + 56, y + 10, "peak GiB");
	if (capacity > 0)
		p4d_svg__text(svg, "bad right", P4D_VIEW_WIDTH - P4D_VIEW_RIGHT - 10, y + 10,
			      "limit %.1f GiB (%.0f %% of %.1f)", limit * capacity / (1 << 30), 100 * limit,
			      capacity / (1 << 30));
	for (uint32_t row = 0; row < rows.count; row++) {
		const uint32_t stage = p4d_row_stage(&rows, row);
		const double top = y + HEAD + pitch * row;
		const strip in = {top + pitch - 5, pitch - 5, most};
		const double base = y_of(&in, (double)s->stage[stage].base_bytes);
		p4d_svg__rect(svg, "lane", P4D_VIEW_LEFT, top, P4D_VIEW_PLOT, in.height);
		if (draw_level(svg, s, view, stage, &in, err) < 0)
			return -1;
		p4d_svg__rect(svg, "base", P4D_VIEW_LEFT, base, P4D_VIEW_PLOT, in.floor - base);
		if (capacity > 0)
			draw_limit(svg, y_of(&in, limit * capacity));
		draw_numbers(svg, stage, (double)s->stage[stage].memory.device_bytes, capacity, limit,
			     top + in.height / 2 + 4);
	}
	*height = HEAD + pitch * rows.count - 5;
	return 0;
}
