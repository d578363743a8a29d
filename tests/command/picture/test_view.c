/* SPDX-License-Identifier: Apache-2.0 */
/* The time line's geometry: which stages get a row, and the place of a time if the middle is left out. */
#include "support/support.h"

#include <math.h>

#include "picture/svg_timeline.h"

static void rows_end_with_the_last_stage(void **state)
{
	(void)state;
	for (uint32_t stages = 1; stages <= 1024; stages++)
		for (uint32_t most = 2; most <= 64; most += 31) {
			p4d_rows_shown rows = p4d_view__rows(stages, most);
			assert_within(rows.count, 1, most);
			if (stages <= most)
				assert_int_equal(rows.count, stages);
			for (uint32_t row = 1; row < rows.count; row++)
				assert_true(p4d_row_stage(&rows, row) > p4d_row_stage(&rows, row - 1));
			assert_int_equal(p4d_row_stage(&rows, 0), rows.count > 1 ? 0 : stages - 1);
			assert_int_equal(p4d_row_stage(&rows, rows.count - 1), stages - 1);
		}
}

static const double right = P4D_VIEW_LEFT + P4D_VIEW_PLOT;
static const p4d_view whole = {.end = 10, .shown = 10, .scale = P4D_VIEW_PLOT / 10.0};
static const p4d_view broken = {
    .end = 100, .shown = 10, .broken = true, .scale = (P4D_VIEW_PLOT - P4D_VIEW_GAP) / 20.0};

static void time_runs_from_edge_to_edge(void **state)
{
	(void)state;
	assert_true(fabs(p4d_view__x(&whole, 0) - P4D_VIEW_LEFT) < 1e-9);
	assert_true(fabs(p4d_view__x(&whole, 10) - right) < 1e-9);
	assert_true(fabs(p4d_view__x(&broken, 0) - P4D_VIEW_LEFT) < 1e-9);
	assert_true(fabs(p4d_view__x(&broken, 100) - right) < 1e-9);
	/* the break has the width that is drawn, and every time within it is drawn at its end */
	assert_true(fabs(p4d_view__x(&broken, 90) - p4d_view__x(&broken, 10) - P4D_VIEW_GAP) < 1e-9);
	assert_true(fabs(p4d_view__x(&broken, 50) - p4d_view__x(&broken, 90)) < 1e-9);
	for (double time = 0.1; time <= 100; time += 0.1)
		assert_true(p4d_view__x(&broken, time) >= p4d_view__x(&broken, time - 0.1) - 1e-9);
}

static void assert_span(const p4d_view *view, double start, double end, bool shown, double from,
			double length)
{
	const p4d_span span = {start, end};
	double x, width;

	assert_int_equal(p4d_view__span(view, &span, &x, &width), shown);
	if (!shown)
		return;
	assert_true(fabs(x - from) < 1e-6);
	assert_true(fabs(width - length) < 1e-6);
}

static void spans_are_cut_at_the_break(void **state)
{
	const double scale = broken.scale, behind = P4D_VIEW_LEFT + 10 * scale + P4D_VIEW_GAP;

	(void)state;
	assert_span(&whole, 2, 3, true, P4D_VIEW_LEFT + 2 * whole.scale, whole.scale);
	assert_span(&whole, 2, 2, false, 0, 0);
	assert_span(&broken, 2, 3, true, P4D_VIEW_LEFT + 2 * scale, scale);
	assert_span(&broken, 8, 30, true, P4D_VIEW_LEFT + 8 * scale, 2 * scale);
	assert_span(&broken, 20, 30, false, 0, 0);
	assert_span(&broken, 20, 92, true, behind, 2 * scale);
	assert_span(&broken, 95, 100, true, behind + 5 * scale, 5 * scale);
}

/* Two slots are used in turn: occupied by a receive or by the forward pass, freed by the last backward
 * pass. */
static void slots_are_followed(void **state)
{
	p4d_instruction at[] = {
	    {.op = P4D_OP_RECV_FORWARD, .slot = 0},    {.op = P4D_OP_FORWARD, .slot = 0},
	    {.op = P4D_OP_FORWARD, .slot = 1},         {.op = P4D_OP_VOCAB_FORWARD, .slot = 0},
	    {.op = P4D_OP_BACKWARD_INPUT, .slot = 0},  {.op = P4D_OP_VOCAB_BACKWARD, .slot = 0},
	    {.op = P4D_OP_BACKWARD_WEIGHT, .slot = 0}, {.op = P4D_OP_BACKWARD, .slot = 1},
	};
	static const p4d_slots wanted[] = {{1, 0, 0}, {1, 0, 0}, {2, 0, 0}, {2, 1, 0},
					   {2, 1, 0}, {2, 1, 0}, {2, 0, 0}, {1, 0, 0}};
	const p4d_instruction_list list = {.count = 8, .at = at, .slots = {2, 1, 0}};
	const p4d_simulated stage = {.base_bytes = 100, .activation_bytes = 10, .vocabulary_bytes = 1};
	p4d_live live;

	(void)state;
	assert_int_equal(p4d_simulation__live_begin(&live, &list, NULL), 0);
	for (size_t i = 0; i < list.count; i++) {
		p4d_simulation__live_take(&live, &at[i]);
		assert_memory_equal(&live.now, &wanted[i], sizeof(live.now));
		if (i == 4)
			assert_int_equal(p4d_simulation__bytes(&stage, &live.now), 100 + 2 * 10 + 1);
		p4d_simulation__live_release(&live, &at[i]);
	}
	assert_int_equal(p4d_simulation__bytes(&stage, &live.now), 100);
	p4d_simulation__live_free(&live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_end_with_the_last_stage),
	    cmocka_unit_test(time_runs_from_edge_to_edge),
	    cmocka_unit_test(spans_are_cut_at_the_break),
	    cmocka_unit_test(slots_are_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
