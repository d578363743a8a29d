/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "schedule/schedule_order.h"

#include "support/schedule_check.h"
#include "support/shapes.h"

static void test_positions(void **state)
{
	const p4d_schedule interleaved = {P4D_INTERLEAVED, P4D_VOCAB_OFF, 4, 3, 4, 1, false};
	const p4d_schedule v = {P4D_ZBV, P4D_VOCAB_OFF, 4, 2, 4, 1, false};
	uint32_t chunk;

	(void)state;
	assert_int_equal(p4d_schedule_positions(&interleaved), 12);
	assert_int_equal(p4d_schedule_position_of(&interleaved, 1, 2), 9);
	assert_int_equal(p4d_schedule_stage_at(&interleaved, 9, &chunk), 1);
	assert_int_equal(chunk, 2);
	assert_int_equal(p4d_schedule_position_of(&v, 3, 0), 3);
	assert_int_equal(p4d_schedule_position_of(&v, 3, 1), 4);
	assert_int_equal(p4d_schedule_position_of(&v, 0, 1), 7);
	for (int i = 0; i < 200; i++) {
		p4d_schedule s = random_schedule(16, 1);
		for (uint32_t position = 0; position < p4d_schedule_positions(&s); position++) {
			uint32_t stage = p4d_schedule_stage_at(&s, position, &chunk);
			assert_int_equal(p4d_schedule_position_of(&s, stage, chunk), position);
		}
		assert_int_equal(p4d_schedule_stage_at(&s, 0, NULL), 0);
		assert_true(p4d_schedule_is_last(
		    &s, p4d_schedule_stage_at(&s, p4d_schedule_positions(&s) - 1, NULL)));
	}
}

static void test_schedule_of(void **state)
{
	static p4d_layout layout;
	p4d_schedule s;

	(void)state;
	layout.schedule = P4D_V_HALF;
	layout.vocab_parallel = P4D_VOCAB_2;
	layout.pp = 8;
	layout.vpp = 2;
	layout.micro_batches = 1 << 24;
	s = p4d_schedule_of(&layout);
	assert_int_equal(s.kind, P4D_V_HALF);
	assert_int_equal(s.vocabulary, P4D_VOCAB_2);
	assert_int_equal(s.stages, 8);
	assert_int_equal(s.chunks, 2);
	assert_int_equal(s.micro_batches, 1 << 24);
	assert_true(p4d_is_split(s.kind));
}

/* Writes a list as "F0 ...", with small letters for transfers, so that tests can compare a whole order. */
static void write_order(const p4d_instruction_list *list, char *text, size_t size)
{
	static const char *const letter[P4D_OPS] = {
	    [P4D_OP_GATHER_PARAMS] = "G",  [P4D_OP_RECV_FORWARD] = "rf",   [P4D_OP_FORWARD] = "F",
	    [P4D_OP_SEND_FORWARD] = "sf",  [P4D_OP_RECV_BACKWARD] = "rb",  [P4D_OP_BACKWARD] = "B",
	    [P4D_OP_BACKWARD_INPUT] = "I", [P4D_OP_BACKWARD_WEIGHT] = "W", [P4D_OP_SEND_BACKWARD] = "sb",
	    [P4D_OP_EMBED_FORWARD] = "E",  [P4D_OP_EMBED_BACKWARD] = "D",  [P4D_OP_VOCAB_FORWARD] = "S",
	    [P4D_OP_VOCAB_BACKWARD] = "T", [P4D_OP_REDUCE_GRADS] = "R",    [P4D_OP_OPTIMIZER] = "O",
	};
	size_t used = 0;

	for (size_t i = 0; i < list->count && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s%u", i ? " " : "",
					 letter[list->at[i].op], list->at[i].micro_batch);
}

static void assert_order_of(const p4d_schedule *s, uint32_t stage, const char *expected)
{
	p4d_instruction_list *lists = compiled(s);
	char text[1024];

	write_order(&lists[stage], text, sizeof(text));
	assert_string_equal(text, expected);
	release(lists, s);
}

static void assert_order(int kind, uint32_t stages, uint32_t chunks, uint32_t micro_batches, uint32_t stage,
			 const char *expected)
{
	const p4d_schedule s = {.kind = kind,
				.vocabulary = P4D_VOCAB_OFF,
				.stages = stages,
				.chunks = chunks,
				.micro_batches = micro_batches};

	assert_order_of(&s, stage, expected);
}

/* Two micro-batches of two slices. A micro-batch's slices run forward in order, and backward in reverse
 * order. */
static void test_orders_of_slices(void **state)
{
	const p4d_schedule one = {P4D_1F1B, P4D_VOCAB_OFF, 2, 1, 4, 2, false};
	const p4d_schedule all = {P4D_GPIPE, P4D_VOCAB_OFF, 2, 1, 4, 2, false};

	(void)state;
	/* Seq1F1B: before its first backward pass, the last stage runs as many forward passes as there are
	 * slices, and the first stage one more */
	assert_order_of(&one, 1, "G0 rf0 F0 rf1 F1 B1 sb1 rf2 F2 B0 sb0 rf3 F3 B3 sb3 B2 sb2 R0 O0");
	assert_order_of(&one, 0, "G0 F0 sf0 F1 sf1 F2 sf2 rb1 B1 F3 sf3 rb0 B0 rb3 B3 rb2 B2 R0 O0");
	/* TeraPipe: all forward passes, then all backward passes */
	assert_order_of(&all, 1, "G0 rf0 F0 rf1 F1 rf2 F2 rf3 F3 B1 sb1 B0 sb0 B3 sb3 B2 sb2 R0 O0");
}

/* A micro-batch's slots are freed from its last slice to its first one. */
static void test_slots_of_slices(void **state)
{
	const p4d_schedule s = {P4D_1F1B, P4D_VOCAB_OFF, 1, 1, 6, 3, false};
	p4d_instruction_list *lists = compiled(&s);
	static const struct {
		int op;
		uint32_t unit, slot;
	} want[] = {
	    {P4D_OP_FORWARD, 0, 0}, {P4D_OP_FORWARD, 1, 1},  {P4D_OP_FORWARD, 2, 2},  {P4D_OP_BACKWARD, 2, 2},
	    {P4D_OP_FORWARD, 3, 2}, {P4D_OP_BACKWARD, 1, 1}, {P4D_OP_FORWARD, 4, 1},  {P4D_OP_BACKWARD, 0, 0},
	    {P4D_OP_FORWARD, 5, 0}, {P4D_OP_BACKWARD, 5, 0}, {P4D_OP_BACKWARD, 4, 1}, {P4D_OP_BACKWARD, 3, 2},
	};
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < lists[0].count; i++) {
		const p4d_instruction *in = &lists[0].at[i];
		if (in->op != P4D_OP_FORWARD && in->op != P4D_OP_BACKWARD)
			continue;
		assert_int_equal(in->op, want[found].op);
		assert_int_equal(in->micro_batch, want[found].unit);
		assert_int_equal(in->slot, want[found++].slot);
	}
	assert_int_equal(found, sizeof(want) / sizeof(*want));
	/* the second micro-batch begins while the first one still runs backward, so two sequences exist at
	 * once */
	assert_int_equal(lists[0].slots.activation, 3);
	assert_int_equal(lists[0].slots.sequences, 2);
	release(lists, &s);
}

static void test_orders(void **state)
{
	(void)state;
	assert_order(P4D_GPIPE, 2, 1, 2, 0, "G0 F0 sf0 F1 sf1 rb0 B0 rb1 B1 R0 O0");
	assert_order(P4D_1F1B, 2, 1, 3, 0, "G0 F0 sf0 F1 sf1 rb0 B0 F2 sf2 rb1 B1 rb2 B2 R0 O0");
	assert_order(P4D_1F1B, 2, 1, 2, 1, "G0 rf0 F0 B0 sb0 rf1 F1 B1 sb1 R0 O0");
	assert_order(P4D_ZB1P, 2, 1, 3, 0, "G0 F0 sf0 F1 sf1 rb0 I0 W0 F2 sf2 rb1 I1 W1 rb2 I2 W2 R0 O0");
	assert_order(P4D_ZB1P, 2, 1, 3, 1, "G0 rf0 F0 I0 sb0 rf1 F1 I1 sb1 W0 rf2 F2 I2 sb2 W1 W2 R0 O0");
	/* chunk 0 runs three forward passes first; both chunks exchange their tensors with stage 1 */
	assert_order(P4D_ZBV, 2, 2, 3, 0,
		     "G0 F0 sf0 F1 sf1 F2 sf2 G0 rf0 F0 I0 sb0 W0 rf1 F1 I1 sb1 W1 rb0 I0 W0 rf2 F2 I2 sb2 "
		     "W2 R0 rb1 I1 W1 rb2 I2 W2 R0 O0");
	/* at the last stage, both chunks are on the same stage, so it sends to itself */
	assert_order(P4D_ZBV, 2, 2, 1, 1, "G0 rf0 F0 sf0 G0 rf0 F0 sf0 rb0 I0 sb0 W0 R0 rb0 I0 sb0 W0 R0 O0");
}

/* The passes of a stage in the order that a test expects. */
typedef struct expected {
	p4d_pass pass[1024];
	uint32_t count, next[3][2]; /* forward, backward input, backward weight; by chunk */
	uint8_t waits[256];         /* chunks whose weight gradients still have to be computed */
	uint32_t waiting, done;
} expected;

static void expect(expected *e, uint8_t op, uint16_t chunk)
{
	const int kind = op == P4D_OP_FORWARD ? 0 : op == P4D_OP_BACKWARD_INPUT ? 1 : 2;

	e->pass[e->count++] = (p4d_pass){e->next[kind][chunk]++, chunk, op};
}

static void expect_backward(expected *e, uint16_t chunk, bool waits)
{
	expect(e, P4D_OP_BACKWARD_INPUT, chunk);
	if (waits)
		e->waits[e->waiting++] = (uint8_t)chunk;
	else
		expect(e, P4D_OP_BACKWARD_WEIGHT, chunk);
}

/* DualPipeV as its authors describe it: eight phases, with a queue of weight gradients. */
static void expect_dualpipe_v(expected *e, uint32_t p, uint32_t r, uint32_t m)
{
	for (uint32_t i = 0; i < 2 * (p - r - 1); i++)
		expect(e, P4D_OP_FORWARD, 0);
	for (uint32_t i = 0; i < 2 * (r + 1); i++)
		expect(e, P4D_OP_FORWARD, i % 2);
	for (uint32_t i = 0; i < p - r - 1; i++) {
		expect_backward(e, 1, false);
		expect(e, P4D_OP_FORWARD, 1);
	}
	for (uint32_t i = 0; i < 2 * (m - 2 * p + r + 1); i++) {
		expect(e, P4D_OP_FORWARD, i % 2);
		expect_backward(e, 1 - i % 2, false);
	}
	for (uint32_t i = 0; i < p - r - 1; i++) {
		expect_backward(e, 1, false);
		expect(e, P4D_OP_FORWARD, 1);
		expect_backward(e, 0, false);
	}
	for (uint32_t i = 0; i < 2 * (r + 1); i++)
		expect_backward(e, 1 - i % 2, i > r);
	for (uint32_t i = 0; i < p - r - 1; i++) {
		expect(e, P4D_OP_BACKWARD_WEIGHT, e->waits[e->done++]);
		expect_backward(e, 0, true);
	}
	while (e->done < e->waiting)
		expect(e, P4D_OP_BACKWARD_WEIGHT, e->waits[e->done++]);
}

static void test_dualpipe_v(void **state)
{
	(void)state;
	for (uint32_t p = 2; p <= 9; p++)
		for (uint32_t r = 0; r < p; r++)
			for (uint32_t m = 2 * p; m < 2 * p + 5; m++) {
				const p4d_schedule s = {P4D_DUALPIPE_V, P4D_VOCAB_OFF, p, 2, m, 1, false};
				static expected e;
				p4d_schedule_order order;
				p4d_pass pass;
				uint32_t found = 0;

				e = (expected){.count = 0};
				expect_dualpipe_v(&e, p, r, m);
				p4d_schedule_order_begin(&s, r, &order);
				for (; p4d_schedule_order_next(&order, &pass); found++)
					if (pass.op != e.pass[found].op ||
					    pass.chunk != e.pass[found].chunk ||
					    pass.micro_batch != e.pass[found].micro_batch)
						fail_msg("%u stages, stage %u, %u micro-batches: pass %u", p,
							 r, m, found);
				assert_int_equal(found, e.count);
				assert_int_equal(found, 6 * m);
				assert_int_equal(p4d_schedule_slots(&s, r).activation, 2 * p + 1);
			}
}

static void test_instructions(void **state)
{
	const p4d_schedule s = {P4D_INTERLEAVED, P4D_VOCAB_OFF, 2, 2, 2, 1, false};
	p4d_instruction_list *lists = compiled(&s);
	const p4d_instruction *in = lists[0].at;

	(void)state;
	assert_int_equal(sizeof(*in), 16);
	/* gather, forward 0, send, forward 1, send, gather chunk 1, receive from the last stage */
	assert_int_equal(in[5].op, P4D_OP_GATHER_PARAMS);
	assert_int_equal(in[5].chunk, 1);
	assert_int_equal(in[6].op, P4D_OP_RECV_FORWARD);
	assert_int_equal(in[6].peer, 1);
	assert_int_equal(in[6].slot, 2);
	assert_int_equal(in[7].op, P4D_OP_FORWARD);
	assert_int_equal(in[7].slot, 2);
	assert_int_equal(lists[0].at[lists[0].count - 1].op, P4D_OP_OPTIMIZER);
	release(lists, &s);
}

static void assert_checked(const p4d_schedule *s)
{
	p4d_instruction_list *lists = compiled(s);
	p4d_error err;

	if (p4d_schedule_check(s, lists, &err) < 0)
		fail_msg("%s: %s", shape_text(s), err.text);
	release(lists, s);
}

static void test_random_schedules(void **state)
{
	(void)state;
	for (int i = 0; i < 4000; i++) {
		p4d_schedule s = random_schedule(i % 10 ? 8 : 16, i % 10 ? 24 : 64);
		assert_checked(&s);
	}
}

/* All schedules with small numbers of stages and micro-batches, which include the limits of all formulas. */
static void test_small_schedules(void **state)
{
	(void)state;
	for (int kind = 0; kind < P4D_SCHEDULES; kind++) {
		for (uint32_t stages = 1; stages <= 6; stages++) {
			for (uint32_t micro_batches = 1; micro_batches <= 14; micro_batches++) {
				p4d_schedule s = {
				    kind, P4D_VOCAB_OFF, stages, least_chunks(kind), micro_batches, 1, false};
				if (s.chunks > 1 && stages == 1)
					continue;
				if (p4d_schedule_kinds[kind]->in_groups)
					s.micro_batches *= stages;
				bool vocabulary = stages > 1 && p4d_schedule_kinds[kind]->vocabulary;
				for (; s.vocabulary <= (vocabulary ? P4D_VOCAB_2 : P4D_VOCAB_OFF);
				     s.vocabulary++)
					assert_checked(&s);
			}
		}
	}
}

static void test_large_schedules(void **state)
{
	static const p4d_schedule large[] = {
	    {P4D_GPIPE, P4D_VOCAB_OFF, 2, 1, 70000, 1, false},
	    {P4D_1F1B, P4D_VOCAB_OFF, 1024, 1, 40, 1, false},
	    {P4D_1F1B, P4D_VOCAB_1, 300, 1, 90, 1, false},
	    {P4D_INTERLEAVED, P4D_VOCAB_OFF, 64, 8, 64, 1, false},
	    {P4D_ZB1P, P4D_VOCAB_OFF, 128, 1, 200, 1, false},
	    {P4D_ZBV, P4D_VOCAB_OFF, 1024, 2, 20, 1, false},
	    {P4D_ZBV, P4D_VOCAB_OFF, 64, 2, 200, 1, false},
	    {P4D_V_HALF, P4D_VOCAB_OFF, 1024, 2, 20, 1, false},
	    {P4D_V_HALF, P4D_VOCAB_2, 65, 2, 150, 1, false},
	    {P4D_1F1B, P4D_VOCAB_OFF, 100, 1, 64 * 20, 64, false},
	    {P4D_GPIPE, P4D_VOCAB_OFF, 30, 1, 64 * 20, 64, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
		assert_checked(&large[i]);
}

static void test_too_large(void **state)
{
	const p4d_schedule s = {P4D_INTERLEAVED, P4D_VOCAB_OFF, 1024, 1024, 1 << 24, 1, false};
	p4d_instruction_list *lists = calloc(s.stages, sizeof(*lists));
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_schedule_compile(&s, lists, &err), -1);
	assert_int_equal(err.code, P4D_E_OVERFLOW);
	assert_null(lists[0].at);
	free(lists);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(p4d_schedule_op_name(P4D_OP_FORWARD), "forward");
	for (int op = 0; op < P4D_OPS; op++)
		assert_non_null(p4d_schedule_op_name((p4d_op)op));
	assert_string_equal(p4d_schedule_op_name(P4D_OPS), "unknown instruction");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_positions),        cmocka_unit_test(test_schedule_of),
	    cmocka_unit_test(test_orders),           cmocka_unit_test(test_dualpipe_v),
	    cmocka_unit_test(test_instructions),     cmocka_unit_test(test_small_schedules),
	    cmocka_unit_test(test_random_schedules), cmocka_unit_test(test_large_schedules),
	    cmocka_unit_test(test_too_large),        cmocka_unit_test(test_names),
	    cmocka_unit_test(test_orders_of_slices), cmocka_unit_test(test_slots_of_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
