/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Attention of a layer: this rank's queries over all visible keys of the sequence. */

int p4d_attention__forward(p4d_net *m, const p4d_layer *y, p4d_error *err);
int p4d_attention__backward(p4d_net *m, const p4d_layer *y, p4d_error *err);
p4d_heads p4d_attention__heads_of(const p4d_net *m, const p4d_layer *y);

/*
 * For models with norms over all heads of a token. a, b: (n, columns). sums (n, 2) = for each token the sum
 * of a * b over its queries, and over its keys, on all tp ranks. Does nothing for other models. Errors: RANK.
 */
int p4d_attention__sum_heads(p4d_net *m, float *sums, const void *a, const void *b, const p4d_heads *heads,
			     p4d_error *err);

void p4d_attention__warm_up(p4d_net *m);

/* Functions that attention.c, attention_ring.c, attention_gather.c and attention_slices.c share. */

/*
 * Returns the shape of attention of this rank's queries over `keys` keys per sequence. Rows of these keys are
 * key_stride elements apart. block: index of the keys' block, as in sequence_order.h.
 */
p4d_attention_shape p4d_attention__shape_of(const p4d_net *m, const p4d_layer *y, uint32_t block,
					    uint64_t keys, uint64_t key_stride);
/* Like p4d_attention__shape_of, for gradients of a layer whose output exists. */
p4d_attention_shape p4d_attention__gradient_shape_of(const p4d_net *m, const p4d_layer *y, uint32_t block,
						     uint64_t keys, uint64_t key_stride);

/* Column `at` of a matrix. */
static inline char *p4d_column(void *matrix, uint64_t at, uint64_t element)
{
	return (char *)matrix + at * element;
}

/*
 * Copies the keys and values, which are the last columns of qkv, of this rank's tokens first ..
 * first+count-1.
 */
void p4d_attention__take_keys_values(p4d_net *m, void *to, void *qkv, uint64_t first, uint64_t count);

/*
 * Attention with cp > 1. Forward: computes output and lse of the layer from its qkv. Backward: sums (n,
 * columns), fp32, become the gradient of qkv; they must be zero before.
 */
int p4d_attention_ring__forward(p4d_net *m, const p4d_layer *y, p4d_error *err);
int p4d_attention_ring__backward(p4d_net *m, const p4d_layer *y, float *sums, p4d_error *err);
int p4d_attention_gather__forward(p4d_net *m, const p4d_layer *y, p4d_error *err);
int p4d_attention_gather__backward(p4d_net *m, const p4d_layer *y, float *sums, p4d_error *err);

/*
 * Attention of a pass over one slice of the sequences. The layer has the keys and values of this slice and of
 * the slices before it, and their gradients.
 */
int p4d_attention_slices__forward(p4d_net *m, const p4d_layer *y);
int p4d_attention_slices__backward(p4d_net *m, const p4d_layer *y, float *sums);
/* Runs attention once for the slice that m is set to, so that libraries load their code. */
void p4d_attention_slices__warm_up(p4d_net *m, uint32_t layer);
