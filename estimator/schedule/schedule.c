/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule.h"

#include <stdlib.h>

#include "schedule/schedule_order.h"
#include "schedule/slot_pool.h"

#define ENTRY(id, symbol, name) [P4D_##id] = &p4d_schedule__##symbol,
const p4d_schedule_kind *const p4d_schedule_kinds[P4D_SCHEDULES] = {P4D_SCHEDULE_LIST(ENTRY)};

enum { MOST_INSTRUCTIONS = 1 << 28 };

p4d_schedule p4d_schedule_of(const p4d_layout *layout)
{
	const uint32_t slices = layout->slices > 1 ? (uint32_t)layout->slices : 1;

	return (p4d_schedule){
	    .kind = layout->schedule,
	    .vocabulary = layout->vocab_parallel,
	    .local = layout->local_loss,
	    .stages = (uint32_t)layout->pp,
	    .chunks = (uint32_t)layout->vpp,
	    .micro_batches = (uint32_t)layout->micro_batches * slices,
	    .slices = slices,
	};
}

uint32_t p4d_schedule_stage_at(const p4d_schedule *s, uint32_t position, uint32_t *chunk)
{
	if (chunk)
		*chunk = position / s->stages;
	if (p4d_is_v_shaped(s->kind) && position >= s->stages)
		return 2 * s->stages - 1 - position;
	return position % s->stages;
}

const char *p4d_schedule_op_name(p4d_op op)
{
	static const char *const name[P4D_OPS] = {
	    [P4D_OP_GATHER_PARAMS] = "gather parameters",
	    [P4D_OP_RECV_FORWARD] = "receive forward",
	    [P4D_OP_FORWARD] = "forward",
	    [P4D_OP_SEND_FORWARD] = "send forward",
	    [P4D_OP_RECV_BACKWARD] = "receive backward",
	    [P4D_OP_BACKWARD] = "backward",
	    [P4D_OP_BACKWARD_INPUT] = "backward input",
	    [P4D_OP_BACKWARD_WEIGHT] = "backward weight",
	    [P4D_OP_SEND_BACKWARD] = "send backward",
	    [P4D_OP_EMBED_FORWARD] = "embedding forward",
	    [P4D_OP_EMBED_BACKWARD] = "embedding backward",
	    [P4D_OP_VOCAB_FORWARD] = "vocabulary forward",
	    [P4D_OP_VOCAB_BACKWARD] = "vocabulary backward",
	    [P4D_OP_REDUCE_GRADS] = "reduce gradients",
	    [P4D_OP_OPTIMIZER] = "optimizer",
	};

	return (unsigned)op < P4D_OPS ? name[op] : "unknown instruction";
}

/*
 * Number of instructions of a stage. Either all lists of a schedule are compiled or none, so each is below
 * 2^28.
 */
static uint64_t count_instructions(const p4d_schedule *s, uint32_t stage)
{
	const uint32_t last = p4d_schedule_positions(s) - 1;
	uint64_t each = 0;

	for (uint32_t chunk = 0; chunk < s->chunks; chunk++) {
		uint32_t position = p4d_schedule_position_of(s, stage, chunk);
		each += p4d_is_split(s->kind) ? 3 : 2;
		each += (position > 0) + p4d_schedule_tells(s, position);
		each += (position < last) + p4d_schedule_is_told(s, position);
	}
	if (s->vocabulary != P4D_VOCAB_OFF)
		each += 4;
	/* gather and reduce of every chunk and of the vocabulary tables, and the optimizer */
	return each * s->micro_batches + 2 * (uint64_t)s->chunks + (s->vocabulary != P4D_VOCAB_OFF ? 2 : 0) +
	       1;
}

/* The positions before and after a stage's chunk in the order of the model. */
typedef struct neighbours {
	uint16_t below, above; /* stages with the position before and after */
	bool first, last;      /* there is no position before; there is none after */
	bool tells, told;      /* whether this position sends a gradient to the previous position; whether it
				  receives one from the next position */
} neighbours;

/* State of compiling one stage. */
typedef struct compiler {
	const p4d_schedule *s;
	uint32_t stage;
	neighbours *of; /* one entry per chunk */
	p4d_slot_pool activation, vocabulary;
	p4d_instruction *at; /* the next instruction to write */
} compiler;

static p4d_instruction *emit(compiler *c, p4d_op op, uint32_t chunk, uint32_t micro_batch)
{
	p4d_instruction *in = c->at++;

	*in = (p4d_instruction){
	    .micro_batch = micro_batch,
	    .chunk = (uint16_t)chunk,
	    .op = (uint8_t)op,
	};
	return in;
}

static void emit_transfer(compiler *c, p4d_op op, const p4d_pass *pass, uint16_t peer, uint32_t slot)
{
	p4d_instruction *in = emit(c, op, pass->chunk, pass->micro_batch);

	in->peer = peer;
	in->slot = slot;
}

static void emit_forward(compiler *c, const p4d_pass *pass)
{
	const neighbours *of = &c->of[pass->chunk];
	uint32_t slot = p4d_slot_pool__take(&c->activation, pass->chunk);

	if (pass->micro_batch == 0)
		emit(c, P4D_OP_GATHER_PARAMS, pass->chunk, 0);
	if (!of->first)
		emit_transfer(c, P4D_OP_RECV_FORWARD, pass, of->below, slot);
	emit(c, P4D_OP_FORWARD, pass->chunk, pass->micro_batch)->slot = slot;
	if (!of->last)
		emit_transfer(c, P4D_OP_SEND_FORWARD, pass, of->above, 0);
}

static void emit_backward(compiler *c, const p4d_pass *pass)
{
	const neighbours *of = &c->of[pass->chunk];
	const uint32_t slices = p4d_schedule_slices(c->s);

	if (slices > 1 && p4d_schedule_slice_of(c->s, pass->micro_batch) == slices - 1)
		p4d_slot_pool__reverse(&c->activation, pass->chunk, slices);
	if (of->told)
		emit_transfer(c, P4D_OP_RECV_BACKWARD, pass, of->above, 0);
	p4d_instruction *in = emit(c, (p4d_op)pass->op, pass->chunk, pass->micro_batch);
	in->slot = pass->op == P4D_OP_BACKWARD ? p4d_slot_pool__release(&c->activation, pass->chunk)
					       : p4d_slot_pool__look(&c->activation, pass->chunk);
	if (of->tells)
		emit_transfer(c, P4D_OP_SEND_BACKWARD, pass, of->below, 0);
}

static void emit_pass(compiler *c, const p4d_pass *pass)
{
	const uint32_t chunk = pass->chunk, micro_batch = pass->micro_batch;
	p4d_instruction *in;

	switch (pass->op) {
	case P4D_OP_FORWARD:
		emit_forward(c, pass);
		return;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		emit_backward(c, pass);
		if (pass->op == P4D_OP_BACKWARD_INPUT)
			return;
		break;
	case P4D_OP_BACKWARD_WEIGHT:
		in = emit(c, P4D_OP_BACKWARD_WEIGHT, chunk, micro_batch);
		in->slot = p4d_slot_pool__release(&c->activation, chunk);
		break;
	case P4D_OP_EMBED_FORWARD:
		if (micro_batch == 0)
			emit(c, P4D_OP_GATHER_PARAMS, chunk, 0);
		emit(c, P4D_OP_EMBED_FORWARD, chunk, micro_batch);
		return;
	case P4D_OP_VOCAB_FORWARD:
		in = emit(c, P4D_OP_VOCAB_FORWARD, chunk, micro_batch);
		in->slot = p4d_slot_pool__take(&c->vocabulary, 0);
		return;
	case P4D_OP_VOCAB_BACKWARD:
		in = emit(c, P4D_OP_VOCAB_BACKWARD, chunk, micro_batch);
		in->slot = p4d_slot_pool__release(&c->vocabulary, 0);
		return;
	default: /* EMBED_BACKWARD, which comes after VOCAB_BACKWARD of the same micro-batch */
		emit(c, P4D_OP_EMBED_BACKWARD, chunk, micro_batch);
	}
	/* the passes of one kind and chunk are in order, so no later pass adds to these gradients */
	if (p4d_schedule_ends_with(c->s, micro_batch))
		emit(c, P4D_OP_REDUCE_GRADS, chunk, 0);
}

static void find_neighbours(compiler *c)
{
	const p4d_schedule *s = c->s;

	for (uint32_t chunk = 0; chunk < s->chunks; chunk++) {
		const uint32_t position = p4d_schedule_position_of(s, c->stage, chunk);
		neighbours *of = &c->of[chunk];
		of->first = position == 0;
		of->last = position == p4d_schedule_positions(s) - 1;
		of->tells = p4d_schedule_tells(s, position);
		of->told = p4d_schedule_is_told(s, position);
		of->below = of->first ? 0 : (uint16_t)p4d_schedule_stage_at(s, position - 1, NULL);
		of->above = of->last ? 0 : (uint16_t)p4d_schedule_stage_at(s, position + 1, NULL);
	}
}

static int compile_stage(compiler *c, p4d_instruction_list *list, p4d_error *err)
{
	uint64_t count = count_instructions(c->s, c->stage);
	p4d_schedule_order order;
	p4d_pass pass;

	list->at = malloc((size_t)count * sizeof(*list->at));
	if (!list->at)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the schedule of stage %u", c->stage);
	c->at = list->at;
	find_neighbours(c);
	p4d_schedule_order_begin(c->s, c->stage, &order);
	while (p4d_schedule_order_next(&order, &pass))
		emit_pass(c, &pass);
	emit(c, P4D_OP_OPTIMIZER, 0, 0);
	list->count = (size_t)(c->at - list->at);
	return 0;
}

static int compile_all(compiler *c, p4d_instruction_list *lists, p4d_error *err)
{
	const p4d_schedule *s = c->s;

	for (c->stage = 0; c->stage < s->stages; c->stage++) {
		p4d_instruction_list *list = &lists[c->stage];
		list->slots = p4d_schedule_slots(s, c->stage);
		if (p4d_slot_pool__reset(&c->activation, list->slots.activation, s->chunks) < 0 ||
		    p4d_slot_pool__reset(&c->vocabulary, list->slots.vocabulary, 1) < 0)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to compile a schedule");
		if (compile_stage(c, list, err) < 0)
			return -1;
	}
	return 0;
}

int p4d_schedule_compile(const p4d_schedule *s, p4d_instruction_list *lists, p4d_error *err)
{
	compiler c = {.s = s};
	int status;

	for (uint32_t stage = 0; stage < s->stages; stage++)
		if (count_instructions(s, stage) > MOST_INSTRUCTIONS)
			return p4d_fail(err, P4D_E_OVERFLOW,
					"%u micro-batches of %u chunks are too many instructions for a list",
					s->micro_batches, s->chunks);
	c.of = malloc(s->chunks * sizeof(*c.of));
	status = c.of ? compile_all(&c, lists, err)
		      : p4d_fail(err, P4D_E_NO_MEMORY, "no memory to compile a schedule");
	if (status < 0)
		p4d_schedule_lists_free(lists, s->stages);
	free(c.of);
	p4d_slot_pool__free(&c.activation);
	p4d_slot_pool__free(&c.vocabulary);
	return status;
}

void p4d_schedule_lists_free(p4d_instruction_list *lists, uint32_t stages)
{
	for (uint32_t stage = 0; stage < stages; stage++) {
		free(lists[stage].at);
		lists[stage] = (p4d_instruction_list){0};
	}
}
