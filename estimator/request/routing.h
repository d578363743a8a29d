/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/model_size.h"

/* Upper bound of token counts: larger numbers become this one, which fits no rank's memory. */
#define P4D_MOST_ROUTED ((p4d_wide)1 << 62)

/*
 * Number of tokens of a layer with experts on the fullest rank, at each step, by dispatcher. A token counts
 * once for each of its experts; received tokens with all-gather and DeepEP count once. Below 2^72 for all
 * requests, so that products with a layer's columns and all layers fit 128 bits.
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

/* own: tokens of this rank, in a model with experts. Takes some microseconds at most. */
p4d_routed p4d_routed_of(const p4d_layout *layout, uint64_t own);
