/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Matmuls of a layer with its matrices, for n of the m->n tokens or for all. They are in FP8 if the layout's
 * precision is FP8, else in the storage type. FP8 needs whole blocks of tokens: a pass with other numbers of
 * tokens, for instance during generation, uses the storage type. weight: the matrix (out, in) of this kind
 * and layer.
 */
/*
 * The input of a matmul. If p4d_product__fuses(m) is true, the caller may set gate_up instead of rows. The
 * input is then SwiGLU of gate_up: the pass quantizes it while it computes it, and stores only the codes.
 * kept: the layer's memory for the input's transposed FP8 codes (of all m->n rows); p4d_product__forward
 * makes them and p4d_product__weight uses them. NULL: the layer keeps none.
 */
typedef struct p4d_product_input {
	const void *rows;    /* (n, in) */
	const void *gate_up; /* (n, 2 * in); NULL: the input is `rows` */
	void *kept;
} p4d_product_input;
/* Whether this pass computes SwiGLU and its gradient while it quantizes their results. */
bool p4d_product__fuses(const p4d_net *m);
/* Whether this pass uses kept codes of the input. Then it needs nothing else of the input. */
bool p4d_product__keeps(const p4d_net *m, const p4d_product_input *x);
/* Makes the codes that are kept, without the matmul. Does nothing if the pass is not in FP8. */
void p4d_product__keep(p4d_net *m, const p4d_product_input *x, uint64_t in);
/* y (n, out) = add + x (n, in) * weight^T; add as in p4d_device.linear */
void p4d_product__forward(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *y, const void *add,
			  const p4d_product_input *x, uint64_t n, uint64_t out, uint64_t in);
/*
 * The gradient of a matmul's result. both: the caller passes all m->n rows to p4d_product__input and then,
 * with no other call of this file between, to p4d_product__weight. FP8 then quantizes the rows once, as they
 * are and transposed. dact: if p4d_product__fuses, the rows may be gate and up, whose gradient is then
 * quantized without being stored; dact is the gradient of SwiGLU's result. Needs `both`.
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
 * Runs all three matmuls once, on any contents of the arena from `any` on. Call it before the arena has data.
 */
void p4d_product__warm_up(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t out, uint64_t in,
			  void *any);
