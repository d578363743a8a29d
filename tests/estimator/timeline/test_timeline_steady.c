/* SPDX-License-Identifier: Apache-2.0 */
/* Step times that are computed from the steady state, compared with simulations of the whole schedule. */
#include "support/support.h"

#include <math.h>

#include "support/durations.h"
#include "support/shapes.h"

static double seconds_of(const p4d_schedule *s, const p4d_durations *d, p4d_timeline_work *work,
			 double *bubble)
{
	double seconds;
	p4d_error err;

	if (p4d_timeline_seconds(s, d, work, &seconds, bubble, &err) < 0)
		fail_msg("%s: %s", shape_text(s), err.text);
	return seconds;
}

static void assert_same(const p4d_schedule *s, const p4d_durations *d, p4d_timeline_work *work,
			double tolerance)
{
	p4d_instruction_list *lists = compiled(s);
	p4d_timeline timeline;
	p4d_error err;
	double bubble, seconds = seconds_of(s, d, work, &bubble);

	if (p4d_timeline_run(s, lists, d, false, &timeline, &err) < 0)
		fail_msg("%s: %s", shape_text(s), err.text);
	if (fabs(seconds / timeline.seconds - 1) > tolerance ||
	    fabs(bubble - timeline.bubble_fraction) > tolerance)
		fail_msg("%s: %.12g s with bubble %.9f, not %.12g s with %.9f", shape_text(s), seconds,
			 bubble, timeline.seconds, timeline.bubble_fraction);
	p4d_timeline_free(&timeline, s->stages);
	release(lists, s);
}

/* Stages are alike, except for their split, the ends of the model and the links. The steady state then
 * gives the exact time, except for rounding. */
static void test_random(void **state)
{
	p4d_timeline_work work = {0};

	(void)state;
	for (int i = 0; i < 600; i++) {
		p4d_schedule s = random_schedule(12, 260);
		durations_store store;
		p4d_durations d = random_durations(&s, &store);
		assert_same(&s, &d, &work, 1e-9);
	}
	for (int i = 0; i < 12; i++) {
		p4d_schedule s = random_schedule(48, 300);
		durations_store store;
		p4d_durations d = random_durations(&s, &store);
		assert_same(&s, &d, &work, 1e-9);
	}
	p4d_timeline_work_free(&work);
}

/* Passes of different lengths and slow links give patterns that repeat only after many micro-batches. */
static void test_wild(void **state)
{
	p4d_timeline_work work = {0};

	(void)state;
	for (int i = 0; i < 300; i++) {
		p4d_schedule s = random_schedule(10, 260);
		durations_store store;
		p4d_durations d = random_durations(&s, &store);
		for (uint32_t pass = 0; pass < durations_passes(&s); pass++) {
			store.forward[pass] = random_between(0.05, 2);
			store.input[pass] = random_between(0.05, 2);
			store.weight[pass] = random_between(0.05, 2);
		}
		d.send = random_between(0, 4);
		d.vocabulary_sync = random_between(0, 4);
		assert_same(&s, &d, &work, 1e-3);
	}
	p4d_timeline_work_free(&work);
}

/* The first stage is the slowest. For hundreds of micro-batches, the other stages run ahead until they
 * must wait. So the pace at the beginning differs from the pace at the end. */
static void test_slow_change(void **state)
{
	p4d_timeline_work work = {0};

	(void)state;
	for (int kind = 0; kind < P4D_SCHEDULES; kind++) {
		for (int i = 0; i < 6; i++) {
			p4d_schedule s = {kind, P4D_VOCAB_OFF, 8, least_chunks(kind), 800, 1, false};
			durations_store store;
			p4d_durations d = even_durations(&s, &store);
			for (uint32_t chunk = 0; chunk < s.chunks; chunk++)
				store.forward[(i % 2 ? s.stages - 1 : 0) * s.chunks + chunk] +=
				    0.003 * (i + 1);
			d.send = i < 3 ? 0 : 0.01;
			assert_same(&s, &d, &work, 1e-9);
		}
	}
	p4d_timeline_work_free(&work);
}

/* 2^24 micro-batches are too many to simulate. Each adds the time of the slowest stage. */
static void test_many_micro_batches(void **state)
{
	p4d_timeline_work work = {0};

	(void)state;
	for (int kind = 0; kind < P4D_SCHEDULES; kind++) {
		p4d_schedule s = {kind, P4D_VOCAB_OFF, 8, least_chunks(kind), 1 << 24, 1, false};
		durations_store store;
		p4d_durations d = even_durations(&s, &store);
		double bubble;

		store.forward[3 * s.chunks] = 1.5;
		double slowest = 3.0 * s.chunks + 0.5;
		double seconds = seconds_of(&s, &d, &work, &bubble);
		assert_true(seconds >= slowest * s.micro_batches);
		assert_true(seconds < slowest * (s.micro_batches + 16.0));
		assert_true(fabs(bubble - (1 - (24.0 * s.chunks + 0.5) / (8 * slowest))) < 1e-5);
	}
	p4d_timeline_work_free(&work);
}

/* A call reuses the scratch memory of earlier calls. It stays small, and results never depend on the
 * earlier calls. */
static void test_work(void **state)
{
	p4d_timeline_work work = {0};
	double first[200], bubble;
	size_t bytes = 0;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 200; i++) {
			const p4d_schedule s = {P4D_1F1B, (int)(i % 3), 2 + i % 50, 1, 300 + i, 1, false};
			durations_store store;
			const p4d_durations d = even_durations(&s, &store);
			double seconds = seconds_of(&s, &d, &work, &bubble);
			if (round == 0)
				first[i] = seconds;
			assert_true(seconds == first[i]);
			assert_true(work.bytes < 32 << 20);
		}
	}
	p4d_timeline_work_free(&work);
	assert_null(work.memory);
	for (int i = 0; i < 10; i++) {
		const p4d_schedule s = {P4D_ZBV, P4D_VOCAB_OFF, 8, 2, 100 + (uint32_t)i, 1, false};
		durations_store store;
		const p4d_durations d = even_durations(&s, &store);
		seconds_of(&s, &d, &work, &bubble);
		if (i > 0) /* all schedules with many micro-batches use the same graph */
			assert_int_equal(work.bytes, bytes);
		bytes = work.bytes;
	}
	p4d_timeline_work_free(&work);
	p4d_timeline_work_free(&work);
}

/* The budget that a timeline uses is proportional to its nodes. Vocabulary parallelism doubles their
 * number. */
static void test_budget_by_nodes(void **state)
{
	const uint64_t all = 1 << 30;
	uint64_t left, taken[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		const p4d_schedule s = {P4D_V_HALF, i ? P4D_VOCAB_2 : P4D_VOCAB_OFF, 8, 2, 40, 1, false};
		p4d_timeline_work work = {.budget = &left};
		durations_store store;
		const p4d_durations d = even_durations(&s, &store);
		double bubble;
		left = all;
		seconds_of(&s, &d, &work, &bubble);
		taken[i] = all - left;
		p4d_timeline_work_free(&work);
	}
	assert_true(taken[0] > 0 && taken[1] >= 2 * taken[0]);
}

/* The budget limits the number of simulated rounds. The time of the other rounds is computed from the mean
 * pace, which is off by at most 2 %. */
static void test_budget_ends_rounds(void **state)
{
	double most = 0;

	(void)state;
	for (int i = 0; i < 200; i++) {
		p4d_schedule s = random_schedule(10, 20);
		durations_store store;
		p4d_durations d = random_durations(&s, &store);
		uint64_t left = 0;
		p4d_timeline_work work = {0}, cut = {.budget = &left};
		double bubble;
		s.micro_batches = (1 << 16) / p4d_schedule_slices(&s) * p4d_schedule_slices(&s);
		for (uint32_t pass = 0; pass < durations_passes(&s); pass++)
			store.forward[pass] = random_between(0.05, 2);
		if (s.kind == P4D_INTERLEAVED)
			s.micro_batches = s.stages * (1 << 12);
		const double whole = seconds_of(&s, &d, &work, &bubble);
		for (uint64_t build = 1 << 10;; build *= 2) { /* finds the smallest budget, in powers of two,
							       * with which the graph is built */
			double seconds;
			left = build;
			if (p4d_timeline_seconds(&s, &d, &cut, &seconds, &bubble, NULL) == 0) {
				most = fmax(most, fabs(seconds / whole - 1));
				break;
			}
		}
		p4d_timeline_work_free(&work);
		p4d_timeline_work_free(&cut);
	}
	assert_true(most < 0.02);
}

/* The largest number of slices, in schedules that are too long to simulate. Each micro-batch adds the time
 * of the slowest stage. */
static void test_many_slices(void **state)
{
	static const int kinds[] = {P4D_GPIPE, P4D_1F1B};
	p4d_timeline_work work = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		p4d_schedule s = {kinds[i], P4D_VOCAB_OFF, 8, 1, 1 << 28, 64, false};
		durations_store store;
		p4d_durations d = even_durations(&s, &store);
		double bubble;

		store.forward[3 * s.slices + 17] = 9; /* one slice on one stage takes longer */
		const double slowest = 3.0 * s.slices + 8, sequences = s.micro_batches / s.slices;
		const double seconds = seconds_of(&s, &d, &work, &bubble);
		assert_true(seconds >= slowest * sequences);
		assert_true(seconds < slowest * (sequences + 2));
	}
	p4d_timeline_work_free(&work);
}

static void test_nothing_takes_time(void **state)
{
	p4d_timeline_work work = {0};
	const p4d_durations d = {0};
	double bubble = 1;

	(void)state;
	for (int i = 0; i < 60; i++) {
		p4d_schedule s = random_schedule(6, 200);
		assert_true(seconds_of(&s, &d, &work, &bubble) == 0);
		assert_true(bubble == 0);
	}
	p4d_timeline_work_free(&work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random),
	    cmocka_unit_test(test_wild),
	    cmocka_unit_test(test_slow_change),
	    cmocka_unit_test(test_many_micro_batches),
	    cmocka_unit_test(test_many_slices),
	    cmocka_unit_test(test_work),
	    cmocka_unit_test(test_nothing_takes_time),
	    cmocka_unit_test(test_budget_by_nodes),
	    cmocka_unit_test(test_budget_ends_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
