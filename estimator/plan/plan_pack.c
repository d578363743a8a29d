/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plan/plan_rows.h"

_Static_assert(P4D_LIVE_POINTS <= 16, "four nibbles of live points");

/*
 * Transient buffers with disjoint live ranges share memory. Buffers are placed by the length of their live
 * ranges, longest first, then in the order of the table. Each one lies above all placed buffers whose live
 * ranges overlap with its own. Live ranges are chosen so that there is no hole at the peak: long-lived
 * buffers are below short-lived ones (test_plan_packing checks it).
 */
void p4d_plan__pack(p4d_plan *plan, p4d_packing *packing)
{
	static const uint8_t of_nibble[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
	uint8_t order[P4D_LIVE_POINTS + 1][P4D_TENSORS], count[P4D_LIVE_POINTS + 1] = {0};
	uint64_t *top = packing->top, *alive = packing->alive;

	memset(packing, 0, sizeof(*packing));
	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].lifetime == P4D_LIVES_IN_RANGE) {
			unsigned mask = plan->tensor[i].live_range;
			unsigned points = of_nibble[mask & 15] + of_nibble[mask >> 4 & 15] +
					  of_nibble[mask >> 8 & 15] + of_nibble[mask >> 12];
			order[points][count[points]++] = (uint8_t)i;
		}
	for (int points = P4D_LIVE_POINTS; points > 0; points--)
		for (unsigned i = 0; i < count[points];) {
			/* consecutive rows with the same live range are stacked */
			const unsigned all = plan->tensor[order[points][i]].live_range;
			uint64_t bottom = 0;
			for (unsigned mask = all; mask; mask &= mask - 1)
				if (top[__builtin_ctz(mask)] > bottom)
					bottom = top[__builtin_ctz(mask)];
			uint64_t at = bottom;
			for (; i < count[points] && plan->tensor[order[points][i]].live_range == all; i++) {
				plan->tensor[order[points][i]].offset = at;
				at += plan->tensor[order[points][i]].bytes;
			}
			for (unsigned mask = all; mask; mask &= mask - 1) {
				top[__builtin_ctz(mask)] = at;
				alive[__builtin_ctz(mask)] += at - bottom;
			}
		}
}
