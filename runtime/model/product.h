/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Matmuls of a layer with its matrices, for all m->n tokens or n of them. They are in FP8 if the layout's
 * precision is FP8, else in the storage type. A pass whose tokens are not whole FP8 blocks, for instance
 * during generation, does not use FP8. weight: the matrix (out, in) of this kind and layer.
 */
/*
 * The input of a matmul. In FP8 it need not be stored: if p4d_product__fuses, it may be SwiGLU of gate_up.
 * kept: the layer's memory for its transposed codes (all m->n rows), which p4d_product__forward makes and
 * p4d_product__weight uses; NULL: none.
 */
typedef struct p4d_product_input {
	const void *rows;    /* (n, in) */
	const void *gate_up; /* (n, 2 * in); NULL: the input is `rows` */
	void *kept;
} p4d_product_input;
/* Whether the pass computes SwiGLU and its gradient while it quantizes them. */
bool p4d_product__fuses(const p4d_net *m);
/* Whether the pass has codes of this input that were kept, so that nothing else of it is needed. */
bool p4d_product__keeps(const p4d_net *m, const p4d_product_input *x);
/* Makes the codes that are kept, without a matmul, if the pass is in FP8. */
void p4d_product__keep(p4d_net *m, const p4d_product_input *x, uint64_t in);
/* y (n, out) = add + x (n, in) * weight^T; add as in p4d_device.linear */
void p4d_product__forward(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *y, const void *add,
			  const p4d_product_input *x, uint64_t n, uint64_t out, uint64_t in);
/*
 * The gradient of a matmul's result. both: p4d_product__input gets all m->n rows, and the next call of this
 * file is p4d_product__weight for the same rows. Then FP8 quantizes them once, in both directions. dact: if
 * p4d_product__fuses, the gradient may be that of SwiGLU, not stored; needs `both`.
 */
typedef struct p4d_product_gradient {
	const void *rows; /* (n, out); with dact (n, out / 2): gate and up */
	bool both;
	const void *dact;
} p4d_product_gradient;
/* dx (n, in) = dy (n, out) * weight */
void p4d_product__input(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *dx, p4d_product_gradient dy,
			uint64_t n, uint64_t out, uint64_t in);
/* dw (out, in) = dy (n, out)^T * x (n, in); += with accumulate */
void p4d_product__weight(p4d_net *m, float *dw, p4d_product_gradient dy, const p4d_product_input *x,
			 uint64_t out, uint64_t in, bool accumulate);
/*
 * Runs all three matmuls once, on arbitrary contents of the arena from `any` on. Call it before the arena is
 * filled.
 */
void p4d_product__warm_up(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t out, uint64_t in,
			  void *any);
