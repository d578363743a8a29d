/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weights.h"

p4d_place p4d_place_of(const p4d_layout *l, uint32_t rank)
{
	const uint32_t tp = (uint32_t)p4d_tp_ranks(l), cp = (uint32_t)l->cp, dp = (uint32_t)l->dp;

	return (p4d_place){
	    .tp = rank % tp,
	    .cp = rank / tp % cp,
	    .dp = rank / tp / cp % dp,
	    .pp = rank / tp / cp / dp,
	};
}

uint32_t p4d_place_rank(const p4d_layout *l, p4d_place p)
{
	const uint32_t tp = (uint32_t)p4d_tp_ranks(l), cp = (uint32_t)l->cp, dp = (uint32_t)l->dp;

	return p.tp + tp * (p.cp + cp * (p.dp + dp * p.pp));
}
