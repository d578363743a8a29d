/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/wide.h"
#include "request/layout.h"

/*
 * Parameters of a model and of its parts on one tensor-parallel rank, from the layout's sizes and its
 * architecture. tp divides matrices, and biases of matrices that are split by columns. Norms, and biases that
 * are added after a reduction, are on every rank. Inputs are bounded by options.def (at most 2^27 tokens,
 * 2^24 sequences, 2^23 wide), so products of a few of them fit 128 bits; the caller narrows the result.
 */

/* One layer with attention and without experts (in an encoder-decoder: one layer of each stack). */
p4d_wide p4d_size_of_layer(const p4d_layout *layout);

/* One layer with experts, not counting the experts: attention, norms, router, shared experts. */
p4d_wide p4d_size_of_expert_layer(const p4d_layout *layout);
/* One expert. A rank has 1/etp of it. */
p4d_wide p4d_size_of_expert(const p4d_layout *layout);

/* n layers of the model, starting with layer `from`, of any kinds (layers.h), not counting experts. */
p4d_wide p4d_size_of_layers(const p4d_layout *layout, uint64_t from, uint64_t n);

/*
 * A layer of multi-token prediction, not counting its experts: the norms of the embedding and of the hidden
 * state, the matmul that combines both, a layer like the model's last ones, and a norm (Megatron-LM's
 * multi_token_prediction.py; DeepSeek-V3).
 */
p4d_wide p4d_size_of_further(const p4d_layout *layout);

/* The values that all layers with a memory share; 0 without such layers. */
p4d_wide p4d_size_of_values(const p4d_layout *layout);

/* One table with a row per token of the vocabulary: the embedding, or an untied head. */
p4d_wide p4d_size_of_table(const p4d_layout *layout);

/* Parameters before and after the layers, not counting the tables of the vocabulary. */
p4d_wide p4d_size_of_begin(const p4d_layout *layout);
p4d_wide p4d_size_of_end(const p4d_layout *layout);

/* All parameters, on one rank that has every layer, including tables. */
p4d_wide p4d_size_of_model(const p4d_layout *layout);
