/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * LoRA (arXiv 2106.09685): next to a frozen matrix, y += scale * (x A^T) B^T for each of its linear layers
 * that has an adapter. If tensor parallelism cuts B, every rank has A, and computes a part of its gradient;
 * if it cuts A, every rank has B. So a pass needs no additional communication: sums over tp are those of the
 * matrix itself. x A^T is recomputed in the backward pass.
 */

/* Whether any of a matrix's layers has one. */
bool p4d_adapters__has(const p4d_net *m, p4d_weight_kind matrix, uint32_t layer);

/* y (n, columns of the matrix) += its adapters' part; x (n, in). Here and below n: all m->n tokens, or some.
 */
void p4d_adapters__add(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *y, const void *x,
		       uint64_t n);

/* Adds to the gradients of A and B; dy (m->n, columns) */
void p4d_adapters__gradients(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, const void *dy,
			     const void *x);

/* dx (n, in) += what passes the adapters */
void p4d_adapters__input(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *dx, const void *dy,
			 uint64_t n);

/* Every product once; see warm_up.c. */
void p4d_adapters__warm_up(p4d_net *m, p4d_weight_kind matrix, uint32_t layer);
