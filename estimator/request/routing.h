/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/model_size.h"

/* Tokens: what would be more is this, and has no room on any rank. */
#define P4D_MOST_ROUTED ((p4d_wide)1 << 62)

/*
 * Where the tokens of a layer with experts are on the fullest rank, by dispatcher. A token is there once for
 * each of its experts, but for what all-gather and DeepEP receive: each token once. Below 2^72, whatever is
 * asked for, so that products with a layer's columns and all layers are within 128 bits.
 */
typedef struct p4d_routed {
	p4d_wide own;      /* tokens of this rank before */
	p4d_wide permuted; /* copies of them, by expert; 0 where tokens are exchanged as they are */
	p4d_wide received; /* what the exchange gives this rank, over ep; with all-gather and DeepEP over etp,
			      too */
	p4d_wide gathered; /* what its experts are given */
	bool exchanged;    /* whether there is another rank to exchange with */
	bool sorted;       /* what is received is not by expert, and is copied once more */
} p4d_routed;

/* own: tokens of this rank, of a model with experts. Time: some microseconds at most. */
p4d_routed p4d_routed_of(const p4d_layout *layout, uint64_t own);
