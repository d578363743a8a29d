/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "picture/simulation.h"
#include "picture/svg_axis.h"

/* Shared by both parts of the time line: the passes (svg_timeline.c) and the memory (svg_flow.c). */

enum {
	P4D_VIEW_WIDTH = 1200,
	P4D_VIEW_LEFT = 76,
	P4D_VIEW_RIGHT = 128,
	P4D_VIEW_PLOT = P4D_VIEW_WIDTH - P4D_VIEW_LEFT - P4D_VIEW_RIGHT,
	P4D_VIEW_GAP = 34, /* pixels between the two halves at a break */
};

/*
 * Converts time to pixels. A step with too many passes shows its beginning and its end, with a break between
 * two equal halves of the plot.
 */
typedef struct p4d_view {
	double end;   /* time at which the step ends */
	double shown; /* time that each side of the break shows; the whole time if there is no break */
	bool broken;
	double scale; /* pixels per unit of time */
} p4d_view;

p4d_view p4d_view__of(const p4d_simulation *simulation);

/*
 * The visible part of a span, in pixels; false: it is not visible. A span that reaches into the break is cut
 * there.
 */
bool p4d_view__span(const p4d_view *view, const p4d_span *span, double *x, double *width);

/* The pixel of a time. A time inside the break is drawn at the edge of the break. */
double p4d_view__x(const p4d_view *view, double time);

/* Which of `stages` stages get a row if there is room for `most` rows: every k-th, and the last. */
typedef struct p4d_rows_shown {
	uint32_t count, step, stages;
} p4d_rows_shown;
p4d_rows_shown p4d_view__rows(uint32_t stages, uint32_t most);
static inline uint32_t p4d_row_stage(const p4d_rows_shown *rows, uint32_t row)
{
	return row == rows->count - 1 ? rows->stages - 1 : row * rows->step;
}

/*
 * svg_flow.c: draws memory over time, starting at y; returns the height. capacity 0: unknown. Errors:
 * NO_MEMORY.
 */
int p4d_picture__flow(p4d_svg *svg, const p4d_simulation *simulation, const p4d_view *view, double capacity,
		      double limit, double y, double *height, p4d_error *err);
