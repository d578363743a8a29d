/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_fields.h"

#include <stdarg.h>
#include <stdio.h>

/* The fields that an instruction uses; all others must be set to "none". */
enum {
	PASS = 1,    /* a chunk and a micro-batch */
	SLOT = 2,    /* slot of activations or of the vocabulary */
	ABOVE = 4,   /* a peer at the next position */
	BELOW = 8,   /* a peer at the position before */
	TABLES = 16, /* the vocabulary tables and a micro-batch */
	WHOLE = 32,  /* a chunk or the tables */
};

static const uint8_t has[P4D_OPS] = {
    [P4D_OP_GATHER_PARAMS] = WHOLE,
    [P4D_OP_RECV_FORWARD] = PASS | SLOT | BELOW,
    [P4D_OP_FORWARD] = PASS | SLOT,
    [P4D_OP_SEND_FORWARD] = PASS | ABOVE,
    [P4D_OP_RECV_BACKWARD] = PASS | ABOVE,
    [P4D_OP_BACKWARD] = PASS | SLOT,
    [P4D_OP_BACKWARD_INPUT] = PASS | SLOT,
    [P4D_OP_BACKWARD_WEIGHT] = PASS | SLOT,
    [P4D_OP_SEND_BACKWARD] = PASS | BELOW,
    [P4D_OP_EMBED_FORWARD] = TABLES,
    [P4D_OP_EMBED_BACKWARD] = TABLES,
    [P4D_OP_VOCAB_FORWARD] = TABLES | SLOT,
    [P4D_OP_VOCAB_BACKWARD] = TABLES | SLOT,
    [P4D_OP_REDUCE_GRADS] = WHOLE,
    [P4D_OP_OPTIMIZER] = 0,
};

static const char *fault_of_chunk(const p4d_schedule *s, const p4d_instruction *in)
{
	const bool tables = s->vocabulary != P4D_VOCAB_OFF;

	if (has[in->op] & PASS)
		return in->chunk < s->chunks ? NULL : "no such chunk";
	if (has[in->op] & TABLES) {
		if (!tables)
			return "without vocabulary parallelism";
		return in->chunk == s->chunks ? NULL : "the vocabulary tables are the chunk after the last";
	}
	if (has[in->op] & WHOLE)
		return in->chunk < s->chunks + (tables ? 1 : 0) ? NULL : "no such chunk";
	return in->chunk ? "it is for all chunks" : NULL;
}

static const char *fault_of_peer(const p4d_schedule *s, uint32_t stage, const p4d_instruction *in)
{
	if (!(has[in->op] & (ABOVE | BELOW)))
		return in->peer ? "it has no peer" : NULL;
	const uint32_t position = p4d_schedule_position_of(s, stage, in->chunk);
	const bool above = has[in->op] & ABOVE;

	if (s->local && (in->op == P4D_OP_RECV_BACKWARD || in->op == P4D_OP_SEND_BACKWARD))
		return "no gradient crosses stages that have their own losses";
	if (position == (above ? p4d_schedule_positions(s) - 1 : 0))
		return "there is no position beyond this end of the model";
	if (in->peer != p4d_schedule_stage_at(s, above ? position + 1 : position - 1, NULL))
		return "with the wrong stage";
	return NULL;
}

const char *p4d_schedule_instruction_fault(const p4d_schedule *s, uint32_t stage, const p4d_instruction *in)
{
	if (in->op >= P4D_OPS || in->reserved[0] || in->reserved[1] || in->reserved[2])
		return "no such instruction";
	const unsigned fields = has[in->op];
	const char *fault = fault_of_chunk(s, in);

	if (fault)
		return fault;
	if (in->micro_batch >= (fields & (PASS | TABLES) ? s->micro_batches : 1))
		return "no such micro-batch";
	if (!(fields & SLOT) && in->slot)
		return "it has no slot";
	return fault_of_peer(s, stage, in);
}

int p4d_schedule_instruction_fail(p4d_error *err, const p4d_instruction_list *list, uint32_t stage, size_t at,
				  const char *format, ...)
{
	const p4d_instruction *in = &list->at[at];
	char why[240];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, sizeof(why), format, arguments);
	va_end(arguments);
	return p4d_fail(err, P4D_E_INSTRUCTIONS,
			"stage %u, instruction %zu (%s of micro-batch %u, chunk %u): %s", stage, at,
			p4d_schedule_op_name((p4d_op)in->op), in->micro_batch, in->chunk, why);
}
