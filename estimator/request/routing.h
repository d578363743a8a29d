/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/model_size.h"

/* Tokens: what would be more is this, and has no room on any rank. */
#define P4D_MOST_ROUTED ((p4d_wide)1 << 62)

/*
 * The number of tokens of a layer with experts at each step on the fullest rank, by dispatcher. A token
 * counts once for each of its experts, except received tokens with all-gather and DeepEP, where each counts
 * once. Below 2^72 for all requests, so that products with a layer's columns and all layers are within 128
 * bits.
 */
typedef struct p4d_routed {
	p4d_wide own;      /* tokens of this rank before */
	p4d_wide permuted; /* copies of them, by expert; 0 where tokens are exchanged as they are */
	p4d_wide received; /* tokens that the exchange gives this rank, over ep; with all-gather and DeepEP
			      also over etp */
	p4d_wide gathered; /* tokens of its experts */
	bool exchanged;    /* whether there is another rank to exchange with */
	bool sorted;       /* received tokens are not by expert, and are copied once more */
} p4d_routed;

/* own: tokens of this rank, of a model with experts. Time: some microseconds at most. */
p4d_routed p4d_routed_of(const p4d_layout *layout, uint64_t own);
