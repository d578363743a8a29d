/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

/*
 * 1F1B on a clock on which a backward pass takes as long as two forward passes: stage r begins the forward of
 * micro-batch i at r + 3i and its backward at p + 2(p-r-1) + 3(i+d). d delays every backward by d periods,
 * for the barriers between the last forward and the first backward (arXiv 2411.05288): S of micro-batch i
 * runs at p + 2 + 3i, when the last stage has just finished a backward pass after the forward of i; T a
 * period later. Vocab-2 needs all S before the backward (d = 1), vocab-1 all T (d = 2). A period is 24 here,
 * passes are placed by their middles, and simultaneous vocabulary passes run in the order EMBED_FORWARD, T,
 * S, EMBED_BACKWARD: first those that nothing at this time waits for.
 */
static void order_vocabulary(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	enum { UNIT = 8, PERIOD = 3 * UNIT };
	const int64_t p = s->stages, r = stage, delay = s->vocabulary == P4D_VOCAB_1 ? 2 : 1;
	const int64_t moment = (p + 2) * UNIT;
	/*
	 * The embedding of micro-batch i is needed at time 3i. It runs one unit of time earlier, and one more
	 * unit earlier to hide the sum over the stages. Its gradient exists at 3(i + p + d), and on all
	 * stages one unit later.
	 */
	const int64_t ahead = (p + 2 + 1 + 2) / 3;
	const int64_t behind = (3 * (p + delay) + 1 - (p + 2) + 2) / 3;
	const p4d_vocabulary_keys keys = {
	    .period = PERIOD,
	    .embed_forward = moment - ahead * PERIOD - 4,
	    .backward = moment + PERIOD - 3,
	    .forward = moment - 2,
	    .embed_backward = moment + behind * PERIOD - 1,
	};

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, r * UNIT + UNIT / 2, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, (p + 2 * (p - r - 1) + 3 * delay + 1) * UNIT, PERIOD);
	p4d_schedule_order__vocabulary(o, &keys);
}

/*
 * A warm-up of p-r-1 forwards, then forward and backward passes alternate (PipeDream-flush). This takes
 * min(m, p-r) slots; one more with vocab-2, two more with vocab-1. With slices (Seq1F1B) the last stage runs
 * all slices of a micro-batch forward before it can run one backward. So every stage first runs (slices - 1)
 * additional forwards. With local losses no stage waits for another: one slot.
 */
static void order_1f1b(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	const int64_t warm_up = s->local ? 0 : (int64_t)s->stages - stage - 1 + p4d_schedule_slices(s) - 1;

	if (s->vocabulary != P4D_VOCAB_OFF) {
		order_vocabulary(s, stage, o);
		return;
	}
	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 2);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, 2 * warm_up + 1, 2);
}

const p4d_schedule_kind p4d_schedule__1f1b = {
    .chunks = 1, .vocabulary = true, .slices = true, .turn = 1, .rank = 1, .order = order_1f1b};
