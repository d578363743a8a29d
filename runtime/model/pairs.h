/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/head.h"

/*
 * Direct preference optimization (DPO, arXiv 2305.18290). A sequence has a pair: document 0 is the chosen
 * answer, document 1 the rejected one, each after the prompt, which has no labels. The loss of a pair is -log
 * sigmoid(beta * (difference of the log-probabilities of both answers - the same difference for the reference
 * model)). The gradient of each token depends on both whole answers. So all chunks are computed once for the
 * statistics and once more for the gradients.
 *
 * p4d_pairs__weigh sums the statistics of `work` over the ranks of cp, asks the source for the reference's
 * log-probabilities, and writes the factors of tokens' gradients to B_PAIR_FACTORS. If work->count is set, it
 * also adds to the scalars. If m->pair_sums is set, the pass measures the reference: the sums of pairs are
 * stored in m->pair_sums instead.
 */
int p4d_pairs__weigh(p4d_net *m, uint32_t micro_batch, const p4d_head_work *work, p4d_error *err);
