/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

/*
 * Interleaved 1F1B (arXiv 2104.04473): min(m*v, 2(p-r-1) + (v-1)g + 1) slots. g is the number of
 * micro-batches in a group, normally p.
 */
static void order_groups(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	int64_t warm_up =
	    2 * (int64_t)(s->stages - stage - 1) + (int64_t)(s->chunks - 1) * p4d_schedule_group(s);

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 2);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, 2 * warm_up + 1, 2);
}

const p4d_schedule_kind p4d_schedule__interleaved = {
    .in_groups = true, .fuller = true, .turn = 2, .rank = 2, .steady = {24, 0}, .order = order_groups};
