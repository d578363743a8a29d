/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"

/*
 * Where the tokens of a layer with experts are on the fullest rank, by dispatcher. A token is there once for
 * each of its experts, but for what all-gather and DeepEP receive: each token once.
 */
typedef struct p4d_routed {
	uint64_t own;      /* tokens of this rank before */
	uint64_t permuted; /* copies of them, by expert; 0 where tokens are exchanged as they are */
	uint64_t received; /* what the exchange gives this rank, over ep; with all-gather and DeepEP over etp,
			      too */
	uint64_t gathered; /* what its experts are given */
	bool exchanged;    /* whether there is another rank to exchange with */
	bool sorted;       /* what is received is not by expert, and is copied once more */
} p4d_routed;

/* own: tokens of this rank, of a model with experts. Time: linear in experts-per-token, at most the experts.
 */
p4d_routed p4d_routed_of(const p4d_layout *layout, uint64_t own);
