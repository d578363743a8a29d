/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Charts below each other with a common horizontal axis (steps). They are drawn as a picture or as text.
 * The structs own nothing. */

enum {
	P4D_CHART_COLORS = 8,
	P4D_CHART_CURVES = 256, /* maximum number of curves in a chart; further ones are not drawn */
};

typedef struct p4d_chart_point {
	double x, y; /* finite */
} p4d_chart_point;

typedef struct p4d_chart_curve {
	const char *label;            /* label at the curve's end; "": none */
	unsigned color;               /* below P4D_CHART_COLORS */
	const p4d_chart_point *point; /* x ascending */
	size_t count;                 /* at least 1 */
} p4d_chart_curve;

typedef struct p4d_chart {
	const char *title;
	bool from_zero; /* the axis of values begins at zero */
	unsigned rows;  /* number of text rows; a picture has P4D_CHART_ROW pixels for each */
	const p4d_chart_curve *curve;
	size_t count; /* at least 1 */
} p4d_chart;

enum { P4D_CHART_ROW = 22 };

typedef struct p4d_charts {
	const char *title;
	const p4d_chart *chart;
	size_t count; /* at least 1 */
} p4d_charts;

/* svg_charts.c: draws the charts as an SVG file. Errors: IO, NO_MEMORY. */
int p4d_picture_charts(const p4d_charts *charts, const char *path, p4d_error *err);

/*
 * text_charts.c: prints to stdout, with the terminal's width (otherwise 80 columns). Uses Braille dots if the
 * locale has UTF-8, else ASCII; colours on a terminal, unless NO_COLOR is set. Errors: NO_MEMORY.
 */
int p4d_charts_print(const p4d_charts *charts, p4d_error *err);

/* charts.c: functions that both use */

/* An axis from low to high, with a tick at each multiple of step. */
typedef struct p4d_chart_axis {
	double low, high, step;
} p4d_chart_axis;

p4d_chart_axis p4d_chart__x_axis(const p4d_charts *charts, unsigned most_ticks);
p4d_chart_axis p4d_chart__y_axis(const p4d_chart *chart, unsigned most_ticks);
/* The first tick, and the i-th tick. A tick above `high` means that there is none. */
double p4d_chart__tick(const p4d_chart_axis *axis, unsigned i);
/* "0.25", "1.5k", "20M": with as many digits as ticks of this step need. */
const char *p4d_chart__number(double value, double step, char buf[32]);

/* Places labels in rows (0 is the top row), at most one in a row. Each label gets the free row that is
 * nearest to its wanted row; -1: no row is free. */
void p4d_chart__place_labels(const int *wanted, size_t count, unsigned rows, int *placed);

/* The number of curves that are drawn. */
static inline size_t p4d_chart__curves(const p4d_chart *chart)
{
	return chart->count < P4D_CHART_CURVES ? chart->count : P4D_CHART_CURVES;
}
