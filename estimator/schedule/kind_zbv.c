/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wide.h"
#include "schedule/schedule_order.h"

/* Keys that are later than those of all passes with a fixed time. The second is later than the first. */
static const int64_t AT_THE_END = (int64_t)1 << 48, AFTER_THAT = (int64_t)1 << 49;

/*
 * ZB-V (arXiv 2401.10241, 2405.15362). A pass of one chunk takes one unit. Steady state F0 B0 W0 F1 B1 W1 on
 * every stage, six units of work in six, no gaps. Before it stage r runs, each without a gap: 2(p-r)-1
 * forwards of chunk 0; F1 and F0 in turn r times; F1, B1 and W1 in turn p-r times. At the end, weight
 * gradients wait: those of the last p micro-batches of chunk 0, and of the last r of chunk 1, run only after
 * the input gradients that other stages need. A step with fewer than 2p-1 micro-batches is the beginning of
 * one with 2p-1.
 */
static void order_zbv(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
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

static p4d_slots slots_of_zbv(const p4d_schedule *s, uint32_t stage)
{
	const uint32_t p = s->stages, r = stage, m = s->micro_batches;
	/* Forward passes before the first W1: 2p-r-1 of chunk 0 and r+1 of chunk 1. From there on, at most
	 * one forward pass follows every W. */
	return (p4d_slots){.activation = P4D_LEAST(m, 2 * p - r - 1) + P4D_LEAST(m, r + 1)};
}

static p4d_v_ends ends_of_zbv(uint32_t left)
{
	return (p4d_v_ends){.ahead = 2 * left - 1, .behind = left};
}

const p4d_schedule_kind p4d_schedule__zbv = {.chunks = 2,
					     .split = true,
					     .v_shaped = true,
					     .turn = 5,
					     .rank = 4,
					     .steady = {9, 14},
					     .order = order_zbv,
					     .slots = slots_of_zbv,
					     .ends = ends_of_zbv};
