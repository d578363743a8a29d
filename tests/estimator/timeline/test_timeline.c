/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <math.h>

#include "support/durations.h"
#include "support/shapes.h"

static p4d_timeline timed(const p4d_schedule *s, const p4d_instruction_list *lists, const p4d_durations *d,
			  bool spans)
{
	p4d_timeline timeline;
	p4d_error err;

	if (p4d_timeline_run(s, lists, d, spans, &timeline, &err) < 0)
		fail_msg("%s: %s", shape_text(s), err.text);
	return timeline;
}

/* Idle share of a schedule if F = B = W = 1 per chunk and nothing else takes time. */
static double bubble_of(int kind, uint32_t p, uint32_t v, uint32_t m)
{
	const p4d_schedule s = {kind, P4D_VOCAB_OFF, p, v, m, 1, false};
	durations_store store;
	p4d_durations d = even_durations(&s, &store);
	p4d_instruction_list *lists = compiled(&s);
	p4d_timeline timeline = timed(&s, lists, &d, false);
	double bubble = timeline.bubble_fraction;

	p4d_timeline_free(&timeline, p);
	release(lists, &s);
	return bubble;
}

static void assert_near(double value, double expected)
{
	if (fabs(value - expected) > 1e-9 * (1 + fabs(expected)))
		fail_msg("%.12g, not %.12g", value, expected);
}

/* Idle time divided by that of 1F1B, which is p-1 micro-batches. With v chunks per stage, a micro-batch takes
 * 3v on a stage. */
static double idle_of_1f1b(double bubble, uint32_t p, uint32_t v, uint32_t m)
{
	double work = 3.0 * v * m;

	return bubble / (1 - bubble) * work / (3.0 * v * (p - 1));
}

static void test_published_bubbles(void **state)
{
	(void)state;
	for (uint32_t p = 2; p <= 16; p++) {
		for (uint32_t m = 1; m <= 4 * p; m += 1 + m / 3) {
			assert_near(bubble_of(P4D_GPIPE, p, 1, m), (p - 1.0) / (m + p - 1));
			assert_near(bubble_of(P4D_1F1B, p, 1, m), (p - 1.0) / (m + p - 1));
		}
		for (uint32_t v = 2; v <= 5; v++)
			for (uint32_t m = p; m <= 4 * p; m += p)
				assert_near(bubble_of(P4D_INTERLEAVED, p, v, m), (p - 1.0) / (v * m + p - 1));
		for (uint32_t m = p; m <= 4 * p; m += p) {
			/* a third of 1F1B's idle time */
			assert_near(idle_of_1f1b(bubble_of(P4D_ZB1P, p, 1, m), p, 1, m), 1.0 / 3);
			/* at most half of 1F1B's idle time, with half of 1F1B's memory */
			double idle = idle_of_1f1b(bubble_of(P4D_V_HALF, p, 2, m), p, 2, m);
			assert_true(idle <= 0.5 + 1e-9);
			assert_true(idle > 0.4 - 1e-9);
		}
		for (uint32_t m = 2 * p; m <= 8 * p; m += p) {
			/* the only idle time is that of the first micro-batch on its way to the last stage */
			assert_near(bubble_of(P4D_ZBV, p, 2, m), (p - 1.0) / (6.0 * m + p - 1));
		}
		assert_true(bubble_of(P4D_ZBV, p, 2, 8 * p) < 0.0205);
		for (uint32_t m = 2 * p; m <= 8 * p; m += p) {
			/*
			 * DualPipe's README gives (PP/2-1)(F&B + B - 3W), with F&B = 3 and B = 2, because
			 * a pass of a pair waits for the other pass. p4d counts less idle time, but more
			 * than ZB-V's.
			 */
			const double bubble = bubble_of(P4D_DUALPIPE_V, p, 2, m),
				     idle = bubble * 6 * m / (1 - bubble);
			assert_true(idle > (p - 1) - 1e-9 && idle < 2 * (p - 1) + 1e-9);
		}
	}
}

/* With slices, the bubble is (p-1)/(m*s + p-1), as with m*s micro-batches. This is the claim of TeraPipe
 * and of Seq1F1B. */
static void test_bubbles_of_slices(void **state)
{
	static const int kinds[] = {P4D_GPIPE, P4D_1F1B};

	(void)state;
	for (uint32_t i = 0; i < 2 * 6 * 6 * 4; i++) {
		const uint32_t p = 1 + i / 2 % 6, slices = 1 + i / 12 % 6, m = 1 << 2 * (i / 72);
		const p4d_schedule s = {kinds[i % 2], P4D_VOCAB_OFF, p, 1, m * slices, slices, false};
		durations_store store;
		const p4d_durations d = even_durations(&s, &store);
		p4d_timeline_work work = {0};
		double seconds, bubble;
		p4d_error err;

		if (p4d_timeline_seconds(&s, &d, &work, &seconds, &bubble, &err) < 0)
			fail_msg("%s: %s", shape_text(&s), err.text);
		assert_true(fabs(bubble - (p - 1.0) / (m * slices + p - 1)) < 1e-12);
		p4d_timeline_work_free(&work);
	}
}

static void test_vocabulary_barriers_are_hidden(void **state)
{
	(void)state;
	for (int kind = 0; kind < P4D_SCHEDULES; kind++) {
		if (!p4d_schedule_kinds[kind]->vocabulary)
			continue;
		for (int vocabulary = P4D_VOCAB_1; vocabulary <= P4D_VOCAB_2; vocabulary++) {
			for (uint32_t p = 2; p <= 12; p++) {
				double idle[2];
				for (unsigned i = 0; i < 2; i++) {
					const p4d_schedule s = {
					    kind, vocabulary, p, least_chunks(kind), (4 + 4 * i) * p,
					    1,    false};
					durations_store store;
					p4d_durations d = even_durations(&s, &store);
					d.vocabulary_forward = d.vocabulary_backward = 0.7;
					d.vocabulary_sync = 0.5;
					d.embed_forward = d.embed_backward = 0.1;
					p4d_instruction_list *lists = compiled(&s);
					p4d_timeline timeline = timed(&s, lists, &d, false);
					idle[i] = timeline.seconds * timeline.bubble_fraction;
					p4d_timeline_free(&timeline, p);
					release(lists, &s);
				}
				assert_near(idle[1], idle[0]);
				/* the idle time is about as long as that of 1F1B */
				assert_true(idle[0] < 3.5 * p + 4);
			}
		}
	}
}

/* The time of the instruction with this operation, chunk and micro-batch on a stage. */
static p4d_span span_of(const p4d_instruction_list *lists, const p4d_timeline *timeline, uint32_t stage,
			int op, uint32_t chunk, uint32_t micro_batch)
{
	for (size_t i = 0; i < lists[stage].count; i++) {
		const p4d_instruction *in = &lists[stage].at[i];
		bool same = in->op == op || (op == P4D_OP_BACKWARD && in->op == P4D_OP_BACKWARD_INPUT);
		if (same && in->chunk == chunk && in->micro_batch == micro_batch)
			return timeline->span[stage][i];
	}
	fail_msg("stage %u has no %s of micro-batch %u", stage, p4d_schedule_op_name((p4d_op)op),
		 micro_batch);
	return (p4d_span){0, 0};
}

static double last_end(const p4d_schedule *s, const p4d_instruction_list *lists, const p4d_timeline *timeline,
		       int op, uint32_t micro_batch)
{
	double end = 0;

	for (uint32_t stage = 0; stage < s->stages; stage++) {
		p4d_span span = span_of(lists, timeline, stage, op, s->chunks, micro_batch);
		end = span.end > end ? span.end : end;
	}
	return end;
}

/* The time when an instruction's data has arrived, by the rules in the header, found with a simple search. */
static double data_there(const p4d_schedule *s, const p4d_instruction_list *lists,
			 const p4d_timeline *timeline, const p4d_durations *d, uint32_t stage,
			 const p4d_instruction *in)
{
	const uint32_t last = p4d_schedule_positions(s) - 1, i = in->micro_batch;
	uint32_t position = in->chunk < s->chunks ? p4d_schedule_position_of(s, stage, in->chunk) : 0, chunk,
		 peer;

	switch (in->op) {
	case P4D_OP_RECV_FORWARD:
		peer = p4d_schedule_stage_at(s, position - 1, &chunk);
		return span_of(lists, timeline, peer, P4D_OP_FORWARD, chunk, i).end +
		       (peer == stage ? 0 : d->send);
	case P4D_OP_RECV_BACKWARD:
		peer = p4d_schedule_stage_at(s, position + 1, &chunk);
		return span_of(lists, timeline, peer, P4D_OP_BACKWARD, chunk, i).end +
		       (peer == stage ? 0 : d->send);
	}
	if (s->vocabulary == P4D_VOCAB_OFF)
		return 0;
	switch (in->op) {
	case P4D_OP_FORWARD:
		return position ? 0
				: last_end(s, lists, timeline, P4D_OP_EMBED_FORWARD, i) + d->vocabulary_sync;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		if (position < last)
			return 0;
		return last_end(s, lists, timeline,
				s->vocabulary == P4D_VOCAB_1 ? P4D_OP_VOCAB_BACKWARD : P4D_OP_VOCAB_FORWARD,
				i) +
		       d->vocabulary_sync;
	case P4D_OP_VOCAB_FORWARD:
		peer = p4d_schedule_stage_at(s, last, &chunk);
		return span_of(lists, timeline, peer, P4D_OP_FORWARD, chunk, i).end + d->vocabulary_sync;
	case P4D_OP_VOCAB_BACKWARD:
		return last_end(s, lists, timeline, P4D_OP_VOCAB_FORWARD, i) + d->vocabulary_sync;
	case P4D_OP_EMBED_BACKWARD:
		return span_of(lists, timeline, 0, P4D_OP_BACKWARD, 0, i).end + d->vocabulary_sync;
	}
	return 0;
}

/* Seconds of a step. A pass takes 1, and 10 more if it runs without a partner. */
static double with_exchanges(const p4d_schedule *s)
{
	durations_store store;
	p4d_durations d = even_durations(s, &store);
	p4d_instruction_list *lists = compiled(s);
	p4d_timeline_work work = {0};
	double seconds, bubble;

	for (uint32_t i = 0; i < durations_passes(s); i++)
		store.alone[i] = 10;
	d.alone = store.alone;
	p4d_timeline timeline = timed(s, lists, &d, false);
	const double whole = timeline.seconds;
	assert_int_equal(p4d_timeline_seconds(s, &d, &work, &seconds, &bubble, NULL), 0);
	assert_near(seconds, whole);
	assert_near(bubble, timeline.bubble_fraction);
	p4d_timeline_work_free(&work);
	p4d_timeline_free(&timeline, s->stages);
	release(lists, s);
	return whole;
}

/*
 * 1F1B pairs each forward pass with the following backward pass, except in warm-up and cool-down.
 * DualPipeV pairs only passes of different chunks. The last of two stages runs F0 F1 F0 F1, then F0 B1 F1
 * B0 per micro-batch, and at the end B1 B0 B1 B0.
 */
static void test_exchanges_without_a_partner(void **state)
{
	const p4d_schedule one = {P4D_1F1B, P4D_VOCAB_OFF, 1, 1, 5, 1, false},
			   two = {P4D_1F1B, P4D_VOCAB_OFF, 2, 1, 5, 1, false};

	(void)state;
	assert_near(with_exchanges(&one), 15);
	/* stage 0 runs its first forward and its last backward pass without a partner */
	assert_near(with_exchanges(&two), 18 + 20);
	for (uint32_t p = 2; p <= 8; p++) {
		const p4d_schedule few = {P4D_DUALPIPE_V, P4D_VOCAB_OFF, p, 2, 2 * p, 1, false},
				   many = {P4D_DUALPIPE_V, P4D_VOCAB_OFF, p, 2, 2 * p + 10, 1, false};
		/* in the steady state, 10 micro-batches add only their six passes each */
		assert_near(with_exchanges(&many) - with_exchanges(&few), 60);
		/* the first and the last micro-batch run through the stages without partners */
		assert_true(with_exchanges(&few) > 40 * p);
	}
}

/* Every instruction begins when the previous instruction has ended and its data has arrived. */
static void test_starts(void **state)
{
	(void)state;
	for (int i = 0; i < 150; i++) {
		p4d_schedule s = random_schedule(5, 8);
		durations_store store;
		p4d_durations d = random_durations(&s, &store);
		p4d_instruction_list *lists = compiled(&s);
		p4d_timeline timeline = timed(&s, lists, &d, true);
		double seconds = 0, busy = 0;

		for (uint32_t stage = 0; stage < s.stages; stage++) {
			double clock = 0, sum = 0;
			for (size_t at = 0; at < lists[stage].count; at++) {
				const p4d_instruction *in = &lists[stage].at[at];
				p4d_span span = timeline.span[stage][at];
				double data = data_there(&s, lists, &timeline, &d, stage, in);
				/* a pair of passes waits for the data of both */
				if (!d.alone || !p4d_schedule_kinds[s.kind]->crosswise)
					assert_near(span.start, data > clock ? data : clock);
				assert_true(span.start >= data - 1e-9);
				if (in->op == P4D_OP_SEND_FORWARD || in->op == P4D_OP_SEND_BACKWARD)
					continue;
				clock = span.end;
				sum += span.end - span.start;
			}
			/* an exchange that nothing hides counts as idle time */
			if (!d.alone)
				assert_near(timeline.busy[stage], sum);
			assert_true(timeline.busy[stage] <= sum + 1e-9);
			busy += timeline.busy[stage];
			seconds = clock > seconds ? clock : seconds;
		}
		assert_near(timeline.seconds, seconds);
		assert_near(timeline.bubble_fraction, 1 - busy / (s.stages * seconds));
		p4d_timeline_free(&timeline, s.stages);
		release(lists, &s);
	}
}

/* Two stages and two micro-batches, calculated by hand. */
static void test_by_hand(void **state)
{
	const p4d_schedule s = {P4D_1F1B, P4D_VOCAB_OFF, 2, 1, 2, 1, false};
	const double forward[] = {1, 2}, input[] = {1, 3}, weight[] = {1, 1};
	const double gather[] = {0.5, 0.25}, reduce[] = {1, 1}, optimizer[] = {2, 1};
	const p4d_durations d = {.forward = forward,
				 .backward_input = input,
				 .backward_weight = weight,
				 .send = 0.5,
				 .recv = 0.25,
				 .gather = gather,
				 .reduce = reduce,
				 .optimizer = optimizer};
	p4d_instruction_list *lists = compiled(&s);
	p4d_timeline timeline = timed(&s, lists, &d, true);

	(void)state;
	/* stage 1: data at 2, received by 2.25, F0 to 4.25, B0 to 8.25, received by 8.5, F1 10.5, B1 14.5 */
	assert_near(span_of(lists, &timeline, 1, P4D_OP_FORWARD, 0, 0).start, 2.25);
	assert_near(span_of(lists, &timeline, 1, P4D_OP_BACKWARD, 0, 1).end, 14.5);
	/* stage 0: F0 1.5, F1 2.5; B0 from 8.75 + 0.25 to 11; B1 from 15.25 to 17.25; reduce, optimizer */
	assert_near(span_of(lists, &timeline, 0, P4D_OP_BACKWARD, 0, 0).start, 9);
	assert_near(timeline.seconds, 20.25);
	assert_near(timeline.busy[0], 0.5 + 2 * 1 + 2 * 2 + 2 * 0.25 + 1 + 2);
	p4d_timeline_free(&timeline, 2);
	release(lists, &s);
}

static void test_no_durations(void **state)
{
	const p4d_schedule s = {P4D_ZBV, P4D_VOCAB_OFF, 4, 2, 8, 1, false};
	const p4d_durations d = {0};
	p4d_instruction_list *lists = compiled(&s);
	p4d_timeline timeline = timed(&s, lists, &d, true);

	(void)state;
	assert_near(timeline.seconds, 0);
	assert_near(timeline.bubble_fraction, 0);
	p4d_timeline_free(&timeline, s.stages);
	assert_null(timeline.span);
	release(lists, &s);
}

static void test_wrong_lists(void **state)
{
	const p4d_schedule s = {P4D_1F1B, P4D_VOCAB_OFF, 3, 1, 4, 1, false};
	const p4d_durations d = {0};
	p4d_instruction_list *lists = compiled(&s);
	p4d_timeline timeline;
	p4d_error err;
	size_t kept = lists[1].count;

	(void)state;
	lists[1].count = 5;
	assert_int_equal(p4d_timeline_run(&s, lists, &d, true, &timeline, &err), -1);
	assert_int_equal(err.code, P4D_E_INSTRUCTIONS);
	assert_non_null(strstr(err.text, "deadlock"));
	lists[1].count = kept;
	lists[2].at[2].micro_batch = 4;
	assert_int_equal(p4d_timeline_run(&s, lists, &d, false, &timeline, &err), -1);
	assert_non_null(strstr(err.text, "stage 2, instruction 2"));
	release(lists, &s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_published_bubbles),
	    cmocka_unit_test(test_bubbles_of_slices),
	    cmocka_unit_test(test_vocabulary_barriers_are_hidden),
	    cmocka_unit_test(test_exchanges_without_a_partner),
	    cmocka_unit_test(test_starts),
	    cmocka_unit_test(test_by_hand),
	    cmocka_unit_test(test_no_durations),
	    cmocka_unit_test(test_wrong_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
