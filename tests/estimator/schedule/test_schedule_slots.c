/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "schedule/schedule_order.h"
#include "support/shapes.h"

/* Counts slots by walking a list. Shares no code with p4d_schedule_slots. */
static p4d_slots replay(const p4d_schedule *s, const p4d_instruction_list *list)
{
	p4d_slots now = {0}, most = {0};
	const uint32_t slices = p4d_schedule_slices(s);

	for (size_t i = 0; i < list->count; i++) {
		switch (list->at[i].op) {
		case P4D_OP_FORWARD:
			now.activation++;
			now.sequences += slices > 1 && list->at[i].micro_batch % slices == 0;
			break;
		case P4D_OP_VOCAB_FORWARD:
			now.vocabulary++;
			break;
		}
		most.activation = now.activation > most.activation ? now.activation : most.activation;
		most.sequences = now.sequences > most.sequences ? now.sequences : most.sequences;
		most.vocabulary = now.vocabulary > most.vocabulary ? now.vocabulary : most.vocabulary;
		switch (list->at[i].op) {
		case P4D_OP_BACKWARD:
		case P4D_OP_BACKWARD_WEIGHT:
			now.activation--;
			now.sequences -= slices > 1 && list->at[i].micro_batch % slices == 0;
			break;
		case P4D_OP_VOCAB_BACKWARD:
			now.vocabulary--;
			break;
		}
	}
	return most;
}

static void assert_slots(const p4d_schedule *s)
{
	p4d_instruction_list *lists = compiled(s);

	for (uint32_t stage = 0; stage < s->stages; stage++) {
		p4d_slots counted = replay(s, &lists[stage]), told = p4d_schedule_slots(s, stage);
		if (memcmp(&counted, &told, sizeof(told)) != 0 ||
		    memcmp(&told, &lists[stage].slots, sizeof(told)) != 0)
			fail_msg("%s, stage %u: %u/%u/%u slots, not %u/%u/%u", shape_text(s), stage,
				 counted.activation, counted.vocabulary, counted.sequences, told.activation,
				 told.vocabulary, told.sequences);
	}
	release(lists, s);
}

/* If chunks have different numbers of layers, slots are counted in layers. */
static void test_uneven_chunks(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		const p4d_schedule s = {.kind = P4D_INTERLEAVED,
					.stages = 2 + random_below(6),
					.chunks = 2 + random_below(5),
					.micro_batches = 0};
		p4d_schedule with = s;
		uint16_t layers[64];
		with.micro_batches = s.stages * (1 + random_below(6));
		for (uint32_t j = 0; j < s.stages * s.chunks; j++)
			layers[j] = (uint16_t)(1 + random_below(5));
		p4d_instruction_list *lists = compiled(&with);
		for (uint32_t stage = 0; stage < s.stages; stage++) {
			uint32_t alive = 0, most = 0;
			for (size_t k = 0; k < lists[stage].count; k++) {
				const p4d_instruction *in = &lists[stage].at[k];
				const uint32_t own = layers[in->chunk % s.chunks * s.stages + stage];
				alive += in->op == P4D_OP_FORWARD ? own : 0;
				most = alive > most ? alive : most;
				alive -= in->op == P4D_OP_BACKWARD ? own : 0;
			}
			assert_int_equal(p4d_schedule_layers_alive(&with, stage, layers), most);
		}
		release(lists, &with);
	}
}

static void test_random(void **state)
{
	(void)state;
	for (int i = 0; i < 8000; i++) {
		p4d_schedule s = random_schedule(12, 40);
		assert_slots(&s);
	}
	for (int i = 0; i < 60; i++) {
		p4d_schedule s = random_schedule(70, 150);
		assert_slots(&s);
	}
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Compares numbers of slots with published ones. */
static void test_published(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		p4d_schedule s = random_schedule(1024, 4000);
		const uint32_t p = s.stages, m = s.micro_batches, v = s.chunks, r = random_below(p);
		const p4d_slots slots = p4d_schedule_slots(&s, r);
		uint32_t expected;

		switch (s.kind) {
		case P4D_GPIPE:
			expected = m;
			break;
		case P4D_1F1B: /* arXiv 2411.05288: vocab-1 needs two more slots, vocab-2 one more; slices
				* need slices - 1 more */
			expected = least(m, p - r + (s.vocabulary ? 3 - (uint32_t)s.vocabulary : 0) +
						p4d_schedule_slices(&s) - 1);
			expected = s.local ? 1 : expected;
			break;
		case P4D_INTERLEAVED:
			expected = least(m * v, 2 * (p - r - 1) + (v - 1) * p + 1);
			break;
		case P4D_ZB1P:
			expected = least(m, p);
			break;
		case P4D_ZBV: /* the memory of 1F1B: p micro-batches of two chunks */
			assert_true(slots.activation <= 2 * p);
			expected = m >= 2 * p ? 2 * p : slots.activation;
			break;
		case P4D_DUALPIPE_V: /* PP + 1 of PP = 2p positions: DualPipe's README */
			assert_true(slots.activation <= 2 * p + 1);
			expected = m >= 2 * p ? 2 * p + 1 : slots.activation;
			break;
		case P4D_V_HALF: /* half of 1F1B's memory on all stages; arXiv 2405.15362 has (p + 2)/2
				    micro-batches */
			expected = p + (p % 2 ? 1 : 2);
			if (s.vocabulary != P4D_VOCAB_OFF)
				expected += p % 2 == 0 && s.vocabulary == P4D_VOCAB_2 ? 0 : 2;
			assert_true(slots.activation <= expected);
			expected = m >= p + 2 ? expected : slots.activation;
			break;
		default:
			continue;
		}
		if (slots.activation != expected)
			fail_msg("%s, stage %u: %u slots, not %u", shape_text(&s), r, slots.activation,
				 expected);
		assert_int_equal(slots.vocabulary, s.vocabulary ? 1 : 0);
	}
}

/* With the largest number of micro-batches, the counts stay the same. p4d computes them without making
 * lists. */
static void test_many_micro_batches(void **state)
{
	(void)state;
	for (int i = 0; i < 2000; i++) {
		p4d_schedule s = random_schedule(1024, 1);
		uint32_t stage = random_below(s.stages);
		const uint32_t unit = s.stages * p4d_schedule_slices(&s);
		s.micro_batches = unit * 8;
		p4d_slots few = p4d_schedule_slots(&s, stage);
		s.micro_batches = (1 << 24) / unit * unit;
		p4d_slots many = p4d_schedule_slots(&s, stage);
		if (p4d_schedule_kinds[s.kind]->in_phases)
			few.activation = s.micro_batches;
		if (few.sequences && p4d_schedule_kinds[s.kind]->in_phases)
			few.sequences = s.micro_batches / s.slices;
		assert_memory_equal(&few, &many, sizeof(few));
	}
}

/* Checks the number of passes before the first forward pass of chunk 1, and after its last backward pass.
 * The expected numbers are counted in lists. */
static void test_v_ends(void **state)
{
	static const int kinds[] = {P4D_ZBV, P4D_V_HALF, P4D_V_HALF, P4D_V_HALF, P4D_DUALPIPE_V};

	(void)state;
	for (int i = 0; i < 4000; i++) {
		const uint32_t stages = 2 + random_below(31);
		const p4d_schedule s = {kinds[i % 5],
					i % 5 % 4 ? i % 5 - 1 : P4D_VOCAB_OFF,
					stages,
					2,
					1 + random_below(i % 3 ? 4 * stages : stages),
					1,
					false};
		const uint32_t stage = random_below(stages);
		const p4d_v_ends ends = p4d_schedule_v_ends(&s, stage);
		uint32_t forwards[2] = {0}, backwards[2] = {0}, ahead = 0, behind = 0;
		p4d_schedule_order order;
		p4d_pass pass;
		p4d_schedule_order_begin(&s, stage, &order);
		while (p4d_schedule_order_next(&order, &pass)) {
			if (pass.op == P4D_OP_FORWARD && pass.chunk == 1 && forwards[1] == 0)
				ahead = forwards[0];
			if (pass.op == P4D_OP_BACKWARD_INPUT && pass.chunk == 0)
				behind += backwards[1] == s.micro_batches;
			if (pass.op == P4D_OP_FORWARD)
				forwards[pass.chunk]++;
			if (pass.op == P4D_OP_BACKWARD_INPUT)
				backwards[pass.chunk]++;
		}
		if (ends.ahead != ahead || ends.behind != behind)
			fail_msg("%s, stage %u: %u ahead and %u behind, not %u and %u", shape_text(&s), stage,
				 ahead, behind, ends.ahead, ends.behind);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random),    cmocka_unit_test(test_uneven_chunks),
	    cmocka_unit_test(test_published), cmocka_unit_test(test_many_micro_batches),
	    cmocka_unit_test(test_v_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
