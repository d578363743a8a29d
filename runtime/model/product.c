/* SPDX-License-Identifier: Apache-2.0 */
#include "model/product.h"

#include "model/buffers.h"
#include "model/parallel.h"
#include "model/quantized.h"

static bool in_fp8(const p4d_net *m, uint64_t n)
{
	return m->l->precision == P4D_FP8 && n % p4d_fp8_recipes[m->l->fp8_recipe].multiple == 0;
}

/* Quantizes x, of shape (rows, depth) or transposed, as the left or the right operand; each has a buffer. */
static p4d_fp8_operand quantized(p4d_net *m, bool left, p4d_fp8_role role, const void *x, bool transposed,
				 uint64_t rows, uint64_t depth)
{
	const p4d_fp8_operand to = {
	    .shape = p4d_fp8_shape_of(m->l->fp8_recipe, role, rows, depth),
	    .codes = p4d_buffers_at(m, left ? B_FP8_LEFT : B_FP8_RIGHT),
	    .scales = p4d_buffers_at(m, left ? B_FP8_LEFT_SCALES : B_FP8_RIGHT_SCALES),
	};

	m->d->quantize(m->d, m->type, transposed ? NULL : &to, transposed ? &to : NULL, x);
	return to;
}

void p4d_product__forward(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *y, const void *add,
			  const void *x, uint64_t n, uint64_t out, uint64_t in)
{
	const void *weight = p4d_quantized__matrix(m, kind, layer);

	if (!in_fp8(m, n)) {
		m->d->linear(m->d, m->type, y, add, x, weight, n, out, in);
		return;
	}
	const p4d_fp8_operand a = quantized(m, true, P4D_FP8_INPUT, x, false, n, in),
			      b = quantized(m, false, P4D_FP8_WEIGHT, weight, false, out, in);
	m->d->product(m->d, m->type, y, add, &a, &b);
}

void p4d_product__input(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *dx, const void *dy,
			uint64_t n, uint64_t out, uint64_t in)
{
	const void *weight = p4d_quantized__matrix(m, kind, layer);

	if (!in_fp8(m, n)) {
		m->d->linear_input(m->d, m->type, dx, dy, weight, n, out, in, false);
		return;
	}
	const p4d_fp8_operand a = quantized(m, true, P4D_FP8_GRADIENT, dy, false, n, out),
			      b = quantized(m, false, P4D_FP8_WEIGHT, weight, true, in, out);
	m->d->product(m->d, m->type, dx, NULL, &a, &b);
}

void p4d_product__weight(p4d_net *m, float *dw, const void *dy, const void *x, uint64_t out, uint64_t in,
			 bool accumulate)
{
	if (!in_fp8(m, m->n)) {
		m->d->linear_weight(m->d, m->type, dw, dy, x, m->n, out, in, accumulate);
		return;
	}
	const p4d_fp8_operand a = quantized(m, true, P4D_FP8_GRADIENT, dy, true, out, m->n),
			      b = quantized(m, false, P4D_FP8_INPUT, x, true, in, m->n);
	m->d->product(m->d, P4D_DT_FP32, dw, accumulate ? dw : NULL, &a, &b);
}

void p4d_product__warm_up(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t out, uint64_t in,
			  void *any)
{
	float *gradient = p4d_buffers__gradient(m, kind, layer);
	const uint64_t n = p4d_parallel__part(m, 0).count;

	p4d_product__forward(m, kind, layer, any, NULL, any, n, out, in);
	if (m->l->evaluates) /* without training, the plan has no room for the operands of backward passes in
				FP8 */
		return;
	p4d_product__input(m, kind, layer, any, any, n, out, in);
	if (gradient)
		p4d_product__weight(m, gradient, any, any, out, in, true);
}
