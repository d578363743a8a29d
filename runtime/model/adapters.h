/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/parallel.h"

/*
 * LoRA (arXiv 2106.09685): each linear layer of a frozen matrix may have an adapter, which adds y += scale *
 * (x A^T) B^T to the layer's output. If tensor parallelism cuts B, every rank has all of A, and computes a
 * part of its gradient; if it cuts A, every rank has all of B. So a pass needs no additional communication:
 * sums over tp are those of the matrix itself. x A^T is recomputed in the backward pass.
 *
 * With dropout the input of each adapter is x * mask / (1 - p), in a separate buffer. The mask of an element
 * follows from seed, step, the token's place in the batch, adapter and feature. So every layout drops the
 * same elements, and the backward pass computes the mask again.
 */

/* Whether any linear layer in this matrix has an adapter. */
bool p4d_adapters__has(const p4d_net *m, p4d_weight_kind matrix, uint32_t layer);

/*
 * y (n, columns of the matrix) += the output of the matrix's adapters for x (n, in). Here and below, n is the
 * number of tokens in `part`: some of the m->n tokens or all. y and x begin with the part's first token.
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
