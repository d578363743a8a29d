/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the pipeline over time: one row per stage, and a box for every pass. The gaps are idle time. */
#include "picture/svg_timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "picture/pictures.h"

enum {
	MOST_ROWS = 64,
	SHADES = 4,
	LEGEND_TOP = 88,
};

typedef enum kind {
	FORWARD,
	BACKWARD,
	WEIGHT,
	VOCABULARY_S,
	VOCABULARY_T,
	EMBEDDING,
	COLLECTIVE,
	OPTIMIZER,
	KINDS
} kind;

static const struct look {
	const char *band, *swatch, *name;
} looks[KINDS] = {
    [FORWARD] = {"b f", "sf", "forward"},           [BACKWARD] = {"b g", "sg", "backward"},
    [WEIGHT] = {"b w", "sw", "weight gradient"},    [VOCABULARY_S] = {"b s", "ss", "vocabulary S"},
    [VOCABULARY_T] = {"b t", "st", "vocabulary T"}, [EMBEDDING] = {"b e", "se", "embedding"},
    [COLLECTIVE] = {"b c", "sc", "communication"},  [OPTIMIZER] = {"b o", "so", "optimizer"},
};

/* The same colours for lines (bands) and for areas (the legend). */
static const p4d_svg_style styles[] = {
    P4D_SVG_BASE_STYLES,
    {".b", "fill:none", NULL},
    {".f", "stroke:#2f6fd0", "stroke:#3f83e6"},
    {".g", "stroke:#1f9d6b", "stroke:#25a672"},
    {".w", "stroke:#e0a11b", "stroke:#d99e25"},
    {".s", "stroke:#8a4fd0", "stroke:#9b62e0"},
    {".t", "stroke:#c58bea", "stroke:#bd84e3"},
    {".e", "stroke:#d6457f", "stroke:#e05a90"},
    {".c", "stroke:#7a848f", "stroke:#8b96a1"},
    {".o", "stroke:#39424b", "stroke:#c3ccd5"},
    {".sf", "fill:#2f6fd0", "fill:#3f83e6"},
    {".sg", "fill:#1f9d6b", "fill:#25a672"},
    {".sw", "fill:#e0a11b", "fill:#d99e25"},
    {".ss", "fill:#8a4fd0", "fill:#9b62e0"},
    {".st", "fill:#c58bea", "fill:#bd84e3"},
    {".se", "fill:#d6457f", "fill:#e05a90"},
    {".sc", "fill:#7a848f", "fill:#8b96a1"},
    {".so", "fill:#39424b", "fill:#c3ccd5"},
    {".n", "fill:#ffffff;text-anchor:middle", "fill:#ffffff"},
    {".m", "fill:#16324f;text-anchor:middle", "fill:#ffffff"},
    {".head", "font-size:14px;font-weight:600", NULL},
    {".small", "font-size:9px", NULL},
    {"line.halo", "stroke-width:3", NULL},
    {".held", "fill:#ef8f3b", "fill:#f0913f"},
    {".base", "fill:#7d9cc9", "fill:#5b7dae"},
    {".room", "stroke:#cf222e;stroke-width:1;stroke-dasharray:5 3", "stroke:#ff7b72"},
    {".torn", "fill:none;stroke:#818b98;stroke-dasharray:2 3", "stroke:#6e7681"},
    {NULL, NULL, NULL},
};

/* The box that is drawn for a pass. */
typedef struct box {
	double x, width;
	uint32_t micro_batch;
	uint8_t kind, shade;
	bool numbered;
} box;

typedef struct scene {
	const p4d_simulation *simulation;
	p4d_view view;
	p4d_rows_shown rows;
	double pitch, height; /* height of a row, and height of its boxes */
	box *boxes;           /* boxes of one row; room for the longest list; owned */
	bool used[KINDS];
	uint32_t shades;
} scene;

static kind kind_of(int op)
{
	switch (op) {
	case P4D_OP_FORWARD:
		return FORWARD;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		return BACKWARD;
	case P4D_OP_BACKWARD_WEIGHT:
		return WEIGHT;
	case P4D_OP_VOCAB_FORWARD:
		return VOCABULARY_S;
	case P4D_OP_VOCAB_BACKWARD:
		return VOCABULARY_T;
	case P4D_OP_EMBED_FORWARD:
	case P4D_OP_EMBED_BACKWARD:
		return EMBEDDING;
	case P4D_OP_OPTIMIZER:
		return OPTIMIZER;
	default:
		return COLLECTIVE;
	}
}

/* Passes of later chunks of the model are paler; with many chunks some have the same shade. */
static uint8_t shade_of(const scene *s, const p4d_instruction *i)
{
	const uint32_t chunks = s->simulation->schedule.chunks;

	return i->chunk < chunks ? (uint8_t)((uint64_t)i->chunk * s->shades / chunks) : 0;
}

static double opacity_of(const scene *s, unsigned shade)
{
	return s->shades < 2 ? 1 : 1 - 0.5 * shade / (s->shades - 1);
}

/* The visible part of a list: its boxes, in time order. */
static size_t boxes_of(scene *s, uint32_t stage)
{
	const p4d_instruction_list *list = &s->simulation->lists[stage];
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		const p4d_instruction *at = &list->at[i];
		box *b = &s->boxes[count];
		if (at->op == P4D_OP_SEND_FORWARD || at->op == P4D_OP_SEND_BACKWARD ||
		    !p4d_view__span(&s->view, &s->simulation->timeline.span[stage][i], &b->x, &b->width))
			continue;
		b->kind = (uint8_t)kind_of(at->op);
		b->shade = b->kind <= WEIGHT ? shade_of(s, at) : 0;
		b->micro_batch = at->micro_batch;
		b->numbered = b->kind <= VOCABULARY_T;
		s->used[b->kind] = true;
		count++;
	}
	return count;
}

/* Draws all boxes of a kind and shade as one path, with a hairline between neighbours if there is room. */
static void draw_boxes(p4d_svg *svg, const scene *s, size_t count, int wanted, unsigned shade, double y)
{
	bool begun = false;

	for (size_t i = 0; i < count; i++) {
		const box *b = &s->boxes[i];
		if (b->kind != wanted || b->shade != shade)
			continue;
		if (!begun)
			p4d_svg__band(svg, looks[wanted].band, s->height, opacity_of(s, shade));
		begun = true;
		p4d_svg__box(svg, b->x, y, b->width > 4 ? b->width - 0.7 : b->width);
	}
	if (begun)
		p4d_svg__band_end(svg);
}

/*
 * Whether a box gets the number of its micro-batch: if the longest number of the step fits. In a row, all
 * boxes of a kind have numbers, or none.
 */
static bool label_fits(const scene *s, const box *b, double size)
{
	unsigned digits = 1;

	for (uint32_t most = s->simulation->schedule.micro_batches - 1; most >= 10; most /= 10)
		digits++;
	return b->numbered && b->width > 0.62 * size * digits + 3;
}

static void draw_labels(p4d_svg *svg, const scene *s, size_t count, bool pale, double y)
{
	const double size = fmin(11, 0.56 * s->height);
	bool begun = false;

	for (size_t i = 0; i < count && size >= 6; i++) {
		const box *b = &s->boxes[i];
		if (!label_fits(s, b, size) ||
		    pale != (opacity_of(s, b->shade) < 0.8 || b->kind == VOCABULARY_T))
			continue;
		if (!begun)
			p4d_svg__labels(svg, pale ? "m" : "n", y + 0.36 * size, size);
		begun = true;
		p4d_svg__label(svg, b->x + b->width / 2, b->micro_batch);
	}
	if (begun)
		p4d_svg__labels_end(svg);
}

static void draw_row(p4d_svg *svg, scene *s, uint32_t row, double top)
{
	const uint32_t stage = p4d_row_stage(&s->rows, row);
	const double y = top + s->pitch * row, middle = y + s->height / 2;
	const bool small = s->pitch < 14;
	const size_t count = boxes_of(s, stage);

	p4d_svg__text(svg, small ? "right small" : "right", P4D_VIEW_LEFT - 8, middle + (small ? 3 : 4),
		      "stage %u", stage);
	p4d_svg__text(svg, small ? "right small dim" : "right dim", P4D_VIEW_WIDTH - 14,
		      middle + (small ? 3 : 4), "busy %.1f %%", 100 * s->simulation->stage[stage].busy);
	p4d_svg__rect(svg, "lane", P4D_VIEW_LEFT, y, P4D_VIEW_PLOT, s->height);
	for (int k = 0; k < KINDS; k++)
		for (unsigned shade = 0; shade < s->shades; shade++)
			draw_boxes(svg, s, count, k, shade, middle);
	draw_labels(svg, s, count, false, middle);
	draw_labels(svg, s, count, true, middle);
}

/* Draws ticks from the beginning on and, after a break, up to the end. */
static void draw_axis(p4d_svg *svg, const scene *s, double top, double bottom)
{
	const p4d_view *v = &s->view;
	const double factor = s->simulation->timed ? 1e3 : 1;
	const double step = p4d_svg__axis_step(v->shown * factor * (v->broken ? 2 : 1), 12) / factor;
	const int decimals = p4d_svg__axis_decimals(step * factor);
	const double from = v->broken ? ceil((v->end - v->shown) / step + 0.35) * step : INFINITY;

	for (unsigned i = 0; step * i <= v->shown; i++) {
		const double x = p4d_view__x(v, step * i);
		p4d_svg__line(svg, "grid", x, top, x, bottom + 4);
		p4d_svg__text(svg, "dim middle", x, bottom + 17, "%.*f", decimals, step * i * factor);
	}
	for (double time = from; time <= v->end; time += step) {
		const double x = p4d_view__x(v, time);
		p4d_svg__line(svg, "grid", x, top, x, bottom + 4);
		p4d_svg__text(svg, "dim middle", x, bottom + 17, "%.*f", decimals, time * factor);
	}
	p4d_svg__text(svg, "dim right", P4D_VIEW_LEFT - 8, bottom + 17,
		      s->simulation->timed ? "ms" : "passes");
}

/* Draws the break between beginning and end over the rows. */
static void draw_break(p4d_svg *svg, const scene *s, double top, double bottom, bool named)
{
	const p4d_view *v = &s->view;
	const double x = P4D_VIEW_LEFT + v->shown * v->scale, left_out = v->end - 2 * v->shown;

	p4d_svg__rect(svg, "paper", x, top - 3, P4D_VIEW_GAP, bottom - top + 6);
	p4d_svg__line(svg, "torn", x + 0.5, top - 3, x + 0.5, bottom + 3);
	p4d_svg__line(svg, "torn", x + P4D_VIEW_GAP - 0.5, top - 3, x + P4D_VIEW_GAP - 0.5, bottom + 3);
	p4d_svg__text(svg, "dim middle", x + P4D_VIEW_GAP / 2.0, (top + bottom) / 2, "…");
	if (!named)
		return;
	if (!s->simulation->timed)
		p4d_svg__text(svg, "dim middle", x + P4D_VIEW_GAP / 2.0, top - 8,
			      "%.0f more passes in the same pattern", left_out);
	else
		p4d_svg__text(svg, "dim middle", x + P4D_VIEW_GAP / 2.0, top - 8,
			      "%.*f s more in the same pattern", left_out < 10 ? 2 : 1, left_out);
}

static double draw_legend(p4d_svg *svg, const scene *s, double y)
{
	const bool split = p4d_is_split(s->simulation->schedule.kind);
	p4d_svg_key keys[KINDS + 3];
	size_t count = 0;

	for (int k = 0; k < KINDS; k++)
		if (s->used[k])
			keys[count++] = (p4d_svg_key){
			    looks[k].swatch, k == BACKWARD && split ? "input gradient" : looks[k].name};
	if (s->shades > 1)
		keys[0].text = "forward (fainter: later chunks)";
	keys[count++] = (p4d_svg_key){"lane", "idle"};
	keys[count++] = (p4d_svg_key){"held", "activations in flight"};
	keys[count++] = (p4d_svg_key){"base", "always held"};
	return p4d_svg__legend(svg, 20, y, P4D_VIEW_WIDTH - 40, keys, count);
}

static void draw_head(p4d_svg *svg, const p4d_picture *picture, const p4d_simulation *s)
{
	char line[512];

	p4d_svg__text(svg, "title", 20, 30, "%s", p4d_picture__title(picture, line, sizeof(line)));
	if (s->timed)
		p4d_svg__text(
		    svg, "head", 20, 52, "step %.*f s · bubble %.1f %% · MFU %.1f %% · %.0f tokens/s per GPU",
		    s->timeline.seconds < 10 ? 3 : 1, s->timeline.seconds, 100 * s->timeline.bubble_fraction,
		    100 * s->step.mfu, s->step.tokens_per_second_per_gpu);
	else
		p4d_svg__text(
		    svg, "head", 20, 52,
		    "bubble %.1f %% · step %.1f passes long, where forward = input gradient = weight "
		    "gradient = 1",
		    100 * s->timeline.bubble_fraction, s->timeline.seconds);
	p4d_svg__text(svg, "dim", 20, 71, "%s", p4d_picture__layout(picture, line, sizeof(line)));
}

static int draw(p4d_svg *svg, const p4d_picture *picture, scene *s, double capacity, double *height,
		p4d_error *err)
{
	double flow;

	/* the legend is drawn above the rows, but the passes that occur are known only after the rows */
	for (uint32_t row = 0; row < s->rows.count; row++)
		boxes_of(s, p4d_row_stage(&s->rows, row));
	draw_head(svg, picture, s->simulation);
	const double top = LEGEND_TOP + draw_legend(svg, s, LEGEND_TOP) + (s->view.broken ? 24 : 8);
	const double bottom = top + s->pitch * s->rows.count - (s->pitch - s->height);
	draw_axis(svg, s, top, bottom);
	for (uint32_t row = 0; row < s->rows.count; row++)
		draw_row(svg, s, row, top);
	if (s->view.broken)
		draw_break(svg, s, top, bottom, true);
	if (p4d_picture__flow(svg, s->simulation, &s->view, capacity, picture->limit, bottom + 34, &flow,
			      err) < 0)
		return -1;
	if (s->view.broken)
		draw_break(svg, s, bottom + 34 + 22, bottom + 34 + flow, false);
	*height = bottom + 34 + flow + 16;
	return 0;
}

int p4d_picture_timeline(const p4d_picture *picture, const p4d_simulation *simulation, double capacity,
			 p4d_error *err)
{
	const uint32_t stages = simulation->schedule.stages, chunks = simulation->schedule.chunks;
	scene s = {.simulation = simulation,
		   .view = p4d_view__of(simulation),
		   .rows = p4d_view__rows(stages, MOST_ROWS),
		   .shades = chunks < SHADES ? chunks : SHADES};
	char title[320], description[512];
	size_t longest = 0;
	double height = 0;
	p4d_svg svg;

	s.pitch = s.rows.count <= 8 ? 30 : s.rows.count <= 16 ? 22 : s.rows.count <= 32 ? 15 : 10;
	s.height = s.pitch - (s.pitch > 20 ? 4 : 2);
	for (uint32_t i = 0; i < stages; i++)
		longest = simulation->lists[i].count > longest ? simulation->lists[i].count : longest;
	s.boxes = calloc(longest + 1, sizeof(*s.boxes));
	if (!s.boxes)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu boxes", longest);
	int result = p4d_svg__open(&svg, err);
	if (result == 0 && (result = draw(&svg, picture, &s, capacity, &height, err)) < 0)
		p4d_svg__free(&svg);
	free(s.boxes);
	if (result < 0)
		return -1;
	snprintf(title, sizeof(title), "Pipeline time line: %.200s", picture->model);
	snprintf(description, sizeof(description),
		 "%u stages, %" PRIu64 " micro-batches; the stages are idle %.1f %% of the step.", stages,
		 picture->layout->micro_batches, 100 * simulation->timeline.bubble_fraction);
	return p4d_svg__save(&svg, picture->path, P4D_VIEW_WIDTH, height, title, description, styles, err);
}
