/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

/*
 * The schedules with two chunks in the shape of a V: chunk 0 runs down from stage 0 to the last, chunk 1 back
 * up. Clocks: a forward, input-gradient or weight-gradient pass of one chunk takes one unit, so a stage has
 * six units of work for each micro-batch.
 */

/* Later than every pass that has a moment of its own; two of them, one after the other. */
static const int64_t AT_THE_END = (int64_t)1 << 48, AFTER_THAT = (int64_t)1 << 49;

/*
 * ZB-V (arXiv 2401.10241, 2405.15362): steady state F0 B0 W0 F1 B1 W1 on every stage, six units
 * of work in six, no gaps. Before it stage r runs, each without a gap: 2(p-r)-1 forwards of chunk 0; F1 and
 * F0 in turn r times; F1, B1 and W1 in turn p-r times. At the end the weight gradients make way: for the last
 * p micro-batches of chunk 0 and the last r of chunk 1 they wait until the input gradients that other stages
 * need are done. A step with fewer than 2p-1 micro-batches is the beginning of one with 2p-1.
 */
void p4d_schedule_order__zbv(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	const int64_t p = s->stages, r = stage;
	const int64_t n = s->micro_batches > 2 * p - 1 ? s->micro_batches : 2 * p - 1;
	const int64_t warm = 2 * (p - r) - 1;
	const int64_t turn = warm + 2 * r; /* the last F1 before the first B1 */
	const int64_t steady = turn + 3 * (p - r);
	enum { HALF = 1, UNIT = 2 };

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, UNIT);
	p4d_schedule_order__pace(o, (uint32_t)warm, (warm + 1) * UNIT, 2 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)(warm + r), steady * UNIT, 6 * UNIT);

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 1, warm * UNIT, 2 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)r, turn * UNIT, 3 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)p, (steady + 3) * UNIT, 6 * UNIT);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 1, (turn + 1) * UNIT, 3 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)(p - r), (steady + 4) * UNIT, 6 * UNIT);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 1, (turn + 2) * UNIT, 3 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)(p - r), (steady + 5) * UNIT, 6 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)(n - r), AT_THE_END, 1);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 0, (steady + 1) * UNIT, 6 * UNIT);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 0, (steady + 2) * UNIT, 6 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)(n - p), (steady + 1 + 6 * (n - p + r)) * UNIT + HALF,
				 6 * UNIT);
	p4d_schedule_order__pace(o, (uint32_t)(n - r), AFTER_THAT, 1);
}

/*
 * V-Half (arXiv 2405.15362): every micro-batch takes the same way through the stages, and a new one starts
 * every six units. From stage to stage each of its four legs takes one and two units in turn, so what chunk 0
 * of a stage waits less for its backward, chunk 1 waits more, and all stages hold the same. The six passes of
 * a stage fall into six different units of the period; this needs a turn at stage 0 that ends in an odd unit,
 * whence a gap for even p.
 *
 * With vocabulary parallelism S runs a unit after the last forward and T three units after S; the gap grows
 * by whole periods until there is a unit for the barrier before the first backward, which needs S (vocab-2)
 * or T (vocab-1). A vocabulary pass runs on all stages at the same time, before the pass of the unit it is
 * in.
 */
void p4d_schedule_order__v_half(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	enum { UNIT = 2, PERIOD = 6 * UNIT };
	const int64_t p = s->stages, k = p - 1 - (int64_t)stage;
	/* the clock begins when F1 does on the last stage; down and up are the two ways to halve 3k */
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

static uint32_t least(int64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* The differences of the keys above. */
p4d_v_ends p4d_schedule_v_ends(const p4d_schedule *s, uint32_t stage)
{
	const uint32_t m = s->micro_batches;
	const int64_t left = (int64_t)s->stages - stage, k = left - 1;

	if (s->kind == P4D_ZBV)
		return (p4d_v_ends){.ahead = least(2 * left - 1, m), .behind = least(left, m)};
	const int64_t down = 3 * k / 2, up = (3 * k + 1) / 2;
	return (p4d_v_ends){.ahead = least((2 * down + 2 + 5) / 6, m),
			    .behind = least((2 * up + 1) / 6 + 1, m)};
}
