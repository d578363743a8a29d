/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wide.h"
#include "schedule/schedule_order.h"

/* Weight gradients of one chunk that wait. */
typedef struct waiting {
	uint32_t chunk;
	int64_t from; /* the first micro-batch whose weight gradient waits */
	int64_t end;  /* time at which the last input gradient of chunk 1 is done */
} waiting;

/*
 * The input gradients of both chunks run in turn, r+1 times. The weight gradients of the last r+1 of these
 * passes wait. They run in the order of their input gradients, one before each later input gradient, so the
 * chunks alternate.
 */
static void add_waiting(p4d_schedule_order *o, int64_t r, const waiting *w)
{
	p4d_schedule_order__pace(o, (uint32_t)w->from, w->end + 3 + 6 * ((r + w->chunk) % 2), 12);
}

/*
 * DualPipeV: the half of DualPipe (DeepSeek-V3, arXiv 2412.19437) that one direction of its micro-batches
 * sees, on half as many ranks (github.com/deepseek-ai/DualPipe). A rank of DualPipe has both ends of the
 * model, as here. It runs a forward pass of one chunk next to a backward pass of the other, so that one
 * exchanges tokens while the other computes. A pass of one chunk takes one unit. Stage r runs, each without
 * a gap: 2(p-r-1) forwards of chunk 0; F0 and F1 in turn r+1 times; B1, W1 and F1 p-r-1 times. Steady state
 * F0 B1 W1 F1 B0 W0. At the end, chunk 1 runs out of forwards after chunk 0, and the last p-r-1 passes are
 * B0. A step with fewer than 2p micro-batches is the beginning of one with 2p.
 */
static void order_dualpipe_v(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	const int64_t p = s->stages, r = stage, after = p - r - 1;
	const int64_t n = s->micro_batches > 2 * p ? s->micro_batches : 2 * p;
	const int64_t turn = 2 * after + 2 * r + 1; /* the last F1 before the first B1 */
	const int64_t steady = turn + 3 * after + 1, end = steady + 6 * (n - after);
	const waiting one = {1, n - (r + 1) / 2, end}, zero = {0, n - after - (r + 2) / 2, end};

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 1);
	p4d_schedule_order__pace(o, (uint32_t)(2 * after), 2 * after, 2);
	p4d_schedule_order__pace(o, (uint32_t)(2 * after + r + 1), steady, 6);

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 1, 2 * after + 1, 2);
	p4d_schedule_order__pace(o, (uint32_t)(r + 1), turn + 3, 3);
	p4d_schedule_order__pace(o, (uint32_t)p, steady + 3, 6);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 1, turn + 1, 3);
	p4d_schedule_order__pace(o, (uint32_t)after, steady + 1, 6);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 1, turn + 2, 3);
	p4d_schedule_order__pace(o, (uint32_t)after, steady + 2, 6);
	add_waiting(o, r, &one);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 0, steady + 4, 6);

	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 0, steady + 5, 6);
	add_waiting(o, r, &zero);
	p4d_schedule_order__pace(o, (uint32_t)(n - after), end + 3 + 6 * (r + 1), 6);
}

/*
 * Most slots are in use before the first W1, after the first F0 of the steady state, or after the F1 that
 * follows it. With enough micro-batches this is 2p+1, as the authors say.
 */
static p4d_slots slots_of_dualpipe_v(const p4d_schedule *s, uint32_t stage)
{
	const uint32_t p = s->stages, r = stage, m = s->micro_batches, after = p - r - 1;
	const uint32_t first = P4D_LEAST(m, 2 * p - r), done = P4D_LEAST(m, after);
	const uint32_t before = P4D_LEAST(m, 2 * p - r - 1) + P4D_LEAST(m, r + 1),
		       then = first + P4D_LEAST(m, p) - done,
		       later = first + P4D_LEAST(m, p + 1) - P4D_LEAST(m, after + 1);

	return (p4d_slots){.activation = P4D_MOST(before, P4D_MOST(then, later))};
}

static p4d_v_ends ends_of_dualpipe_v(uint32_t left)
{
	return (p4d_v_ends){.ahead = 2 * left - 1, .behind = left};
}

/* Unless passes exchange tokens, ZB-V is faster and holds one slot less. */
const p4d_schedule_kind p4d_schedule__dualpipe_v = {.chunks = 2,
						    .split = true,
						    .v_shaped = true,
						    .crosswise = true,
						    .only_asked = true,
						    .turn = 6,
						    .rank = 6,
						    .steady = {10, 16},
						    .order = order_dualpipe_v,
						    .slots = slots_of_dualpipe_v,
						    .ends = ends_of_dualpipe_v};
