/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture/svg.h"
#include "picture/svg_axis.h"

enum {
	WIDTH = 1000,
	LEFT = 56,
	RIGHT = 150,
	PLOT = WIDTH - LEFT - RIGHT,
	HEIGHT = 380,
	LEGEND_TOP = 66,
	LEAST_PHASE = 44, /* minimum width of a phase in pixels, unless there are too many phases */
};

static const p4d_svg_key bands[P4D_HISTORY_BANDS + 1] = {
    [P4D_HISTORY_CONTEXT] = {"pb", "context"},
    [P4D_HISTORY_PARAMETERS] = {"p0", "parameters"},
    [P4D_HISTORY_GRADIENTS] = {"p1", "gradients"},
    [P4D_HISTORY_OPTIMIZER] = {"p2", "optimizer"},
    [P4D_HISTORY_ACTIVATIONS] = {"p3", "activations"},
    [P4D_HISTORY_LOGITS] = {"p4", "logits"},
    [P4D_HISTORY_COMMUNICATION] = {"p8", "communication"},
    [P4D_HISTORY_OTHER] = {"p9", "other"},
    [P4D_HISTORY_BANDS] = {"pa", "reserved"},
};

static const p4d_svg_style styles[] = {
    P4D_SVG_BASE_STYLES,
    P4D_SVG_MEMORY_STYLES,
    {".pa", "fill:#e3e7eb", "fill:#2d343d"},
    {".edge", "fill:none;stroke:#59636e;stroke-width:1.2", "stroke:#9198a1"},
    {".mark", "stroke:#1f2328;stroke-width:1", "stroke:#e6edf3"},
    {".peak", "fill:#1f2328", "fill:#e6edf3"},
    {".small", "font-size:11px", NULL},
    {NULL, NULL, NULL},
};

typedef struct history_plot {
	const p4d_history *history;
	double *x; /* positions of the beginning of each phase, and of the end; owned */
	double scale, top, bottom;
} history_plot;

p4d_history_band p4d_history_band_of(const char *kind)
{
	for (int band = 0; band < P4D_HISTORY_BANDS; band++)
		if (!strcmp(kind, bands[band].text))
			return (p4d_history_band)band;
	return P4D_HISTORY_OTHER;
}

/* The width of a phase is proportional to its number of events, but large enough to be visible. */
static void place_phases(history_plot *p)
{
	const p4d_history *h = p->history;
	const double least = fmin(LEAST_PHASE, PLOT / 2.0 / (double)h->phases);
	const double spare = PLOT - least * (double)h->phases;

	p->x[0] = LEFT;
	for (size_t i = 0; i < h->phases; i++)
		p->x[i + 1] = p->x[i] + least + spare * (h->phase[i].ends - h->phase[i].begins) / h->events;
}

static double x_of(const history_plot *p, double event)
{
	const p4d_history *h = p->history;
	size_t i = 0;

	while (i + 1 < h->phases && h->phase[i + 1].begins <= event)
		i++;
	const double events = h->phase[i].ends - h->phase[i].begins;
	if (events <= 0)
		return p->x[i];
	return p->x[i] + (p->x[i + 1] - p->x[i]) * fmin(1, (event - h->phase[i].begins) / events);
}

static double y_of(const history_plot *p, double bytes)
{
	return p->bottom - (p->bottom - p->top) * bytes / p->scale;
}

static void draw_axis(p4d_svg *svg, const history_plot *p)
{
	const double range = p->scale / (1 << 30), step = p4d_svg__axis_step(range, 8);

	for (unsigned i = 0; step * i <= range; i++) {
		const double y = y_of(p, step * i * (1 << 30));
		p4d_svg__line(svg, "grid", LEFT, y, LEFT + PLOT, y);
		p4d_svg__text(svg, "dim right", LEFT - 8, y + 4, "%.*f", p4d_svg__axis_decimals(step),
			      step * i);
	}
	p4d_svg__text(svg, "dim right", LEFT - 8, p->top - 10, "GiB");
}

/* Draws one area from the floor to the top of this band, over all lower bands. Areas that are drawn later
 * cover it. P4D_HISTORY_BANDS draws the reserved memory. */
static void draw_area(p4d_svg *svg, const history_plot *p, int band)
{
	p4d_svg__area(svg, bands[band].class, LEFT, p->bottom);
	for (size_t i = 0; i < p->history->moments; i++) {
		const p4d_history_moment *m = &p->history->moment[i];
		double bytes = 0;
		for (int k = 0; k <= band && k < P4D_HISTORY_BANDS; k++)
			bytes += m->band[k];
		p4d_svg__area_to(svg, x_of(p, m->event),
				 y_of(p, band == P4D_HISTORY_BANDS ? m->reserved : bytes));
	}
	p4d_svg__area_end(svg, LEFT + PLOT, p->bottom);
}

static void draw_phases(p4d_svg *svg, const history_plot *p)
{
	uint64_t step = 0;

	for (size_t i = 0; i < p->history->phases; i++) {
		const p4d_history_phase *phase = &p->history->phase[i];
		const double x = p->x[i], width = p->x[i + 1] - x;
		const bool is_new = phase->step != step || !i;
		p4d_svg__line(svg, is_new && i ? "axis" : "grid", x, p->top, x,
			      p->bottom + (is_new ? 38 : 6));
		if (p4d_svg__text_width(phase->name, 11) < width - 2)
			p4d_svg__text(svg, "dim small middle", x + width / 2, p->bottom + 16, "%s",
				      phase->name);
		if (is_new)
			p4d_svg__text(svg, "small", x + 4, p->bottom + 34, "step %" PRIu64, phase->step);
		step = phase->step;
	}
	p4d_svg__line(svg, "axis", LEFT, p->bottom, LEFT + PLOT, p->bottom);
}

typedef struct history_mark {
	const char *class, *name;
	double bytes;
	uint64_t printed;
} history_mark;

/* Draws texts next to the plot, from the top down, at least one line apart. */
static void label_marks(p4d_svg *svg, const history_plot *p, const history_mark *marks, size_t count)
{
	double last = 0;

	for (size_t i = 0; i < count; i++) {
		last = fmax(y_of(p, marks[i].bytes) + 4, last + 15);
		p4d_svg__text(svg, marks[i].class, LEFT + PLOT + 8, last, "%s %.1f", marks[i].name,
			      (double)marks[i].printed / (1 << 30));
	}
}

static void draw_marks(p4d_svg *svg, const history_plot *p)
{
	const p4d_history *h = p->history;
	const double right = LEFT + PLOT, x = x_of(p, h->peak);
	const double context = h->moment[0].band[P4D_HISTORY_CONTEXT];
	const double held = y_of(p, (double)h->device), limit = y_of(p, (double)h->capacity);
	const double allocated = y_of(p, (double)h->allocated + context);
	const bool is_above = (double)h->capacity > p->scale;
	const history_mark capacity = {"bad", is_above ? "↑ capacity" : "capacity",
				       is_above ? p->scale : (double)h->capacity, h->capacity};
	const history_mark peak = {"", "peak", (double)h->device, h->device};
	const bool is_over = h->device > h->capacity;
	const history_mark marks[] = {is_over ? peak : capacity,
				      is_over ? capacity : peak,
				      {"dim", "allocated", (double)h->allocated + context, h->allocated}};

	if (!is_above) {
		p4d_svg__line(svg, "halo", LEFT, limit, right, limit);
		p4d_svg__line(svg, "limit", LEFT, limit, right, limit);
	}
	p4d_svg__line(svg, "halo", x, allocated, x, p->bottom);
	p4d_svg__line(svg, "mark", x, allocated, x, p->bottom);
	p4d_svg__rect(svg, "peak", x - 3, allocated - 3, 6, 6);
	p4d_svg__line(svg, "mark", right - 6, held, right + 4, held);
	label_marks(svg, p, marks, 3);
}

/* Lists the bands that are large enough to be visible, and the reserved memory. */
static size_t used_bands(const history_plot *p, p4d_svg_key keys[P4D_HISTORY_BANDS + 1])
{
	bool used[P4D_HISTORY_BANDS] = {false};
	size_t count = 0;

	for (size_t i = 0; i < p->history->moments; i++)
		for (int band = 0; band < P4D_HISTORY_BANDS; band++)
			used[band] = used[band] || p->history->moment[i].band[band] >= p->scale / 1000;
	for (int band = 0; band < P4D_HISTORY_BANDS; band++)
		if (used[band])
			keys[count++] = bands[band];
	keys[count++] = bands[P4D_HISTORY_BANDS];
	return count;
}

static double draw(p4d_svg *svg, history_plot *p)
{
	p4d_svg_key keys[P4D_HISTORY_BANDS + 1];
	const size_t count = used_bands(p, keys);

	p4d_svg__text(svg, "title", 20, 30, "%s", p->history->title);
	p4d_svg__text(svg, "dim", 20, 50, "%s", p->history->subtitle);
	p->top = LEGEND_TOP + p4d_svg__legend(svg, 20, LEGEND_TOP, WIDTH - 40, keys, count) + 30;
	p->bottom = p->top + HEIGHT;
	draw_axis(svg, p);
	for (int band = P4D_HISTORY_BANDS; band >= 0; band--)
		draw_area(svg, p, band);
	draw_phases(svg, p);
	draw_marks(svg, p);
	return p->bottom + 52;
}

/* Bytes at the top of the axis: the capacity, unless only a small part of it is used. */
static double scale_of(const p4d_history *h)
{
	const uint64_t most =
	    h->device > h->capacity || h->device < h->capacity / 3 ? h->device : h->capacity;

	return (most == h->capacity ? 1.04 : 1.15) * (double)most;
}

int p4d_history_draw(const p4d_history *h, const char *path, p4d_error *err)
{
	history_plot p = {.history = h, .scale = scale_of(h)};
	char description[200];
	p4d_svg svg;

	p.x = calloc(h->phases + 1, sizeof(*p.x));
	if (!p.x)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu phases", h->phases);
	place_phases(&p);
	if (p4d_svg__open(&svg, err)) {
		free(p.x);
		return -1;
	}
	const double height = draw(&svg, &p);
	free(p.x);
	snprintf(description, sizeof(description), "Memory over time by kind; the peak is %.1f GiB.",
		 (double)h->device / (1 << 30));
	return p4d_svg__save(&svg, path, WIDTH, height, h->title, description, styles, err);
}
