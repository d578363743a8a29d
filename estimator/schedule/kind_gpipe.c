/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

static void order_gpipe(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	(void)stage;
	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 1);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, s->micro_batches, 1);
}

/*
 * With slices: TeraPipe. It needs more slots (m) than 1F1B, and is not faster. The search tries it first and
 * ranks it first.
 */
const p4d_schedule_kind p4d_schedule__gpipe = {
    .chunks = 1, .in_phases = true, .slices = true, .only_asked = true, .order = order_gpipe};
