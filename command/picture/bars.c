/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/bars.h"

#include <stdio.h>

#include "picture/svg_axis.h"

enum { WIDTH = 760, LEFT = 300, NUMBER = 80, TOP = 16, BAR = 16, GAP = 12 };

static const p4d_svg_style styles[] = {
    P4D_SVG_BASE_STYLES,
    {".b0", "fill:#d55e00", "fill:#ff8c42"},
    {".b1", "fill:#007a5a", "fill:#2fc79b"},
    {".b2", "fill:#0072b2", "fill:#56b4e9"},
    {NULL, NULL, NULL},
};

/* The colour of a part. Without a legend all bars have one colour. */
static unsigned color_of(const p4d_bars *bars, size_t part)
{
	return bars->keys == 1 ? 2 : (unsigned)part;
}

static double most_of(const p4d_bars *bars)
{
	double most = 0;

	for (size_t i = 0; i < bars->count; i++)
		for (size_t part = 0; part < bars->keys; part++)
			most = bars->bar[i].part[part] > most ? bars->bar[i].part[part] : most;
	return most;
}

static void draw_bar(p4d_svg *svg, const p4d_bars *bars, const p4d_bar *bar, double y, double most)
{
	char class[16];

	p4d_svg__text(svg, "right", LEFT - 10, y + (double)bars->keys * BAR / 2 + 4, "%s", bar->label);
	for (size_t part = 0; part < bars->keys; part++, y += BAR) {
		const double width = most > 0 ? bar->part[part] / most * (WIDTH - LEFT - NUMBER) : 0;
		snprintf(class, sizeof(class), "b%u", color_of(bars, part));
		if (width > 0)
			p4d_svg__rect(svg, class, LEFT, y + 1, width, BAR - 2);
		p4d_svg__text(svg, "dim", LEFT + width + 6, y + BAR - 4, "%.*f", bars->decimals,
			      bar->part[part]);
	}
}

int p4d_picture_bars(const void *of, const char *path, p4d_error *err)
{
	const p4d_bars *bars = of;
	const double most = most_of(bars);
	double y = TOP;
	p4d_svg svg;

	if (p4d_svg__open(&svg, err) < 0)
		return -1;
	for (size_t i = 0; i < bars->count; i++, y += (double)bars->keys * BAR + GAP)
		draw_bar(&svg, bars, &bars->bar[i], y, most);
	if (bars->keys > 1) {
		static const char *const classes[P4D_BAR_PARTS] = {"b0", "b1", "b2"};
		p4d_svg_key keys[P4D_BAR_PARTS];
		for (size_t part = 0; part < bars->keys; part++)
			keys[part] = (p4d_svg_key){classes[part], bars->key[part]};
		y += p4d_svg__legend(&svg, GAP, y, WIDTH - 2 * GAP, keys, bars->keys);
	}
	return p4d_svg__save(&svg, path, WIDTH, y + GAP, bars->title, bars->title, styles, err);
}
