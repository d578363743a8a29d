/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "picture/simulation.h"
#include "picture/svg_axis.h"

/* Shared by the two halves of the time line, passes and memory: svg_timeline.c and svg_flow.c. */

enum {
	P4D_VIEW_WIDTH = 1200,
	P4D_VIEW_LEFT = 76,
	P4D_VIEW_RIGHT = 128,
	P4D_VIEW_PLOT = P4D_VIEW_WIDTH - P4D_VIEW_LEFT - P4D_VIEW_RIGHT,
	P4D_VIEW_GAP = 34, /* of a break */
};

/*
 * Converts time to pixels. A step with too many passes shows its beginning and its end, with a break between
 * two equal halves of the plot.
 */
typedef struct p4d_view {
	double end;   /* of the step */
	double shown; /* time shown at each side of the break; the whole time if there is none */
	bool broken;
	double scale; /* pixels per unit of time */
} p4d_view;

p4d_view p4d_view__of(const p4d_simulation *simulation);

/* The visible part of a span; false if none. A span over the break is cut there. */
bool p4d_view__span(const p4d_view *view, const p4d_span *span, double *x, double *width);

/* The pixel of a time. A time inside the break is at its left or right edge, whichever comes next. */
double p4d_view__x(const p4d_view *view, double time);

/* Which of `stages` get a row if there is room for `most`: every k-th, and the last. */
typedef struct p4d_rows_shown {
	uint32_t count, step, stages;
} p4d_rows_shown;
p4d_rows_shown p4d_view__rows(uint32_t stages, uint32_t most);
static inline uint32_t p4d_row_stage(const p4d_rows_shown *rows, uint32_t row)
{
	return row == rows->count - 1 ? rows->stages - 1 : row * rows->step;
}

/* svg_flow.c: memory over time, from y on; returns the height. capacity 0: unknown. Errors: NO_MEMORY. */
int p4d_picture__flow(p4d_svg *svg, const p4d_simulation *simulation, const p4d_view *view, double capacity,
		      double limit, double y, double *height, p4d_error *err);
