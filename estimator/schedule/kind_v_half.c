/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

/*
 * V-Half (arXiv 2405.15362). A pass of one chunk takes one unit. Every micro-batch takes the same path
 * through the stages, and a new one starts every six units. From stage to stage, each of its four legs takes
 * one and two units in turn. The less chunk 0 of a stage waits for its backward pass, the more chunk 1 waits,
 * so all stages hold the same number of slots: p+1 for odd p and p+2 for even p. The six passes of a stage
 * fall into six different units of the period. For this the turn at stage 0 must end in an odd unit, which
 * needs a gap for even p.
 *
 * With vocabulary parallelism S runs a unit after the last forward and T three units after S; the gap grows
 * by whole periods until there is a unit for the barrier before the first backward, which needs S (vocab-2)
 * or T (vocab-1). A vocabulary pass runs on all stages at the same time, before the pass of the unit it is
 * in. This takes two slots more, but none for even p with vocab-2.
 */
static void order_v_half(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	enum { UNIT = 2, PERIOD = 6 * UNIT };
	const int64_t p = s->stages, k = p - 1 - (int64_t)stage;
	/* time 0 is F1 on the last stage; down and up are the two ways to halve 3k */
	const int64_t down = 3 * k / 2, up = (3 * k + 1) / 2, last_f1 = 3 * (p - 1) / 2;
	const int64_t needed = s->vocabulary == P4D_VOCAB_1 ? 5 : s->vocabulary == P4D_VOCAB_2 ? 2 : 0;
	int64_t gap = p % 2 ? 0 : 3;

	while (gap < needed)
		gap += 6;
	const int64_t turn = 3 * (p - 1) + 1 + gap; /* B1 on the last stage */
	const int64_t b1 = turn - up, b0 = turn + 1 + up;
	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, (-2 - down) * UNIT, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_FORWARD, 1, down * UNIT, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 1, b1 * UNIT, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 0, b0 * UNIT, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 1, (b1 + (k % 2 ? 3 : 2)) * UNIT, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 0, (b0 + (k % 2 ? 2 : 3)) * UNIT, PERIOD);
	if (s->vocabulary == P4D_VOCAB_OFF)
		return;
	const int64_t last_b0 = turn + 1 + (3 * (p - 1) + 1) / 2;
	const p4d_vocabulary_keys keys = {
	    .period = PERIOD,
	    .embed_forward = (-3 - last_f1) * UNIT - 1,
	    .forward = (last_f1 + 2) * UNIT - 1,
	    .backward = (last_f1 + 5) * UNIT - 1,
	    .embed_backward = (last_b0 + 2) * UNIT - 1,
	};
	p4d_schedule_order__vocabulary(o, &keys);
}

/* Computes v_ends from the keys above. */
static p4d_v_ends ends_of_v_half(uint32_t left)
{
	return (p4d_v_ends){.ahead = (left + 1) / 2, .behind = (left + 1) / 2};
}

const p4d_schedule_kind p4d_schedule__v_half = {.chunks = 2,
						.split = true,
						.v_shaped = true,
						.vocabulary = true,
						.turn = 3,
						.rank = 5,
						.order = order_v_half,
						.ends = ends_of_v_half};
