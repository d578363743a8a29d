/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "schedule/schedule_fields.h"
#include "support/schedule_check.h"

/* A message that was sent but not yet received. */
typedef struct transfer {
	uint32_t micro_batch, position; /* position: that of the receiver */
	uint16_t peer;
} transfer;

enum { BACKWARDS, FORWARDS, DIRECTIONS };

typedef struct worker {
	size_t at;
	unsigned on_way[DIRECTIONS];
	transfer buffer[DIRECTIONS][P4D_SEND_BUFFERS]; /* the oldest first */
} worker;

/* For each micro-batch: the number of stages that have run the pass. For passes at the ends of the model:
 * whether its stage has run it. */
typedef struct barriers {
	uint16_t *embed_forward, *vocab_forward, *vocab_backward, *last_forward, *first_backward;
} barriers;

typedef struct machine {
	const p4d_schedule *s;
	const p4d_instruction_list *lists;
	worker *worker;
	barriers of;
	p4d_error *err;
} machine;

enum outcome { DONE, WAITS, WRONG };

static enum outcome send(machine *x, uint32_t stage, const p4d_instruction *in, unsigned direction)
{
	worker *w = &x->worker[stage];
	uint32_t position = p4d_schedule_position_of(x->s, stage, in->chunk);

	if (w->on_way[direction] == P4D_SEND_BUFFERS)
		return WAITS;
	w->buffer[direction][w->on_way[direction]++] = (transfer){
	    .micro_batch = in->micro_batch,
	    .position = direction == FORWARDS ? position + 1 : position - 1,
	    .peer = in->peer,
	};
	return DONE;
}

static enum outcome receive(machine *x, uint32_t stage, const p4d_instruction *in, unsigned direction)
{
	worker *from = &x->worker[in->peer];
	transfer *buffer = from->buffer[direction];
	unsigned i = 0;

	while (i < from->on_way[direction] && buffer[i].peer != stage)
		i++;
	if (i == from->on_way[direction])
		return WAITS;
	if (buffer[i].micro_batch != in->micro_batch ||
	    buffer[i].position != p4d_schedule_position_of(x->s, stage, in->chunk)) {
		p4d_schedule_instruction_fail(x->err, &x->lists[stage], stage, x->worker[stage].at,
					      "stage %u sends micro-batch %u for position %u first", in->peer,
					      buffer[i].micro_batch, buffer[i].position);
		return WRONG;
	}
	from->on_way[direction]--;
	for (; i < from->on_way[direction]; i++)
		buffer[i] = buffer[i + 1];
	return DONE;
}

/* Whether an instruction can run now. With vocabulary parallelism, some passes wait for all stages or for
 * another stage. */
static bool is_ready(const machine *x, uint32_t stage, const p4d_instruction *in)
{
	const p4d_schedule *s = x->s;
	const uint32_t i = in->micro_batch;
	uint32_t position;

	switch (in->op) {
	case P4D_OP_FORWARD:
		position = p4d_schedule_position_of(s, stage, in->chunk);
		return position > 0 || x->of.embed_forward[i] == s->stages;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		position = p4d_schedule_position_of(s, stage, in->chunk);
		if (position < p4d_schedule_positions(s) - 1)
			return true;
		return (s->vocabulary == P4D_VOCAB_1 ? x->of.vocab_backward : x->of.vocab_forward)[i] ==
		       s->stages;
	case P4D_OP_VOCAB_FORWARD:
		return x->of.last_forward[i];
	case P4D_OP_VOCAB_BACKWARD:
		return x->of.vocab_forward[i] == s->stages;
	case P4D_OP_EMBED_BACKWARD:
		return x->of.first_backward[i];
	}
	return true;
}

static void arrive(machine *x, uint32_t stage, const p4d_instruction *in)
{
	const uint32_t i = in->micro_batch;

	switch (in->op) {
	case P4D_OP_FORWARD:
		if (p4d_schedule_position_of(x->s, stage, in->chunk) == p4d_schedule_positions(x->s) - 1)
			x->of.last_forward[i] = 1;
		break;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		if (p4d_schedule_position_of(x->s, stage, in->chunk) == 0)
			x->of.first_backward[i] = 1;
		break;
	case P4D_OP_EMBED_FORWARD:
		x->of.embed_forward[i]++;
		break;
	case P4D_OP_VOCAB_FORWARD:
		x->of.vocab_forward[i]++;
		break;
	case P4D_OP_VOCAB_BACKWARD:
		x->of.vocab_backward[i]++;
		break;
	}
}

static enum outcome step(machine *x, uint32_t stage, const p4d_instruction *in)
{
	switch (in->op) {
	case P4D_OP_SEND_FORWARD:
		return send(x, stage, in, FORWARDS);
	case P4D_OP_SEND_BACKWARD:
		return send(x, stage, in, BACKWARDS);
	case P4D_OP_RECV_FORWARD:
		return receive(x, stage, in, FORWARDS);
	case P4D_OP_RECV_BACKWARD:
		return receive(x, stage, in, BACKWARDS);
	}
	if (x->s->vocabulary == P4D_VOCAB_OFF)
		return DONE;
	if (!is_ready(x, stage, in))
		return WAITS;
	arrive(x, stage, in);
	return DONE;
}

/* Runs a stage until it blocks. *moved becomes true if it ran an instruction. */
static int run_stage(machine *x, uint32_t stage, bool *moved)
{
	worker *w = &x->worker[stage];
	const p4d_instruction_list *list = &x->lists[stage];

	for (; w->at < list->count; w->at++) {
		enum outcome outcome = step(x, stage, &list->at[w->at]);
		if (outcome == WRONG)
			return -1;
		if (outcome == WAITS)
			return 0;
		*moved = true;
	}
	return 0;
}

/* Visits the stages in both directions until none can continue, because forward passes go from the first
 * to the last stage, and backward passes from the last to the first. */
static int run(machine *x)
{
	const uint32_t p = x->s->stages;
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < 2 * p; i++)
			if (run_stage(x, i < p ? i : 2 * p - 1 - i, &moved) < 0)
				return -1;
	}
	for (uint32_t stage = 0; stage < p; stage++)
		if (x->worker[stage].at < x->lists[stage].count)
			return p4d_schedule_instruction_fail(x->err, &x->lists[stage], stage,
							     x->worker[stage].at,
							     "deadlock: the stages wait for each other");
	return 0;
}

int p4d_schedule_execute(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err)
{
	const size_t m = s->micro_batches;
	uint16_t *memory = calloc(m, 5 * sizeof(uint16_t));
	machine x = {
	    .s = s,
	    .lists = lists,
	    .worker = calloc(s->stages, sizeof(worker)),
	    .of = {memory, memory + m, memory + 2 * m, memory + 3 * m, memory + 4 * m},
	    .err = err,
	};
	int status = -1;

	if (!memory || !x.worker)
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory to check a schedule");
	else
		status = run(&x);
	free(x.worker);
	free(memory);
	return status;
}
