/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "schedule/schedule_fields.h"
#include "support/schedule_check.h"

/* Slots of one kind. owner: 1 + the number of the pass that uses the slot; 0: the slot is free. */
typedef struct slot_set {
	const char *name;
	uint32_t count, used;
	uint64_t *owner;
} slot_set;

typedef struct checker {
	const p4d_schedule *s;
	const p4d_instruction_list *list,
	    *model;           /* model: a valid list, which gives the order of vocabulary passes */
	uint32_t stage, last; /* last: the position of the stage with the loss */
	size_t at, model_at;
	/* per chunk, and last for the vocabulary tables: how many passes added to the gradients, and
	 * whether parameters were gathered and gradients reduced */
	uint64_t *added;
	bool *gathered, *reduced;
	uint8_t *state;         /* per chunk and micro-batch: the op of the last pass; 0: no pass yet */
	uint8_t *tables;        /* per micro-batch: mask of 1 << (op - EMBED_FORWARD) */
	uint64_t done[P4D_OPS]; /* passes at the ends of the model and of the vocabulary */
	slot_set activation, vocabulary;
	/* with slices: number of micro-batches that have begun, and that are done; the largest difference
	 * of both */
	uint32_t begun, done_with, between;
	p4d_error *err;
} checker;

#define REFUSE(c, ...) p4d_schedule_instruction_fail((c)->err, (c)->list, (c)->stage, (c)->at, __VA_ARGS__)

static const p4d_instruction *here(const checker *c)
{
	return &c->list->at[c->at];
}

static uint64_t pass_number(const checker *c, const p4d_instruction *in)
{
	return (uint64_t)in->chunk * c->s->micro_batches + in->micro_batch;
}

static int take(checker *c, slot_set *slots, uint32_t slot, uint64_t owner)
{
	if (slot >= slots->count)
		return REFUSE(c, "%s slot %u of %u", slots->name, slot, slots->count);
	if (slots->owner[slot])
		return REFUSE(c, "%s slot %u is taken", slots->name, slot);
	slots->owner[slot] = owner + 1;
	if (slot >= slots->used)
		slots->used = slot + 1;
	return 0;
}

static int hold(checker *c, slot_set *slots, uint32_t slot, uint64_t owner)
{
	if (slot >= slots->count || slots->owner[slot] != owner + 1)
		return REFUSE(c, "%s slot %u does not hold this micro-batch", slots->name, slot);
	return 0;
}

static int give(checker *c, slot_set *slots, uint32_t slot, uint64_t owner)
{
	if (hold(c, slots, slot, owner) < 0)
		return -1;
	slots->owner[slot] = 0;
	return 0;
}

static bool same_pass(const checker *c, size_t at, p4d_op op)
{
	const p4d_instruction *in = here(c), *other = &c->list->at[at];

	return other->op == op && other->chunk == in->chunk && other->micro_batch == in->micro_batch;
}

static int check_fields(checker *c)
{
	const p4d_instruction *in = here(c);
	const char *fault = p4d_schedule_instruction_fault(c->s, c->stage, in);
	const bool once = in->op == P4D_OP_GATHER_PARAMS || in->op == P4D_OP_OPTIMIZER;

	if (fault)
		return REFUSE(c, "%s", fault);
	if (!once && !c->gathered[in->chunk])
		return REFUSE(c, "before the parameters are gathered");
	return 0;
}

/* Checks that a receive is right before its pass, or that a send is right after its pass. */
static int check_transfer(checker *c, bool forward, bool receive)
{
	const p4d_instruction *in = here(c);
	const size_t pass = receive ? c->at + 1 : c->at - 1; /* a number above the list's count if there is
							      * no such pass */
	bool fits = false;

	if (pass < c->list->count)
		fits = forward
			   ? same_pass(c, pass, P4D_OP_FORWARD)
			   : same_pass(c, pass, P4D_OP_BACKWARD) || same_pass(c, pass, P4D_OP_BACKWARD_INPUT);
	if (!fits)
		return REFUSE(c, "not right %s its pass", receive ? "before" : "after");
	if (forward && receive && c->list->at[pass].slot != in->slot)
		return REFUSE(c, "into slot %u, but the pass uses %u", in->slot, c->list->at[pass].slot);
	return 0;
}

/* Checks that the transfers of a pass are right before and right after it. */
static int check_neighbours(checker *c, bool forward)
{
	const uint32_t position = p4d_schedule_position_of(c->s, c->stage, here(c)->chunk);
	const bool receives = forward ? position > 0 : p4d_schedule_is_told(c->s, position);
	const bool sends = forward ? position < c->last : p4d_schedule_tells(c->s, position);

	if (receives &&
	    (c->at == 0 || !same_pass(c, c->at - 1, forward ? P4D_OP_RECV_FORWARD : P4D_OP_RECV_BACKWARD)))
		return REFUSE(c, "without its receive");
	if (sends && (c->at + 1 == c->list->count ||
		      !same_pass(c, c->at + 1, forward ? P4D_OP_SEND_FORWARD : P4D_OP_SEND_BACKWARD)))
		return REFUSE(c, "without its send");
	return 0;
}

/* At most P4D_SEND_BUFFERS results may be stored between two passes of the same stage. */
static int check_pending(checker *c, uint64_t made, uint64_t used, const char *what)
{
	if (made > used + P4D_SEND_BUFFERS)
		return REFUSE(c, "%s of more than %d micro-batches would wait", what, P4D_SEND_BUFFERS);
	return 0;
}

static int check_hand_overs(checker *c)
{
	const uint64_t *done = c->done;
	const bool one = c->s->vocabulary == P4D_VOCAB_1;

	if (c->stage == 0 &&
	    (check_pending(c, done[P4D_OP_EMBED_FORWARD], done[P4D_OP_FORWARD], "embeddings") < 0 ||
	     check_pending(c, done[P4D_OP_BACKWARD], done[P4D_OP_EMBED_BACKWARD], "embedding gradients") < 0))
		return -1;
	if (p4d_schedule_is_last(c->s, c->stage) &&
	    (check_pending(c, done[P4D_OP_SEND_FORWARD], done[P4D_OP_VOCAB_FORWARD], "hidden states") < 0 ||
	     check_pending(c, done[one ? P4D_OP_VOCAB_BACKWARD : P4D_OP_VOCAB_FORWARD],
			   done[P4D_OP_SEND_BACKWARD], "gradients of hidden states") < 0))
		return -1;
	return 0;
}

/* Counts passes for check_hand_overs: forward and backward passes at position 0, and at the last position.
 * There are no sends at these ends, so the passes count as sends. */
static void count_ends(checker *c, bool forward)
{
	uint32_t position = p4d_schedule_position_of(c->s, c->stage, here(c)->chunk);

	if (position == 0)
		c->done[forward ? P4D_OP_FORWARD : P4D_OP_BACKWARD]++;
	if (position == c->last)
		c->done[forward ? P4D_OP_SEND_FORWARD : P4D_OP_SEND_BACKWARD]++;
}

/*
 * In a forward pass, a slice needs the keys and values of earlier slices. In a backward pass, it needs the
 * gradients that later slices add to its own. A stage has memory for the keys and values of `sequences`
 * micro-batches, which are used in turn, and for the gradients of one.
 */
static int check_slice(checker *c, bool forward)
{
	const uint32_t unit = here(c)->micro_batch, slices = p4d_schedule_slices(c->s);
	const uint32_t slice = p4d_schedule_slice_of(c->s, unit), whole = unit / slices;
	const uint8_t *state = &c->state[pass_number(c, here(c))];

	if (forward && slice > 0 && state[-1] != P4D_OP_FORWARD)
		return REFUSE(c, "without the keys and values of the slice before it");
	if (!forward && slice < slices - 1 && state[1] != P4D_OP_BACKWARD)
		return REFUSE(c, "before the slice behind it");
	if (forward && slice == 0 && whole != c->begun++)
		return REFUSE(c, "its sequences do not begin in order");
	if (!forward && slice == slices - 1 && whole != c->done_with)
		return REFUSE(c, "while other sequences run backward");
	if (c->begun - c->done_with > c->list->slots.sequences)
		return REFUSE(c, "the keys and values of %u micro-batches have room, not of %u",
			      c->list->slots.sequences, c->begun - c->done_with);
	if (c->begun - c->done_with > c->between)
		c->between = c->begun - c->done_with;
	c->done_with += !forward && slice == 0;
	return 0;
}

static int check_chunk_pass(checker *c)
{
	const p4d_instruction *in = here(c);
	const uint64_t number = pass_number(c, in);
	const bool split = p4d_is_split(c->s->kind), forward = in->op == P4D_OP_FORWARD;
	uint8_t *state = &c->state[number], before = *state;

	if ((in->op == P4D_OP_BACKWARD) == split && !forward)
		return REFUSE(c, "the backward pass is %s in this schedule", split ? "split" : "not split");
	if (before != (forward                            ? 0
		       : in->op == P4D_OP_BACKWARD_WEIGHT ? P4D_OP_BACKWARD_INPUT
							  : P4D_OP_FORWARD))
		return REFUSE(c, "after %s of the same micro-batch",
			      before ? p4d_schedule_op_name(before) : "no pass");
	if (p4d_schedule_slices(c->s) > 1 && check_slice(c, forward) < 0)
		return -1;
	*state = in->op;
	if (in->op != P4D_OP_BACKWARD_WEIGHT) {
		if (check_neighbours(c, forward) < 0)
			return -1;
		count_ends(c, forward);
	}
	switch (in->op) {
	case P4D_OP_FORWARD:
		return take(c, &c->activation, in->slot, number);
	case P4D_OP_BACKWARD_INPUT:
		return hold(c, &c->activation, in->slot, number);
	}
	if (c->reduced[in->chunk])
		return REFUSE(c, "after the gradients are reduced");
	c->added[in->chunk]++;
	return give(c, &c->activation, in->slot, number);
}

static bool is_vocabulary_pass(const p4d_instruction *in)
{
	return in->op >= P4D_OP_EMBED_FORWARD && in->op <= P4D_OP_VOCAB_BACKWARD;
}

static int check_vocabulary_pass(checker *c)
{
	const p4d_instruction *in = here(c), *model = NULL;
	uint8_t *mask = &c->tables[in->micro_batch], bit = (uint8_t)(1 << (in->op - P4D_OP_EMBED_FORWARD));

	while (c->model_at < c->model->count && !model) {
		const p4d_instruction *next = &c->model->at[c->model_at++];
		model = is_vocabulary_pass(next) ? next : NULL;
	}
	if (!model || model->op != in->op || model->micro_batch != in->micro_batch)
		return REFUSE(c, "stage 0 has its vocabulary passes in another order");
	if (*mask & bit)
		return REFUSE(c, "a second time");
	*mask |= bit;
	c->done[in->op]++;
	switch (in->op) {
	case P4D_OP_VOCAB_FORWARD:
		return take(c, &c->vocabulary, in->slot, in->micro_batch);
	case P4D_OP_VOCAB_BACKWARD:
		if (give(c, &c->vocabulary, in->slot, in->micro_batch) < 0)
			return -1;
		c->added[in->chunk]++;
		break;
	case P4D_OP_EMBED_BACKWARD:
		c->added[in->chunk]++;
		break;
	default:
		return 0;
	}
	if (c->reduced[in->chunk])
		return REFUSE(c, "after the gradients are reduced");
	return 0;
}

static int check_whole(checker *c)
{
	const p4d_instruction *in = here(c);
	const uint64_t passes = (uint64_t)c->s->micro_batches * (in->chunk == c->s->chunks ? 2 : 1);

	if (in->op == P4D_OP_GATHER_PARAMS) {
		if (c->gathered[in->chunk])
			return REFUSE(c, "a second time");
		c->gathered[in->chunk] = true;
		return 0;
	}
	if (c->reduced[in->chunk])
		return REFUSE(c, "a second time");
	if (c->added[in->chunk] != passes)
		return REFUSE(c, "after %llu of %llu passes that add to them",
			      (unsigned long long)c->added[in->chunk], (unsigned long long)passes);
	c->reduced[in->chunk] = true;
	return 0;
}

static int check_slots_used(checker *c, const slot_set *slots)
{
	if (slots->used != slots->count)
		return REFUSE(c, "the list uses %u %s slots, not %u", slots->used, slots->name, slots->count);
	return 0;
}

/* Checks at the end of the list that all passes have run, and that the gradients of all chunks are
 * reduced. */
static int check_end(checker *c)
{
	if (c->at + 1 != c->list->count)
		return REFUSE(c, "it comes last");
	for (uint32_t chunk = 0; chunk < c->s->chunks; chunk++)
		if (!c->reduced[chunk])
			return REFUSE(c, "the gradients of chunk %u are not reduced", chunk);
	if (c->s->vocabulary != P4D_VOCAB_OFF && !c->reduced[c->s->chunks])
		return REFUSE(c, "the gradients of the vocabulary tables are not reduced");
	if (check_slots_used(c, &c->activation) < 0)
		return -1;
	if (c->between != c->list->slots.sequences)
		return REFUSE(c, "keys and values of %u micro-batches are there at a time, not %u",
			      c->between, c->list->slots.sequences);
	return check_slots_used(c, &c->vocabulary);
}

static int check_instruction(checker *c)
{
	if (check_fields(c) < 0)
		return -1;
	switch (here(c)->op) {
	case P4D_OP_RECV_FORWARD:
	case P4D_OP_SEND_FORWARD:
		return check_transfer(c, true, here(c)->op == P4D_OP_RECV_FORWARD);
	case P4D_OP_RECV_BACKWARD:
	case P4D_OP_SEND_BACKWARD:
		return check_transfer(c, false, here(c)->op == P4D_OP_RECV_BACKWARD);
	case P4D_OP_GATHER_PARAMS:
	case P4D_OP_REDUCE_GRADS:
		return check_whole(c);
	case P4D_OP_OPTIMIZER:
		return check_end(c);
	case P4D_OP_FORWARD:
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
	case P4D_OP_BACKWARD_WEIGHT:
		if (check_chunk_pass(c) < 0)
			return -1;
		break;
	default:
		if (check_vocabulary_pass(c) < 0)
			return -1;
	}
	return c->s->vocabulary != P4D_VOCAB_OFF ? check_hand_overs(c) : 0;
}

static bool allocate(checker *c)
{
	const p4d_slots *slots = &c->list->slots;
	const uint64_t m = c->s->micro_batches, chunks = c->s->chunks;

	c->activation.owner = calloc((size_t)slots->activation + 1, sizeof(uint64_t));
	c->vocabulary.owner = calloc((size_t)slots->vocabulary + 1, sizeof(uint64_t));
	c->added = calloc(chunks + 1, sizeof(*c->added));
	c->gathered = calloc(chunks + 1, sizeof(*c->gathered));
	c->reduced = calloc(chunks + 1, sizeof(*c->reduced));
	c->state = calloc(chunks, m);
	c->tables = calloc(m, 1);
	return c->activation.owner && c->vocabulary.owner && c->added && c->gathered && c->reduced &&
	       c->state && c->tables;
}

static void release(checker *c)
{
	free(c->activation.owner);
	free(c->vocabulary.owner);
	free(c->added);
	free(c->gathered);
	free(c->reduced);
	free(c->state);
	free(c->tables);
}

static int check_list(const p4d_schedule *s, const p4d_instruction_list *lists, uint32_t stage,
		      p4d_error *err)
{
	const p4d_instruction_list *list = &lists[stage];
	checker c = {
	    .s = s,
	    .list = list,
	    .model = &lists[0],
	    .stage = stage,
	    .last = p4d_schedule_positions(s) - 1,
	    .activation = {"activation", list->slots.activation, 0, NULL},
	    .vocabulary = {"vocabulary", list->slots.vocabulary, 0, NULL},
	    .err = err,
	};
	int status = 0;

	/* this also limits the memory allocated below by the memory of the list */
	if (list->count / s->chunks < s->micro_batches || list->slots.activation > list->count ||
	    list->slots.vocabulary > list->count)
		return p4d_fail(err, P4D_E_INSTRUCTIONS, "stage %u, instruction %zu: the list ends too early",
				stage, list->count);
	if (!allocate(&c))
		status = p4d_fail(err, P4D_E_NO_MEMORY, "no memory to check a schedule");
	for (c.at = 0; status == 0 && c.at < list->count; c.at++)
		status = check_instruction(&c);
	if (status == 0 && list->at[list->count - 1].op != P4D_OP_OPTIMIZER) {
		c.at = list->count - 1;
		status = REFUSE(&c, "the list must end with the optimizer");
	}
	release(&c);
	return status;
}

int p4d_schedule_check(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err)
{
	for (uint32_t stage = 0; stage < s->stages; stage++)
		if (check_list(s, lists, stage, err) < 0)
			return -1;
	return p4d_schedule_execute(s, lists, err);
}
