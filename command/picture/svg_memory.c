/* SPDX-License-Identifier: Apache-2.0 */
/* Draws memory bars: the peak of every stage's GPUs, compared with their capacity. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture/pictures.h"
#include "picture/svg_axis.h"
#include "plan/memory_played.h"

enum {
	WIDTH = 1000,
	LEFT = 104,
	RIGHT = 148,
	PLOT = WIDTH - LEFT - RIGHT,
	MOST_BARS = 64, /* maximum number of bars; more cannot be told apart */
	LEGEND_TOP = 66,
};

/* Parameters, gradients and optimizer have similar colours, because their memory is constant. */
static const p4d_svg_key classes[P4D_PART_COUNT] = {
    [P4D_PART_PARAMS] = {"p0", "parameters"},   [P4D_PART_GRADS] = {"p1", "gradients"},
    [P4D_PART_OPTIMIZER] = {"p2", "optimizer"}, [P4D_PART_ACTIVATIONS] = {"p3", "activations"},
    [P4D_PART_LOGITS] = {"p4", "logits"},       [P4D_PART_WORKING_SET] = {"p5", "working set"},
    [P4D_PART_GRAPHS] = {"pd", "CUDA graphs"},  [P4D_PART_WEIGHT_GRAD] = {"p6", "weight-gradient buffers"},
    [P4D_PART_ATTENTION] = {"p7", "attention"}, [P4D_PART_STAGING] = {"p8", "staging"},
    [P4D_PART_LIBRARIES] = {"p9", "libraries"}, [P4D_PART_FRAGMENTATION] = {"pa", "fragmentation"},
    [P4D_PART_CONTEXT] = {"pb", "context"},     [P4D_PART_COMM] = {"pc", "communicators"},
};

static const p4d_svg_style styles[] = {
    P4D_SVG_BASE_STYLES,
    P4D_SVG_MEMORY_STYLES,
    {".p5", "fill:#2a9d8f", "fill:#35ad9f"},
    {".p6", "fill:#7cc7bd", "fill:#86cfc5"},
    {".p7", "fill:#d65a8a", "fill:#e0709b"},
    {".pa", "fill:#b3bac1", "fill:#747d87"},
    {".pc", "fill:#4a525a", "fill:#86919c"},
    {".pd", "fill:#b08968", "fill:#c29a77"},
    {".in", "fill:#ffffff;font-size:11px;text-anchor:middle", NULL},
    {".id", "fill:#1f2328;font-size:11px;text-anchor:middle", "fill:#1f2328"},
    {".over", "fill:#cf222e;fill-opacity:.08", "fill:#ff7b72;fill-opacity:.1"},
    {".end", "stroke:#1f2328;stroke-width:2", "stroke:#e6edf3"},
    {NULL, NULL, NULL},
};

typedef struct bar {
	uint32_t first, last;
	p4d_stage stage;
} bar;

typedef struct bars {
	bar *at; /* owned */
	uint32_t count, left_out;
	bool used[P4D_PART_COUNT];
	double scale; /* bytes of the whole axis */
} bars;

static bool same(const p4d_stage *a, const p4d_stage *b)
{
	return a->device_bytes == b->device_bytes && !memcmp(a->part, b->part, sizeof(a->part));
}

/* If there are too many bars to distinguish, keeps every k-th, the last, and the fullest. */
static void thin_out(bars *b)
{
	const uint32_t all = b->count;
	uint32_t kept = 0, fullest = 0;

	for (uint32_t i = 1; i < all; i++)
		if (b->at[i].stage.device_bytes > b->at[fullest].stage.device_bytes)
			fullest = i;
	const uint32_t step = (all + MOST_BARS - 3) / (MOST_BARS - 2);
	for (uint32_t i = 0; i < all; i++)
		if (i % step == 0 || i == fullest || i == all - 1)
			b->at[kept++] = b->at[i];
	b->left_out = all - kept;
	b->count = kept;
}

static int collect(const p4d_layout *layout, const p4d_estimate *estimate, bars *b, p4d_error *err)
{
	const uint32_t stages = p4d_memory_stage_count(layout, estimate->method);
	uint64_t most = estimate->capacity_bytes;
	p4d_stage stage;

	b->at = calloc(stages, sizeof(*b->at));
	if (!b->at)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u bars", stages);
	for (uint32_t i = 0; i < stages; i++) {
		if (p4d_memory_of_estimate(layout, estimate, i, &stage, err) < 0)
			return -1;
		most = stage.device_bytes > most ? stage.device_bytes : most;
		for (int part = 0; part < P4D_PART_COUNT; part++)
			b->used[part] = b->used[part] || stage.part[part];
		if (b->count && same(&b->at[b->count - 1].stage, &stage))
			b->at[b->count - 1].last = i;
		else
			b->at[b->count++] = (bar){i, i, stage};
	}
	if (b->count > MOST_BARS)
		thin_out(b);
	b->scale = 1.02 * (double)most;
	return 0;
}

static double x_of(const bars *b, double bytes)
{
	return LEFT + PLOT * bytes / b->scale;
}

static void draw_axis(p4d_svg *svg, const bars *b, double top, double bottom)
{
	const double range = b->scale / (1 << 30), step = p4d_svg__axis_step(range, 10);

	for (unsigned i = 0; step * i <= range; i++) {
		const double x = x_of(b, step * i * (1 << 30));
		p4d_svg__line(svg, "grid", x, top, x, bottom);
		p4d_svg__text(svg, "dim middle", x, bottom + 16, "%.*f", p4d_svg__axis_decimals(step),
			      step * i);
	}
	p4d_svg__text(svg, "dim", WIDTH - RIGHT + 10, bottom + 16, "GiB");
}

static void draw_bar(p4d_svg *svg, const bars *b, const bar *one, double y, double height)
{
	double bytes = 0;

	for (int part = 0; part < P4D_PART_COUNT; part++) {
		if (!one->stage.part[part])
			continue;
		const double left = x_of(b, bytes), right = x_of(b, bytes += (double)one->stage.part[part]);
		const bool pale = part == P4D_PART_OPTIMIZER || part == P4D_PART_WEIGHT_GRAD ||
				  part == P4D_PART_ACTIVATIONS || part == P4D_PART_STAGING ||
				  part == P4D_PART_FRAGMENTATION || part == P4D_PART_GRADS;
		if (right - left < 0.1)
			continue;
		p4d_svg__rect(svg, classes[part].class, left, y, right - left, height);
		if (right - left > 34 && height >= 14)
			p4d_svg__text(svg, pale ? "id" : "in", (left + right) / 2, y + height / 2 + 4, "%.1f",
				      p4d_to_gib(one->stage.part[part]));
	}
}

static void draw_numbers(p4d_svg *svg, const p4d_picture *picture, const p4d_estimate *estimate,
			 const bar *one, double y)
{
	const double gib = p4d_to_gib(one->stage.device_bytes), x = WIDTH - RIGHT + 10;

	if (one->first == one->last)
		p4d_svg__text(svg, "right", LEFT - 10, y, "stage %u", one->first);
	else
		p4d_svg__text(svg, "right", LEFT - 10, y, "stages %u–%u", one->first, one->last);
	if (!estimate->capacity_bytes) {
		p4d_svg__text(svg, "right", x + 66, y, "%.1f GiB", gib);
		return;
	}
	const double fraction = (double)one->stage.device_bytes / (double)estimate->capacity_bytes;
	const char *class = fraction > picture->limit  ? "bad right"
			    : fraction > picture->safe ? "warn right"
						       : "right";
	p4d_svg__text(svg, class, x + 66, y, "%.1f GiB", gib);
	p4d_svg__text(svg, class, x + 128, y, "%.1f %%", 100 * fraction);
}

static void draw_mark(p4d_svg *svg, const char *class, double x, double top, double bottom)
{
	p4d_svg__line(svg, "halo", x, top - 6, x, bottom);
	p4d_svg__line(svg, class, x, top - 6, x, bottom);
}

/*
 * Draws the lines of the safe fraction, the limit and the capacity. Names are above the plot: the limit's to
 * the right of its line, the safe fraction's to the left.
 */
static void draw_limits(p4d_svg *svg, const p4d_picture *picture, const p4d_estimate *estimate, const bars *b,
			double top, double bottom)
{
	const double capacity = (double)estimate->capacity_bytes;
	const double safe = x_of(b, picture->safe * capacity), limit = x_of(b, picture->limit * capacity);

	draw_mark(svg, "safe", safe, top, bottom);
	draw_mark(svg, "limit", limit, top, bottom);
	draw_mark(svg, "end", x_of(b, capacity), top, bottom);
	p4d_svg__text(svg, "warn right", safe + 4, top - 10, "safe %.0f %%", 100 * picture->safe);
	p4d_svg__text(svg, "bad right", limit + 4, top - 10, "limit %.0f %%", 100 * picture->limit);
	/* next to the plot, unless bars are longer than the capacity */
	p4d_svg__text(svg, "", fmax(x_of(b, capacity) + 6, limit + 10), top - 10, "%s %.1f GiB",
		      p4d_on_gpu(picture->layout->device) ? "GPU" : "rank", capacity / (1 << 30));
}

static double draw(p4d_svg *svg, const p4d_picture *picture, const p4d_estimate *estimate, const bars *b)
{
	p4d_svg_key used[P4D_PART_COUNT];
	char line[512];
	size_t keys = 0;

	for (int part = 0; part < P4D_PART_COUNT; part++)
		if (b->used[part])
			used[keys++] = classes[part];
	const double pitch = b->count <= 16   ? 30
			     : b->count <= 32 ? 22
					      : 17,
		     height = pitch - (pitch > 20 ? 7 : 4);
	p4d_svg__text(svg, "title", 20, 30, "%s", p4d_picture__title(picture, line, sizeof(line)));
	p4d_svg__text(svg, "dim", 20, 50, "%s", p4d_picture__layout(picture, line, sizeof(line)));
	const double top = LEGEND_TOP + p4d_svg__legend(svg, 20, LEGEND_TOP, WIDTH - 40, used, keys) + 32;
	const double bottom = top + pitch * b->count;
	for (uint32_t i = 0; i < b->count; i++)
		p4d_svg__rect(svg, "lane", LEFT, top + pitch * i + (pitch - height) / 2, PLOT, height);
	draw_axis(svg, b, top, bottom);
	if (estimate->capacity_bytes)
		p4d_svg__rect(svg, "over", x_of(b, picture->limit * (double)estimate->capacity_bytes), top,
			      WIDTH - RIGHT - x_of(b, picture->limit * (double)estimate->capacity_bytes),
			      bottom - top);
	for (uint32_t i = 0; i < b->count; i++) {
		const double y = top + pitch * i;
		draw_bar(svg, b, &b->at[i], y + (pitch - height) / 2, height);
		draw_numbers(svg, picture, estimate, &b->at[i], y + pitch / 2 + 4);
	}
	if (estimate->capacity_bytes)
		draw_limits(svg, picture, estimate, b, top, bottom);
	double end = bottom + 30;
	if (b->left_out)
		p4d_svg__text(svg, "dim", 20, (end += 24) - 14,
			      "%u bars are left out; the bar of the fullest stage is shown.", b->left_out);
	if (estimate->peak.phase == P4D_EVALUATION)
		p4d_svg__text(svg, "dim", 20, (end += 24) - 14, "Peak: %s",
			      p4d_memory_where(picture->layout, estimate, line));
	return end;
}

int p4d_picture_memory(const p4d_picture *picture, const p4d_estimate *estimate, p4d_error *err)
{
	char title[320], description[512];
	bars b = {.count = 0};
	p4d_svg svg;

	if (collect(picture->layout, estimate, &b, err) < 0 || p4d_svg__open(&svg, err) < 0) {
		free(b.at);
		return -1;
	}
	const double height = draw(&svg, picture, estimate, &b);
	free(b.at);
	snprintf(title, sizeof(title), "Memory by pipeline stage: %.200s", picture->model);
	snprintf(description, sizeof(description),
		 "Stacked bars of %u stages; the fullest stage, %u, needs %.1f GiB.",
		 p4d_memory_stage_count(picture->layout, estimate->method), estimate->stage,
		 p4d_to_gib(estimate->peak.device_bytes));
	return p4d_svg__save(&svg, picture->path, WIDTH, height, title, description, styles, err);
}
