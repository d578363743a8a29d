/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "picture/charts.h"
#include "picture/svg_axis.h"

enum {
	WIDTH = 1000,
	LEFT = 72,
	LABEL = 14, /* height of a label */
	TOP = 52,
	TITLE = 26, /* space for the title above each chart */
	MOST_LABEL = 220,
};

/*
 * These colours are dark enough on white, light enough on black, and distinguishable with colour blindness
 * (Okabe and Ito).
 */
static const p4d_svg_style styles[] = {
    P4D_SVG_BASE_STYLES,
    {".curve", "fill:none;stroke-width:1.6;stroke-linejoin:round", NULL},
    {".s0", "stroke:#0072b2", "stroke:#56b4e9"},
    {".s1", "stroke:#d55e00", "stroke:#ff8c42"},
    {".s2", "stroke:#007a5a", "stroke:#2fc79b"},
    {".s3", "stroke:#b0487f", "stroke:#e39ac5"},
    {".s4", "stroke:#8a6d00", "stroke:#f0e442"},
    {".s5", "stroke:#5b4fc4", "stroke:#a79ff5"},
    {".s6", "stroke:#59636e", "stroke:#b3bac1"},
    {".s7", "stroke:#a40e26", "stroke:#ff9492"},
    {".t0", "fill:#0072b2", "fill:#56b4e9"},
    {".t1", "fill:#d55e00", "fill:#ff8c42"},
    {".t2", "fill:#007a5a", "fill:#2fc79b"},
    {".t3", "fill:#b0487f", "fill:#e39ac5"},
    {".t4", "fill:#8a6d00", "fill:#f0e442"},
    {".t5", "fill:#5b4fc4", "fill:#a79ff5"},
    {".t6", "fill:#59636e", "fill:#b3bac1"},
    {".t7", "fill:#a40e26", "fill:#ff9492"},
    {NULL, NULL, NULL},
};

typedef struct frame {
	p4d_chart_axis x, y;
	double top, bottom, right;
} frame;

static double x_of(const frame *f, double x)
{
	return LEFT + (f->right - LEFT) * (x - f->x.low) / (f->x.high - f->x.low);
}

static double y_of(const frame *f, double y)
{
	return f->bottom - (f->bottom - f->top) * (y - f->y.low) / (f->y.high - f->y.low);
}

/* Draws a curve: only the lowest and the highest of the points that share a pixel. */
static void draw_curve(p4d_svg *svg, const frame *f, const p4d_chart_curve *curve)
{
	char class[16];

	snprintf(class, sizeof(class), "curve s%u", curve->color % P4D_CHART_COLORS);
	p4d_svg__curve(svg, class);
	for (size_t i = 0, next; i < curve->count; i = next) {
		size_t low = i, high = i;
		for (next = i + 1; next < curve->count &&
				   floor(x_of(f, curve->point[next].x)) == floor(x_of(f, curve->point[i].x));
		     next++) {
			low = curve->point[next].y < curve->point[low].y ? next : low;
			high = curve->point[next].y > curve->point[high].y ? next : high;
		}
		const size_t first = low < high ? low : high, second = low < high ? high : low;
		p4d_svg__curve_to(svg, x_of(f, curve->point[first].x), y_of(f, curve->point[first].y));
		if (second != first)
			p4d_svg__curve_to(svg, x_of(f, curve->point[second].x),
					  y_of(f, curve->point[second].y));
	}
	p4d_svg__curve_end(svg, curve->count == 1);
}

static void draw_labels(p4d_svg *svg, const frame *f, const p4d_chart *chart)
{
	const size_t count = p4d_chart__curves(chart);
	const unsigned rows = (unsigned)((f->bottom - f->top) / LABEL);
	int wanted[P4D_CHART_CURVES] = {0}, placed[P4D_CHART_CURVES];
	char class[16];

	for (size_t k = 0; k < count; k++) {
		const p4d_chart_curve *curve = &chart->curve[k];
		wanted[k] = (int)((y_of(f, curve->point[curve->count - 1].y) - f->top) / LABEL);
		wanted[k] = wanted[k] < (int)rows ? wanted[k] : (int)rows - 1;
	}
	p4d_chart__place_labels(wanted, count, rows, placed);
	for (size_t k = 0; k < count; k++) {
		const p4d_chart_curve *curve = &chart->curve[k];
		if (placed[k] < 0)
			continue;
		/* a single label is placed where its curve ends */
		const double y = count == 1 ? y_of(f, curve->point[curve->count - 1].y) + 4
					    : f->top + LABEL * placed[k] + LABEL - 3;
		snprintf(class, sizeof(class), "t%u", curve->color % P4D_CHART_COLORS);
		p4d_svg__text(svg, class, f->right + 8, y, "%s", curve->label);
	}
}

static void draw_chart(p4d_svg *svg, const frame *f, const p4d_chart *chart)
{
	char number[32];
	double at;

	p4d_svg__text(svg, "", LEFT, f->top - 8, "%s", chart->title);
	for (unsigned i = 0; (at = p4d_chart__tick(&f->y, i)) <= f->y.high; i++) {
		p4d_svg__line(svg, "grid", LEFT, y_of(f, at), f->right, y_of(f, at));
		p4d_svg__text(svg, "dim right", LEFT - 8, y_of(f, at) + 4, "%s",
			      p4d_chart__number(at, f->y.step, number));
	}
	for (unsigned i = 0; (at = p4d_chart__tick(&f->x, i)) <= f->x.high; i++)
		p4d_svg__line(svg, "grid", x_of(f, at), f->top, x_of(f, at), f->bottom);
	p4d_svg__line(svg, "axis", LEFT, f->bottom, f->right, f->bottom);
	for (size_t k = 0; k < p4d_chart__curves(chart); k++)
		draw_curve(svg, f, &chart->curve[k]);
	draw_labels(svg, f, chart);
}

/* The right edge of the plot, which leaves space for the longest label. */
static double right_edge(const p4d_charts *charts)
{
	double widest = 0;

	for (size_t i = 0; i < charts->count; i++)
		for (size_t k = 0; k < p4d_chart__curves(&charts->chart[i]); k++)
			widest = fmax(widest, p4d_svg__text_width(charts->chart[i].curve[k].label, 12));
	return WIDTH - 20 - fmin(widest, MOST_LABEL);
}

static double draw(p4d_svg *svg, const p4d_charts *charts)
{
	frame f = {.x = p4d_chart__x_axis(charts, 10), .bottom = TOP - TITLE, .right = right_edge(charts)};
	char number[32];
	double at;

	p4d_svg__text(svg, "title", 20, 30, "%s", charts->title);
	for (size_t i = 0; i < charts->count; i++) {
		const p4d_chart *chart = &charts->chart[i];
		f.top = f.bottom + 2 * TITLE;
		f.bottom = f.top + P4D_CHART_ROW * chart->rows;
		f.y = p4d_chart__y_axis(chart, 2 + chart->rows / 2);
		draw_chart(svg, &f, chart);
	}
	for (unsigned i = 0; (at = p4d_chart__tick(&f.x, i)) <= f.x.high; i++)
		p4d_svg__text(svg, "dim middle", x_of(&f, at), f.bottom + 16, "%s",
			      p4d_chart__number(at, f.x.step, number));
	p4d_svg__text(svg, "dim", f.right + 8, f.bottom + 16, "step");
	return f.bottom + 36;
}

int p4d_picture_charts(const p4d_charts *charts, const char *path, p4d_error *err)
{
	char description[128];
	p4d_svg svg;

	if (p4d_svg__open(&svg, err) < 0)
		return -1;
	const double height = draw(&svg, charts);
	snprintf(description, sizeof(description),
		 "%zu charts over the steps of a training; the first: %.60s.", charts->count,
		 charts->chart[0].title);
	return p4d_svg__save(&svg, path, WIDTH, height, charts->title, description, styles, err);
}
