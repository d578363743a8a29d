/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

/*
 * ZB-H1 (arXiv 2401.10241): 1F1B with the weight gradients of stage r delayed by r micro-batches. So every
 * stage holds p micro-batches: early stages because their backward pass comes late, and late stages because
 * of the delay. The delay lets backward passes follow each other without waiting.
 */
static void order_zb1p(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	int64_t warm_up = s->stages - stage - 1;

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 3);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 0, 3 * warm_up + 1, 3);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 0, 3 * (warm_up + stage) + 2, 3);
}

/* With full recompute no weight gradients are deferred. The order is then that of 1F1B, but with more
 * memory. */
const p4d_schedule_kind p4d_schedule__zb1p = {.chunks = 1,
					      .split = true,
					      .turn = 4,
					      .rank = 3,
					      .idle_if_recomputed = true,
					      .fuller = true,
					      .order = order_zb1p};
