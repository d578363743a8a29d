/* SPDX-License-Identifier: Apache-2.0 */
/* Axes, numbers and labels of charts. */
#include "support/support.h"

#include <string.h>

#include "picture/charts.h"

static p4d_chart_axis y_axis(double low, double high, bool from_zero, unsigned ticks)
{
	const p4d_chart_point points[] = {{1, low}, {2, high}};
	const p4d_chart_curve curve = {.label = "", .point = points, .count = 2};
	const p4d_chart chart = {
	    .title = "t", .from_zero = from_zero, .rows = 4, .curve = &curve, .count = 1};

	return p4d_chart__y_axis(&chart, ticks);
}

static void ticks_are_round_and_within(void **state)
{
	static const double ranges[][2] = {{0.1, 0.9}, {-3, 7.7}, {1e-7, 3e-7},   {12345, 99999},
					   {5, 5},     {0, 0},    {-1e300, 1e300}};

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		const p4d_chart_axis axis = y_axis(ranges[i][0], ranges[i][1], i % 2, 5);
		unsigned count = 0;
		assert_true(axis.low <= ranges[i][0] && axis.high >= ranges[i][1] && axis.high > axis.low);
		while (p4d_chart__tick(&axis, count) <= axis.high)
			count++;
		assert_in_range(count, 1, 6);
		assert_true(p4d_chart__tick(&axis, 0) >= axis.low - 1e-6 * axis.step);
	}
	assert_true(y_axis(7, 9, true, 5).low == 0);
	assert_true(y_axis(7, 9, false, 5).low > 6);
}

static void steps_are_whole(void **state)
{
	const p4d_chart_point points[] = {{1, 1}, {3, 1}};
	const p4d_chart_curve curve = {.label = "", .point = points, .count = 2};
	const p4d_chart chart = {.title = "t", .rows = 4, .curve = &curve, .count = 1};
	const p4d_charts charts = {.title = "t", .chart = &chart, .count = 1};
	const p4d_chart_axis axis = p4d_chart__x_axis(&charts, 10);

	(void)state;
	assert_true(axis.low == 0 && axis.high == 3 && axis.step == 1);
}

static void numbers_are_short(void **state)
{
	char buf[32];

	(void)state;
	assert_string_equal(p4d_chart__number(0, 0.5, buf), "0.0");
	assert_string_equal(p4d_chart__number(2.25, 0.05, buf), "2.25");
	assert_string_equal(p4d_chart__number(-3, 1, buf), "-3");
	assert_string_equal(p4d_chart__number(-1e-17, 0.2, buf), "0.0");
	assert_string_equal(p4d_chart__number(20000, 10000, buf), "20k");
	assert_string_equal(p4d_chart__number(1500, 500, buf), "1.5k");
	assert_string_equal(p4d_chart__number(1500000, 500000, buf), "1.5M");
	assert_string_equal(p4d_chart__number(3e9, 1e9, buf), "3G");
}

static void labels_do_not_meet(void **state)
{
	const int wanted[] = {3, 3, 3, 0, 7, 7};
	int placed[6];

	(void)state;
	p4d_chart__place_labels(wanted, 6, 8, placed);
	assert_int_equal(placed[0], 3);
	assert_int_equal(placed[1], 2);
	assert_int_equal(placed[2], 4);
	assert_int_equal(placed[3], 0);
	assert_int_equal(placed[4], 7);
	assert_int_equal(placed[5], 6);
	p4d_chart__place_labels(wanted, 6, 2, placed);
	assert_true(placed[0] >= 0 || placed[3] >= 0);
	for (int i = 0; i < 6; i++)
		assert_true(placed[i] < 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ticks_are_round_and_within),
	    cmocka_unit_test(steps_are_whole),
	    cmocka_unit_test(numbers_are_short),
	    cmocka_unit_test(labels_do_not_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
