/* SPDX-License-Identifier: Apache-2.0 */
#include "request/routing.h"

#include <math.h>

/* Of an expert's mean share, what the fullest rank's are given: dropped is what is beyond the capacity. */
static double share_of(const p4d_layout *l)
{
	return l->capacity > 0 && l->capacity < l->imbalance ? l->capacity : l->imbalance;
}

/* What all experts are given of one rank's tokens, where each is padded to its capacity (moe_utils.py). */
static uint64_t padded_copies(const p4d_layout *l, uint64_t own)
{
	const double mean = (double)own * (double)l->experts_per_token / (double)l->experts;

	return (uint64_t)ceil(mean * l->capacity) * l->experts;
}

/* How likely a token has an expert among `mine` of all, chosen without replacement. */
static double has_one_of(const p4d_layout *l, uint64_t mine)
{
	const double others = (double)(l->experts - mine);
	double none = 1;

	for (uint64_t i = 0; i < l->experts_per_token && none > 0; i++)
		none *= fmax(others - (double)i, 0) / (double)(l->experts - i);
	return 1 - none;
}

p4d_routed p4d_routed_of(const p4d_layout *l, uint64_t own)
{
	const uint64_t ranks = l->ep * l->etp, mine = l->experts / l->ep;
	const uint64_t copies = l->padded ? padded_copies(l, own) : own * l->experts_per_token;
	const uint64_t given = l->padded ? copies : (uint64_t)((double)copies * share_of(l));
	p4d_routed t = {.own = own, .gathered = given * l->etp, .exchanged = ranks > 1};

	switch (l->dispatcher) {
	case P4D_ALL_GATHER:
		t.received = own * ranks;
		break;
	case P4D_DEEPEP: /* no rank gets more than all tokens, each once */
		t.received = (uint64_t)((double)(own * ranks) * fmin(has_one_of(l, mine) * share_of(l), 1));
		break;
	default:
		t.permuted = copies;
		t.received = given;
		t.exchanged = l->ep > 1;
		t.sorted = mine > 1;
	}
	return t;
}
