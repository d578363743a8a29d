/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/parallel.h"

/*
 * LoRA (arXiv 2106.09685): each linear layer of a frozen matrix may have an adapter, which adds scale * (x
 * A^T) B^T to the layer's output. If tensor parallelism cuts B, every rank has all of A, and computes part of
 * A's gradient; if it cuts A, every rank has all of B. So a pass needs no additional communication: the sums
 * over tp that the matrix needs also sum its adapters. x A^T is recomputed in the backward pass.
 *
 * With dropout the input of each adapter is x * mask / (1 - p), in a buffer of its own. The mask of an
 * element depends only on the seed, the step, the token's place in the batch, the adapter and the feature. So
 * every layout drops the same elements, and the backward pass can recompute the mask.
 */

/* Whether any linear layer in this matrix has an adapter. */
bool p4d_adapters__has(const p4d_net *m, p4d_weight_kind matrix, uint32_t layer);

/*
 * y (n, columns of the matrix) += the output of the matrix's adapters for x (n, in). Here and below, n is the
 * number of tokens in `part`, which are some or all of the m->n tokens. y and x begin at the part's first
 * token.
 */
void p4d_adapters__add(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *y, const void *x,
		       p4d_token_part part);

/* Adds to the gradients of A and B; dy (m->n, columns) */
void p4d_adapters__gradients(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, const void *dy,
			     const void *x);

/* dx (n, in) += the gradient through the adapters */
void p4d_adapters__input(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *dx, const void *dy,
			 p4d_token_part part);

/* Runs every matmul of the adapters once; see warm_up.c. */
void p4d_adapters__warm_up(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *any);
