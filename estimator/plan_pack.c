/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plan_rows.h"

/*
 * Transient buffers share memory where their moments allow it: each goes on top of all that it shares a
 * moment with, those that live in most moments first, else in the order of the table. The profile's lifetimes
 * are chosen so that this leaves no hole in the fullest moment: what stays longer lies below what comes and
 * goes (test_plan holds it).
 */
void p4d_pack(p4d_plan *plan, p4d_moment *peak)
{
	uint8_t order[P4D_MOMENTS + 1][P4D_TENSORS], count[P4D_MOMENTS + 1] = {0};
	uint64_t top[P4D_MOMENTS] = {0}, alive[P4D_MOMENTS] = {0};

	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].lifetime == P4D_LIVES_AT_MOMENTS) {
			int moments = __builtin_popcount(plan->tensor[i].moments);
			order[moments][count[moments]++] = (uint8_t)i;
		}
	for (int moments = P4D_MOMENTS; moments > 0; moments--)
		for (unsigned i = 0; i < count[moments]; i++) {
			p4d_tensor *row = &plan->tensor[order[moments][i]];
			uint64_t at = 0;
			for (int moment = 0; moment < P4D_MOMENTS; moment++)
				if (row->moments & 1u << moment && top[moment] > at)
					at = top[moment];
			row->offset = at;
			for (int moment = 0; moment < P4D_MOMENTS; moment++)
				if (row->moments & 1u << moment) {
					top[moment] = at + row->bytes;
					alive[moment] += row->bytes;
				}
		}
	*peak = 0;
	plan->transient_bytes = 0;
	for (int moment = 0; moment < P4D_MOMENTS; moment++) {
		if (top[moment] > plan->transient_bytes)
			plan->transient_bytes = top[moment];
		if (alive[moment] > alive[*peak])
			*peak = (p4d_moment)moment;
	}
	plan->live_bytes = alive[*peak];
}
