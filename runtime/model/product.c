/* SPDX-License-Identifier: Apache-2.0 */
#include "model/product.h"

#include "model/buffers.h"
#include "model/parallel.h"
#include "model/quantized.h"
#include "model/weight_codes.h"
#include "plan/parameters.h"

static bool in_fp8(const p4d_net *m, uint64_t n)
{
	return m->l->precision == P4D_FP8 && n % p4d_fp8_recipes[m->l->fp8_recipe].multiple == 0;
}

/* An operand of shape (rows, depth) in a buffer of the plan, whose scales are in the next buffer. */
static p4d_fp8_operand operand_in(const p4d_net *m, p4d_buffer codes, p4d_fp8_role role, uint64_t rows,
				  uint64_t depth)
{
	return (p4d_fp8_operand){
	    .shape = p4d_fp8_shape_of(m->l->fp8_recipe, role, rows, depth),
	    .codes = p4d_buffers_at(m, codes),
	    .scales = p4d_buffers_at(m, (p4d_buffer)(codes + 1)),
	};
}

bool p4d_product__fuses(const p4d_net *m)
{
	return in_fp8(m, m->n) && p4d_fp8_fuses_swiglu(m->l);
}

bool p4d_product__keeps(const p4d_net *m, const p4d_product_input *x)
{
	return in_fp8(m, m->n) && x->kept;
}

/* The transposed codes of an input that its layer keeps. */
static p4d_fp8_operand kept_operand(const p4d_net *m, const p4d_product_input *x, uint64_t in)
{
	const p4d_fp8_operand_shape s = p4d_fp8_shape_of(m->l->fp8_recipe, P4D_FP8_INPUT, in, m->n);

	return (p4d_fp8_operand){
	    .shape = s, .codes = x->kept, .scales = (char *)x->kept + p4d_fp8_scales_place(&s)};
}

/* Quantizes x to `to`, and its transpose to `turned`; NULL: not wanted. */
static void quantize(p4d_net *m, const p4d_fp8_operand *to, const p4d_fp8_operand *turned,
		     const p4d_product_input *x)
{
	if (x->gate_up)
		m->d->quantize_swiglu(m->d, m->type, to, turned, x->gate_up);
	else
		m->d->quantize(m->d, m->type, to, turned, x->rows);
}

void p4d_product__keep(p4d_net *m, const p4d_product_input *x, uint64_t in)
{
	if (!p4d_product__keeps(m, x))
		return;
	const p4d_fp8_operand turned = kept_operand(m, x, in);
	quantize(m, NULL, &turned, x);
}

static void quantize_gradient(p4d_net *m, const p4d_fp8_operand *to, const p4d_fp8_operand *turned,
			      const p4d_product_gradient *dy)
{
	if (dy->dact)
		m->d->quantize_swiglu_backward(m->d, m->type, to, turned, dy->rows, dy->dact);
	else
		m->d->quantize(m->d, m->type, to, turned, dy->rows);
}

/* The matrix (out, in), or with `turned` (in, out), as the right operand. */
static p4d_fp8_operand weight_of(p4d_net *m, p4d_weight_kind kind, uint32_t layer, bool turned, uint64_t out,
				 uint64_t in)
{
	if (m->codes.at)
		return p4d_weight_codes__of(m, kind, layer, turned);
	const p4d_fp8_operand to =
	    operand_in(m, B_FP8_RIGHT, P4D_FP8_WEIGHT, turned ? in : out, turned ? out : in);
	m->d->quantize(m->d, m->type, turned ? NULL : &to, turned ? &to : NULL,
		       p4d_quantized__matrix(m, kind, layer));
	return to;
}

void p4d_product__forward(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *y, const void *add,
			  const p4d_product_input *x, uint64_t n, uint64_t out, uint64_t in)
{
	if (!in_fp8(m, n)) {
		m->d->linear(m->d, m->type, y, add, x->rows, p4d_quantized__matrix(m, kind, layer), n, out,
			     in);
		return;
	}
	const p4d_fp8_operand a = operand_in(m, B_FP8_LEFT, P4D_FP8_INPUT, n, in),
			      b = weight_of(m, kind, layer, false, out, in);
	const p4d_fp8_operand turned = x->kept ? kept_operand(m, x, in) : a;
	quantize(m, &a, x->kept ? &turned : NULL, x);
	m->d->product(m->d, m->type, y, add, &a, &b);
}

void p4d_product__input(p4d_net *m, p4d_weight_kind kind, uint32_t layer, void *dx, p4d_product_gradient dy,
			uint64_t n, uint64_t out, uint64_t in)
{
	if (!in_fp8(m, n)) {
		m->d->linear_input(m->d, m->type, dx, dy.rows, p4d_quantized__matrix(m, kind, layer), n, out,
				   in, false);
		return;
	}
	const p4d_fp8_operand a = operand_in(m, B_FP8_LEFT, P4D_FP8_GRADIENT, n, out),
			      turned = operand_in(m, B_FP8_TURNED, P4D_FP8_GRADIENT, out, n),
			      b = weight_of(m, kind, layer, true, out, in);
	quantize_gradient(m, &a, dy.both ? &turned : NULL, &dy);
	m->d->product(m->d, m->type, dx, NULL, &a, &b);
}

void p4d_product__weight(p4d_net *m, float *dw, p4d_product_gradient dy, const p4d_product_input *x,
			 uint64_t out, uint64_t in, bool accumulate)
{
	if (!in_fp8(m, m->n)) {
		m->d->linear_weight(m->d, m->type, dw, dy.rows, x->rows, m->n, out, in, accumulate);
		return;
	}
	const p4d_fp8_operand a = operand_in(m, B_FP8_TURNED, P4D_FP8_GRADIENT, out, m->n),
			      b = x->kept ? kept_operand(m, x, in)
					  : operand_in(m, B_FP8_RIGHT, P4D_FP8_INPUT, in, m->n);
	if (!dy.both)
		quantize_gradient(m, NULL, &a, &dy);
	if (!x->kept)
		quantize(m, NULL, &b, x);
	m->d->product(m->d, P4D_DT_FP32, dw, accumulate ? dw : NULL, &a, &b);
}

void p4d_product__warm_up(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t out, uint64_t in,
			  void *any)
{
	float *gradient = p4d_buffers__gradient(m, kind, layer);
	const uint64_t n = p4d_parallel__part(m, 0).count;
	const p4d_product_input x = {.rows = any};
	const p4d_product_gradient dy = {.rows = any, .both = gradient && n == m->n};

	p4d_product__forward(m, kind, layer, any, NULL, &x, n, out, in);
	/* without training, the plan has no room for the FP8 operands of backward passes */
	if (m->l->evaluates)
		return;
	p4d_product__input(m, kind, layer, any, dy, n, out, in);
	if (gradient)
		p4d_product__weight(m, gradient, dy, &x, out, in, true);
}
