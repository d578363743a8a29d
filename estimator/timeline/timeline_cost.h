/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "timeline/timeline.h"

/* Index of a pass in the arrays of p4d_durations. */
static inline size_t p4d_pass_index(const p4d_schedule *s, uint32_t stage, const p4d_instruction *in)
{
	return ((size_t)stage * s->chunks + in->chunk) * p4d_schedule_slices(s) +
	       p4d_schedule_slice_of(s, in->micro_batch);
}

static inline double p4d_buffers_at(const double *seconds, size_t i)
{
	return seconds ? seconds[i] : 0;
}

static inline bool p4d_is_backward(unsigned op)
{
	return op == P4D_OP_BACKWARD || op == P4D_OP_BACKWARD_INPUT;
}

/*
 * Whether a pass hides its exchange of tokens next to another one: a forward pass next to the backward pass
 * that follows it. Passes of weight gradients and of tables in between do not matter.
 */
static inline bool p4d_runs_beside(const p4d_schedule *s, unsigned op, unsigned chunk, unsigned other_op,
				   unsigned other_chunk)
{
	const bool opposite = op == P4D_OP_FORWARD ? p4d_is_backward(other_op) : other_op == P4D_OP_FORWARD;

	return opposite && (!p4d_schedule_kinds[s->kind]->crosswise || chunk != other_chunk);
}

/* Seconds that an instruction occupies its stage. */
static inline double p4d_cost(const p4d_schedule *s, const p4d_durations *d, uint32_t stage,
			      const p4d_instruction *in)
{
	const size_t pass = p4d_pass_index(s, stage, in);
	const unsigned shares = s->chunks + (s->vocabulary != P4D_VOCAB_OFF ? 1 : 0);

	switch ((p4d_op)in->op) {
	case P4D_OP_FORWARD:
		return p4d_buffers_at(d->forward, pass);
	case P4D_OP_BACKWARD:
		return p4d_buffers_at(d->backward_input, pass) + p4d_buffers_at(d->backward_weight, pass);
	case P4D_OP_BACKWARD_INPUT:
		return p4d_buffers_at(d->backward_input, pass);
	case P4D_OP_BACKWARD_WEIGHT:
		return p4d_buffers_at(d->backward_weight, pass);
	case P4D_OP_RECV_FORWARD:
	case P4D_OP_RECV_BACKWARD:
		return in->peer == stage ? 0 : d->recv;
	case P4D_OP_EMBED_FORWARD:
		return d->embed_forward;
	case P4D_OP_EMBED_BACKWARD:
		return d->embed_backward;
	case P4D_OP_VOCAB_FORWARD:
		return d->vocabulary_forward;
	case P4D_OP_VOCAB_BACKWARD:
		return d->vocabulary_backward;
	case P4D_OP_GATHER_PARAMS:
		return p4d_buffers_at(d->gather, stage) / shares;
	case P4D_OP_REDUCE_GRADS:
		return p4d_buffers_at(d->reduce, stage) / shares;
	case P4D_OP_OPTIMIZER:
		return p4d_buffers_at(d->optimizer, stage);
	default:
		return 0;
	}
}
