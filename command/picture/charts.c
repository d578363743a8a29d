/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/charts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "picture/svg_axis.h"

p4d_chart_axis p4d_chart__x_axis(const p4d_charts *charts, unsigned most_ticks)
{
	p4d_chart_axis axis = {.low = 0, .high = 1};

	for (size_t i = 0; i < charts->count; i++)
		for (size_t k = 0; k < charts->chart[i].count; k++) {
			const p4d_chart_curve *curve = &charts->chart[i].curve[k];
			axis.high = fmax(axis.high, curve->point[curve->count - 1].x);
		}
	axis.step = fmax(1, p4d_svg__axis_step(axis.high, most_ticks));
	return axis;
}

p4d_chart_axis p4d_chart__y_axis(const p4d_chart *chart, unsigned most_ticks)
{
	p4d_chart_axis axis = {.low = INFINITY, .high = -INFINITY};

	for (size_t k = 0; k < chart->count; k++)
		for (size_t i = 0; i < chart->curve[k].count; i++) {
			axis.low = fmin(axis.low, chart->curve[k].point[i].y);
			axis.high = fmax(axis.high, chart->curve[k].point[i].y);
		}
	if (chart->from_zero)
		axis.low = fmin(axis.low, 0);
	double room = (axis.high - axis.low) / 20;
	/* if all values are equal, the line is drawn in the middle */
	if (!(room > 1e-9 * fabs(axis.high)))
		room = axis.high ? fabs(axis.high) / 20 : 1;
	axis.high += room;
	axis.low -= chart->from_zero && axis.low >= 0 ? 0 : room;
	axis.step = p4d_svg__axis_step(axis.high - axis.low, most_ticks);
	return axis;
}

double p4d_chart__tick(const p4d_chart_axis *axis, unsigned i)
{
	return (ceil(axis->low / axis->step - 1e-9) + i) * axis->step;
}

const char *p4d_chart__number(double value, double step, char buf[32])
{
	static const struct {
		double from;
		const char *unit;
	} units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (fabs(value) >= units[i].from) {
			snprintf(buf, 32, "%.*f%s", p4d_svg__axis_decimals(step / units[i].from),
				 value / units[i].from, units[i].unit);
			return buf;
		}
	snprintf(buf, 32, "%.*f", p4d_svg__axis_decimals(step), fabs(value) < step / 2 ? 0 : value);
	return buf;
}

void p4d_chart__place_labels(const int *wanted, size_t count, unsigned rows, int *placed)
{
	for (size_t i = 0; i < count; i++) {
		placed[i] = -1;
		for (unsigned k = 0; k < 2 * rows && placed[i] < 0; k++) {
			const int row = wanted[i] + (k % 2 ? -(int)(k + 1) / 2 : (int)k / 2);
			bool taken = row < 0 || row >= (int)rows;
			for (size_t j = 0; j < i && !taken; j++)
				taken = placed[j] == row;
			placed[i] = taken ? -1 : row;
		}
	}
}
