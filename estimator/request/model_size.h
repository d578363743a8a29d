/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/wide.h"
#include "request/layout.h"

/*
 * Parameters of a model and of its parts on one rank of tensor parallelism, from the layout's sizes and its
 * architecture. Matrices, and biases of matrices that are split by columns, are divided by tp; norms and
 * biases of sums are on every rank. Inputs are bounded by options.def (at most 2^27 tokens, 2^24 sequences,
 * 2^23 wide), so products of a few of them fit 128 bits; the caller narrows.
 */

/* One layer that attends, without experts (of an encoder-decoder: one of each stack). */
p4d_wide p4d_size_of_layer(const p4d_layout *layout);

/* One layer with experts, without these: attention, norms, router, shared experts. And one expert, of which a
 * rank has 1/etp. */
p4d_wide p4d_size_of_expert_layer(const p4d_layout *layout);
p4d_wide p4d_size_of_expert(const p4d_layout *layout);

/* n layers of the model from `from` on, without their experts; of any kinds (layers.h). */
p4d_wide p4d_size_of_layers(const p4d_layout *layout, uint64_t from, uint64_t n);

/*
 * A layer that predicts one further token, without its experts: the norms of the embedding and of the hidden
 * state, the product of both, a layer as the last ones, a norm (Megatron-LM's multi_token_prediction.py;
 * DeepSeek-V3).
 */
p4d_wide p4d_size_of_further(const p4d_layout *layout);

/* The table of the vocabulary. */
p4d_wide p4d_size_of_table(const p4d_layout *layout);

/* Parameters before and after the layers, without the tables of the vocabulary. */
p4d_wide p4d_size_of_begin(const p4d_layout *layout);
p4d_wide p4d_size_of_end(const p4d_layout *layout);

/* All of it, on one rank that has every layer, tables included. */
p4d_wide p4d_size_of_model(const p4d_layout *layout);
