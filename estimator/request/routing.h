/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/model_size.h"

/* Token counts above this bound become this bound, which exceeds the memory of every GPU. */
#define P4D_MOST_ROUTED ((p4d_wide)1 << 62)

/*
 * Tokens on the busiest rank of a layer with experts, at each step of routing; the numbers depend on the
 * dispatcher (--dispatcher). A token counts once for each of its experts, except that `received` counts each
 * token once with all-gather and DeepEP. The counts are below 2^72 for all requests, so that products with a
 * layer's columns and the number of layers fit 128 bits.
 */
typedef struct p4d_routed {
	p4d_wide own;      /* tokens of this rank before the exchange */
	p4d_wide permuted; /* their copies, sorted by expert; 0 if tokens are exchanged without copies */
	p4d_wide received; /* tokens that this rank receives over ep; with all-gather and DeepEP over ep
			    * and etp */
	p4d_wide gathered; /* tokens of this rank's experts */
	bool exchanged;    /* there are other ranks to exchange tokens with */
	bool sorted;       /* this rank sorts the received tokens by expert, into one more copy */
} p4d_routed;

/*
 * Computes the counts. own: tokens of this rank before the exchange. The model must have experts. Takes at
 * most a few microseconds.
 */
p4d_routed p4d_routed_of(const p4d_layout *layout, uint64_t own);
