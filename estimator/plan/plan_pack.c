/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plan/plan_rows.h"

_Static_assert(P4D_MOMENTS == 8, "two nibbles of moments");

/*
 * Transient buffers share memory where their moments allow it: each goes on top of all that it shares a
 * moment with, those that live in most moments first, else in the order of the table. The profile's lifetimes
 * are chosen so that this leaves no hole in the fullest moment: what stays longer lies below what comes and
 * goes (test_plan_packing holds it).
 */
void p4d_plan__pack(p4d_plan *plan, p4d_live_point *peak)
{
	static const uint8_t of_nibble[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
	uint8_t order[P4D_MOMENTS + 1][P4D_TENSORS], count[P4D_MOMENTS + 1] = {0};
	uint64_t top[P4D_MOMENTS] = {0}, alive[P4D_MOMENTS] = {0};

	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].lifetime == P4D_LIVES_IN_RANGE) {
			unsigned mask = plan->tensor[i].moments;
			unsigned moments = of_nibble[mask & 15] + of_nibble[mask >> 4];
			order[moments][count[moments]++] = (uint8_t)i;
		}
	for (int moments = P4D_MOMENTS; moments > 0; moments--)
		for (unsigned i = 0; i < count[moments];) {
			/* rows in a row with the same moments lie on each other */
			const unsigned all = plan->tensor[order[moments][i]].moments;
			uint64_t bottom = 0;
			for (unsigned mask = all; mask; mask &= mask - 1)
				if (top[__builtin_ctz(mask)] > bottom)
					bottom = top[__builtin_ctz(mask)];
			uint64_t at = bottom;
			for (; i < count[moments] && plan->tensor[order[moments][i]].moments == all; i++) {
				plan->tensor[order[moments][i]].offset = at;
				at += plan->tensor[order[moments][i]].bytes;
			}
			for (unsigned mask = all; mask; mask &= mask - 1) {
				top[__builtin_ctz(mask)] = at;
				alive[__builtin_ctz(mask)] += at - bottom;
			}
		}
	*peak = 0;
	plan->transient_bytes = 0;
	for (int moment = 0; moment < P4D_MOMENTS; moment++) {
		if (top[moment] > plan->transient_bytes)
			plan->transient_bytes = top[moment];
		if (alive[moment] > alive[*peak])
			*peak = (p4d_live_point)moment;
	}
	plan->live_bytes = alive[*peak];
}
