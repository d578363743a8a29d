/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer backward, whole or in two halves. The first half makes the gradients of activations, norms and
 * biases, the second those of the matrices, from what plan_p4d.c keeps between them.
 */
#include "trainer_parts.h"

static bool is_split(const p4d_layer *y)
{
	return y->product != NULL;
}

/* dweight += dy (n, out)^T * x (n, in) */
static void weight_gradient(p4d_trainer *t, p4d_weight_kind weight, uint32_t layer, const void *dy,
			    const void *x, uint64_t out, uint64_t in)
{
	t->d->linear_weight(t->d, t->type, p4d_gradient_of(t, weight, layer), dy, x, t->n, out, in);
}

/* B_HIDDEN += the gradient of a norm's input, where dy (n, out) is that of the product after the norm. */
static int through_norm(p4d_trainer *t, p4d_weight_kind norm, p4d_weight_kind weight, uint32_t layer,
			const void *dy, uint64_t out, const void *x, const float *rstd, p4d_error *err)
{
	void *gradient = p4d_at(t, B_NORMED_GRADIENT);

	t->d->linear_input(t->d, t->type, p4d_terms(t, gradient), dy, p4d_weight_of(t, weight, layer), t->n,
			   out, t->h, false);
	if (p4d_add_terms(t, gradient, err) < 0)
		return -1;
	t->d->norm_backward(t->d, t->type, p4d_at(t, B_HIDDEN), p4d_gradient_of(t, norm, layer), gradient, x,
			    p4d_weight_of(t, norm, layer), rstd, t->ns, t->h);
	return 0;
}

static int ffn_part(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	void *product = is_split(y) ? y->product : p4d_at(t, B_PRODUCT), *gate_up = y->made[MADE_GATE_UP];
	void *product_gradient = p4d_at(t, B_PRODUCT_GRADIENT);
	const void *dy = p4d_gather_rows(t, p4d_at(t, B_HIDDEN), p4d_at(t, B_GATHERED_GRADIENT), err);

	if (!dy)
		return -1;
	t->d->swiglu(t->d, t->type, product, gate_up, t->n, t->f);
	if (!is_split(y))
		weight_gradient(t, P4D_W_DOWN, y->number, dy, product, t->h, t->f);
	t->d->linear_input(t->d, t->type, product_gradient, dy, p4d_weight_of(t, P4D_W_DOWN, y->number), t->n,
			   t->h, t->f, false);
	t->d->swiglu_backward(t->d, t->type, gate_up, product_gradient, t->n, t->f);
	if (!is_split(y)) {
		const void *x = p4d_normed_rows(t, y->made[MADE_MIDDLE], y->made[MADE_MIDDLE_RSTD],
						P4D_W_FFN_NORM, y->number, err);
		if (!x)
			return -1;
		weight_gradient(t, P4D_W_GATE_UP, y->number, gate_up, x, 2 * t->f, t->h);
	}
	return through_norm(t, P4D_W_FFN_NORM, P4D_W_GATE_UP, y->number, gate_up, 2 * t->f,
			    y->made[MADE_MIDDLE], y->made[MADE_MIDDLE_RSTD], err);
}

static int attention_part(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const p4d_heads heads = p4d_heads_of(t, y);
	void *attention_gradient = p4d_at(t, B_ATTENTION_GRADIENT), *dqkv = p4d_at(t, B_QKV_GRADIENT);
	const void *dy = p4d_gather_rows(t, p4d_at(t, B_HIDDEN), p4d_at(t, B_GATHERED_GRADIENT), err);

	if (!dy)
		return -1;
	if (!is_split(y))
		weight_gradient(t, P4D_W_OUTPUT, y->number, dy, y->made[MADE_ATTENTION], t->h, t->q);
	t->d->linear_input(t->d, t->type, attention_gradient, dy, p4d_weight_of(t, P4D_W_OUTPUT, y->number),
			   t->n, t->h, t->q, false);
	if (p4d_attend_back(t, y, err) < 0)
		return -1;
	t->d->heads_backward(t->d, t->type, dqkv, y->made[MADE_QKV], y->made[MADE_QK_RSTD], &heads,
			     p4d_gradient_of(t, P4D_W_QKV_BIAS, y->number),
			     p4d_gradient_of(t, P4D_W_QUERY_NORM, y->number),
			     p4d_gradient_of(t, P4D_W_KEY_NORM, y->number));
	if (is_split(y)) {
		t->d->copy(t->d, y->made[MADE_QKV], dqkv, t->n * t->columns * t->element);
	} else {
		const void *x = p4d_normed_rows(t, y->made[MADE_INPUT], y->made[MADE_INPUT_RSTD],
						P4D_W_ATTENTION_NORM, y->number, err);
		if (!x)
			return -1;
		weight_gradient(t, P4D_W_QKV, y->number, dqkv, x, t->columns, t->h);
	}
	return through_norm(t, P4D_W_ATTENTION_NORM, P4D_W_QKV, y->number, dqkv, t->columns,
			    y->made[MADE_INPUT], y->made[MADE_INPUT_RSTD], err);
}

int p4d_layer_backward(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const uint64_t bytes = t->ns * t->h * t->element;
	void *hidden = p4d_at(t, B_HIDDEN);

	if (p4d_layer_recompute(t, y, err) < 0)
		return -1;
	if (is_split(y))
		t->d->copy(t->d, y->output_gradient, hidden, bytes);
	if (ffn_part(t, y, err) < 0)
		return -1;
	if (is_split(y))
		t->d->copy(t->d, y->middle_gradient, hidden, bytes);
	return attention_part(t, y, err);
}

int p4d_layer_backward_weights(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	void *gathered = p4d_at(t, B_GATHERED_GRADIENT);
	const void *dy, *x;

	dy = p4d_gather_rows(t, y->output_gradient, gathered, err);
	if (!dy)
		return -1;
	weight_gradient(t, P4D_W_DOWN, y->number, dy, y->product, t->h, t->f);
	x = p4d_normed_rows(t, y->made[MADE_MIDDLE], y->made[MADE_MIDDLE_RSTD], P4D_W_FFN_NORM, y->number,
			    err);
	if (!x)
		return -1;
	weight_gradient(t, P4D_W_GATE_UP, y->number, y->made[MADE_GATE_UP], x, 2 * t->f, t->h);
	dy = p4d_gather_rows(t, y->middle_gradient, gathered, err);
	if (!dy)
		return -1;
	weight_gradient(t, P4D_W_OUTPUT, y->number, dy, y->made[MADE_ATTENTION], t->h, t->q);
	x = p4d_normed_rows(t, y->made[MADE_INPUT], y->made[MADE_INPUT_RSTD], P4D_W_ATTENTION_NORM, y->number,
			    err);
	if (!x)
		return -1;
	weight_gradient(t, P4D_W_QKV, y->number, y->made[MADE_QKV], x, t->columns, t->h);
	return 0;
}
