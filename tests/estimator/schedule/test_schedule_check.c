/* SPDX-License-Identifier: Apache-2.0 */
/* The checker finds errors. Each test takes valid lists and makes one change. */
#include "support/support.h"

#include <math.h>

#include "support/durations.h"
#include "support/schedule_check.h"

static void assert_refused(const p4d_schedule *s, const p4d_instruction_list *lists, const char *what)
{
	p4d_error err = {0};

	if (p4d_schedule_check(s, lists, &err) == 0)
		fail_msg("%s: %s was not refused", shape_text(s), what);
	assert_int_equal(err.code, P4D_E_INSTRUCTIONS);
	if (strncmp(err.text, "stage ", 6) != 0 || !strstr(err.text, "instruction "))
		fail_msg("%s: %s does not say where: %s", shape_text(s), what, err.text);
	/* the error argument may be NULL */
	assert_int_equal(p4d_schedule_check(s, lists, NULL), -1);
}

/* A list with room for one more instruction. */
static p4d_instruction_list copy_of(const p4d_instruction_list *list)
{
	p4d_instruction_list copy = *list;

	copy.at = malloc((list->count + 1) * sizeof(*copy.at));
	assert_non_null(copy.at);
	memcpy(copy.at, list->at, list->count * sizeof(*copy.at));
	return copy;
}

static bool is_transfer(const p4d_instruction *in)
{
	return in->op == P4D_OP_RECV_FORWARD || in->op == P4D_OP_SEND_FORWARD ||
	       in->op == P4D_OP_RECV_BACKWARD || in->op == P4D_OP_SEND_BACKWARD;
}

enum { DROP, REPEAT, SWAP, SLOT, PEER, MICRO_BATCH, CHUNK, OP, RESERVED, MUTATIONS };
static const char *const mutation_name[MUTATIONS] = {
    "a dropped instruction", "an instruction twice", "two instructions swapped",
    "another slot",          "another peer",         "another micro-batch",
    "another chunk",         "another instruction",  "a reserved field",
};

/* Changes a list. Returns false if the changed list may still be valid. */
static bool mutate(p4d_instruction_list *list, int mutation, size_t at, const p4d_schedule *s)
{
	p4d_instruction *in = &list->at[at], kept = *in;
	size_t after = list->count - at;

	switch (mutation) {
	case DROP:
		memmove(in, in + 1, (after - 1) * sizeof(*in));
		list->count--;
		return true;
	case REPEAT:
		memmove(in + 1, in, after * sizeof(*in));
		list->count++;
		return true;
	case SWAP:
		if (after < 2)
			return false;
		in[0] = in[1];
		in[1] = kept;
		/* two passes may change places if neither depends on the other; a transfer must stay with
		 * its pass */
		return is_transfer(&in[0]) || is_transfer(&in[1]);
	case SLOT:
		in->slot = random_below(2) ? in->slot + 1 : in->slot + 1000000;
		return true;
	case PEER:
		in->peer = (uint16_t)((in->peer + 1) % (s->stages + 1));
		return true;
	case MICRO_BATCH:
		in->micro_batch = random_below(2) ? in->micro_batch + 1 : in->micro_batch - 1;
		return true;
	case CHUNK:
		in->chunk = (uint16_t)(in->chunk + 1 + random_below(2));
		return true;
	case OP:
		in->op = (uint8_t)((in->op + 1 + random_below(P4D_OPS)) % (P4D_OPS + 1));
		return in->op != kept.op;
	default:
		in->reserved[random_below(3)] = 1;
		return true;
	}
}

static void test_mutations(void **state)
{
	(void)state;
	for (int i = 0; i < 6000; i++) {
		p4d_schedule s = random_schedule(6, 10);
		p4d_instruction_list *lists = compiled(&s);
		uint32_t stage = random_below(s.stages);
		p4d_instruction_list good = lists[stage], bad = copy_of(&good);
		int mutation = i % MUTATIONS;
		bool wrong = mutate(&bad, mutation, random_below((uint32_t)good.count), &s);

		lists[stage] = bad;
		if (wrong)
			assert_refused(&s, lists, mutation_name[mutation]);
		else
			p4d_schedule_check(&s, lists, NULL); /* the checker may accept or refuse the list, but
							      * must not crash */
		free(bad.at);
		lists[stage] = good;
		release(lists, &s);
	}
}

static void test_slots_said(void **state)
{
	const p4d_schedule s = {P4D_V_HALF, P4D_VOCAB_2, 4, 2, 8, 1, false};
	p4d_instruction_list *lists = compiled(&s);

	(void)state;
	lists[2].slots.activation++;
	assert_refused(&s, lists, "a slot too many");
	lists[2].slots.activation--;
	lists[0].slots.vocabulary = 0;
	assert_refused(&s, lists, "a vocabulary slot too few");
	lists[0].slots.vocabulary = 1;
	lists[1].count = 0;
	assert_refused(&s, lists, "an empty list");
	release(lists, &s);
}

/* Each list is valid, but together they block: the first stage sends all results before it receives, and
 * the second one waits. */
static void test_deadlock(void **state)
{
	const p4d_schedule one = {P4D_1F1B, P4D_VOCAB_OFF, 2, 1, 8, 1, false};
	p4d_schedule all = one;
	p4d_error err;

	(void)state;
	all.kind = P4D_GPIPE;
	p4d_instruction_list *lists = compiled(&one), *other = compiled(&all), first = lists[0];
	lists[0] = other[0];
	assert_refused(&one, lists, "a deadlock");
	p4d_schedule_check(&one, lists, &err);
	assert_non_null(strstr(err.text, "deadlock"));
	lists[0] = first;
	release(other, &all);
	release(lists, &one);
}

/* The second stage receives and sends micro-batch 1 before micro-batch 0, but the first stage sends 0
 * first. */
static void test_other_order(void **state)
{
	const p4d_schedule s = {P4D_1F1B, P4D_VOCAB_OFF, 2, 1, 4, 1, false};
	p4d_instruction_list *lists = compiled(&s);
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < lists[1].count; i++) {
		p4d_instruction *in = &lists[1].at[i];
		bool pass = in->op != P4D_OP_GATHER_PARAMS && in->op != P4D_OP_REDUCE_GRADS &&
			    in->op != P4D_OP_OPTIMIZER;
		if (pass && in->micro_batch < 2)
			in->micro_batch ^= 1;
	}
	assert_refused(&s, lists, "another order of micro-batches");
	p4d_schedule_check(&s, lists, &err);
	assert_non_null(strstr(err.text, "stage 1, instruction 1 (receive forward"));
	release(lists, &s);
}

/* vocab-2's lists begin the backward pass before T. By the rules of vocab-1, they would wait forever. */
static void test_barriers(void **state)
{
	p4d_schedule s = {P4D_1F1B, P4D_VOCAB_2, 4, 1, 8, 1, false};
	p4d_instruction_list *lists = compiled(&s);

	(void)state;
	s.vocabulary = P4D_VOCAB_1;
	assert_refused(&s, lists, "a backward before the barrier");
	release(lists, &s);
}

/* At most two results may be stored between passes of a stage. Running all embeddings first stores too
 * many. */
static void test_hand_overs(void **state)
{
	const p4d_schedule s = {P4D_1F1B, P4D_VOCAB_1, 2, 1, 6, 1, false};
	p4d_instruction_list *lists = compiled(&s);
	p4d_error err;

	(void)state;
	for (uint32_t stage = 0; stage < s.stages; stage++) {
		p4d_instruction_list *list = &lists[stage];
		for (size_t i = 1, to = 1; i < list->count; i++) {
			p4d_instruction in = list->at[i];
			if (in.op != P4D_OP_EMBED_FORWARD)
				continue;
			memmove(&list->at[to + 1], &list->at[to], (i - to) * sizeof(in));
			list->at[to++] = in;
		}
	}
	assert_refused(&s, lists, "six embeddings at once");
	p4d_schedule_check(&s, lists, &err);
	assert_non_null(strstr(err.text, "embeddings of more than 2"));
	release(lists, &s);
}

/* Finds the pass number `number` of an operation. */
static p4d_instruction *pass(const p4d_instruction_list *list, p4d_op op, uint32_t number)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i].op == op && number-- == 0)
			return &list->at[i];
	fail();
	return NULL;
}

static void assert_refused_for(const p4d_schedule *s, const p4d_instruction_list *lists, const char *why)
{
	p4d_error err = {0};

	assert_refused(s, lists, why);
	p4d_schedule_check(s, lists, &err);
	if (!strstr(err.text, why))
		fail_msg("not refused for \"%s\": %s", why, err.text);
}

static void exchange(p4d_instruction *a, p4d_instruction *b)
{
	const p4d_instruction kept = *a;

	a->micro_batch = b->micro_batch;
	b->micro_batch = kept.micro_batch;
	a->slot = b->slot;
	b->slot = kept.slot;
}

/* Dependent slices or sequences in the wrong order. With a single stage, there are no transfers that would
 * also fail. */
static void test_slices(void **state)
{
	const p4d_schedule s = {P4D_GPIPE, P4D_VOCAB_OFF, 1, 1, 6, 3, false};
	static const struct {
		p4d_op op;
		uint32_t first, second; /* these two passes change places */
		const char *why;
	} wrong[] = {
	    {P4D_OP_FORWARD, 0, 1, "without the keys and values"},
	    {P4D_OP_FORWARD, 1, 2, "without the keys and values"},
	    {P4D_OP_FORWARD, 0, 3, "sequences do not begin in order"},
	    {P4D_OP_BACKWARD, 0, 1, "before the slice behind it"},
	    {P4D_OP_BACKWARD, 1, 2, "before the slice behind it"},
	    {P4D_OP_BACKWARD, 0, 3, "while other sequences run backward"},
	};
	p4d_instruction_list *lists = compiled(&s);

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		p4d_instruction *a = pass(lists, wrong[i].op, wrong[i].first),
				*b = pass(lists, wrong[i].op, wrong[i].second);
		exchange(a, b);
		assert_refused_for(&s, lists, wrong[i].why);
		exchange(a, b);
	}
	assert_int_equal(lists->slots.sequences, 2);
	lists->slots.sequences = 1;
	assert_refused_for(&s, lists, "the keys and values of 1 micro-batches have room");
	lists->slots.sequences = 3;
	assert_refused_for(&s, lists, "keys and values of 2 micro-batches are there at a time, not 3");
	lists->slots.sequences = 2;
	assert_int_equal(p4d_schedule_check(&s, lists, NULL), 0);
	release(lists, &s);
}

/* With losses of single stages, no gradient is sent to another stage, and a stage stores only one
 * micro-batch. */
static void local_losses(void **state)
{
	(void)state;
	for (uint32_t p = 2; p <= 6; p++)
		for (uint32_t m = 1; m <= 9; m++) {
			p4d_schedule s = {.kind = P4D_1F1B, .stages = p, .chunks = 1, .micro_batches = m};
			p4d_instruction_list *whole = compiled(&s);
			durations_store store;
			const p4d_durations d = even_durations(&s, &store);
			p4d_timeline t;
			s.local = true;
			p4d_instruction_list *lists = compiled(&s);
			assert_int_equal(p4d_schedule_check(&s, lists, NULL), 0);
			for (uint32_t stage = 0; stage < p; stage++) {
				assert_int_equal(lists[stage].slots.activation, 1);
				assert_int_equal(p4d_schedule_slots(&s, stage).activation, 1);
				for (size_t i = 0; i < lists[stage].count; i++)
					assert_true(lists[stage].at[i].op != P4D_OP_RECV_BACKWARD &&
						    lists[stage].at[i].op != P4D_OP_SEND_BACKWARD);
			}
			/* a gradient is sent that nobody receives; and the reverse */
			assert_refused(&s, whole, "a gradient that crosses stages");
			s.local = false;
			assert_refused(&s, lists, "a gradient that does not come");
			s.local = true;
			/* a stage waits only once, for its first input */
			assert_int_equal(p4d_timeline_run(&s, lists, &d, false, &t, NULL), 0);
			assert_true(fabs(t.seconds - 3 * m - (p - 1)) < 1e-9);
			p4d_timeline_free(&t, p);
			release(lists, &s);
			release(whole, &s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_mutations), cmocka_unit_test(test_slots_said),
	    cmocka_unit_test(test_deadlock),  cmocka_unit_test(test_other_order),
	    cmocka_unit_test(test_barriers),  cmocka_unit_test(test_hand_overs),
	    cmocka_unit_test(test_slices),    cmocka_unit_test(local_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
