/* SPDX-License-Identifier: Apache-2.0 */
#include "request/routing.h"

#include <math.h>

/*
 * Converts to an integer and bounds it. Larger numbers fit on no GPU, and callers' products with the bound
 * fit 128 bits.
 */
static p4d_wide bounded(double tokens)
{
	return tokens < (double)P4D_MOST_ROUTED ? (p4d_wide)tokens : P4D_MOST_ROUTED;
}

/*
 * Tokens of the busiest rank, divided by an expert's mean number of tokens. Tokens beyond the capacity are
 * dropped.
 */
static double share_of(const p4d_layout *l)
{
	return l->megatron.expert_capacity > 0 && l->megatron.expert_capacity < l->imbalance
		   ? l->megatron.expert_capacity
		   : l->imbalance;
}

/*
 * Copies of one rank's tokens at all experts, if the tokens of each expert are padded to its capacity
 * (moe_utils.py).
 */
static p4d_wide padded_copies(const p4d_layout *l, uint64_t own)
{
	const double mean = (double)own * (double)l->experts_per_token / (double)l->experts;

	return bounded(ceil(mean * l->megatron.expert_capacity) * (double)l->experts);
}

/* log(n!) */
static double log_factorial(uint64_t n)
{
	int sign;

	return lgamma_r((double)n + 1, &sign);
}

/*
 * The probability that at least one of a token's experts (chosen without replacement) is among `mine` of all
 * experts. The result is the same if the chosen experts and `mine` exchange their roles, so the loop runs
 * over the smaller number. Numbers beyond those of any real model are treated in one step.
 */
static double has_one_of(const p4d_layout *l, uint64_t mine)
{
	enum { MANY = 64 };
	const uint64_t chosen = l->experts_per_token, all = l->experts;
	const uint64_t fewer = chosen < mine ? chosen : mine, others = all - (chosen < mine ? mine : chosen);
	double none = 1;

	if (fewer > others)
		return 1;
	if (fewer > MANY)
		return 1 - exp(log_factorial(others) - log_factorial(others - fewer) +
			       log_factorial(all - fewer) - log_factorial(all));
	for (uint64_t i = 0; i < fewer; i++)
		none *= (double)(others - i) / (double)(all - i);
	return 1 - none;
}

p4d_routed p4d_routed_of(const p4d_layout *l, uint64_t own)
{
	const uint64_t ranks = l->ep * l->etp, mine = l->experts / l->ep;
	const p4d_wide copies =
	    l->megatron.pads_experts ? padded_copies(l, own) : (p4d_wide)own * l->experts_per_token;
	const p4d_wide given = l->megatron.pads_experts ? copies : bounded((double)copies * share_of(l));
	const p4d_wide all = (p4d_wide)own * ranks;
	p4d_routed t = {.own = own, .gathered = given * l->etp, .exchanged = ranks > 1};

	switch (l->megatron.dispatcher) {
	case P4D_ALL_GATHER:
		t.received = all;
		break;
	case P4D_DEEPEP: /* a rank gets each token at most once */
		t.received = bounded((double)all * fmin(has_one_of(l, mine) * share_of(l), 1));
		break;
	default:
		t.permuted = copies;
		t.received = given;
		t.exchanged = l->ep > 1;
		t.sorted = mine > 1;
	}
	return t;
}
