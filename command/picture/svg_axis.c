/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/svg_axis.h"

#include <math.h>

enum { SWATCH = 11, LINE = 20, TEXT_SIZE = 12 };

double p4d_svg__text_width(const char *text, double size)
{
	size_t letters = 0;

	for (; *text; text++)
		letters += ((unsigned char)*text & 0xc0) !=
			   0x80; /* counts characters: skips the later bytes of a UTF-8 character */
	return 0.55 * size * (double)letters;
}

double p4d_svg__legend(p4d_svg *svg, double x, double y, double width, const p4d_svg_key *keys, size_t count)
{
	double at = x, height = LINE;

	for (size_t i = 0; i < count; i++) {
		const double wide = SWATCH + 6 + p4d_svg__text_width(keys[i].text, TEXT_SIZE) + 16;
		if (at > x && at + wide > x + width) {
			at = x;
			height += LINE;
		}
		p4d_svg__rect(svg, keys[i].class, at, y + height - LINE, SWATCH, SWATCH);
		p4d_svg__text(svg, "dim", at + SWATCH + 5, y + height - LINE + 10, "%s", keys[i].text);
		at += wide;
	}
	return height;
}

double p4d_svg__axis_step(double range, unsigned most)
{
	const double least = range / most, power = pow(10, floor(log10(least)));

	if (!(range > 0))
		return 1;
	if (power >= least)
		return power;
	if (2 * power >= least)
		return 2 * power;
	return 5 * power >= least ? 5 * power : 10 * power;
}

int p4d_svg__axis_decimals(double step)
{
	return step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
}
