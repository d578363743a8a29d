/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer backward, whole or in two halves. In schedules that split it, the first half makes all gradients
 * but those of the matrices behind the norms, qkv and gate_up: what these need stays in the slot, the
 * gradients of the products in the place of the products. What is recomputed has no place there, so that with
 * it goes a part of the second half, or all of it.
 */
#include "trainer/trainer_parts.h"

/* A norm, and the product of its output with a weight. */
typedef struct projection {
	p4d_made input, rstd, output;
	p4d_weight_kind norm, weight;
} projection;

static const projection qkv_projection = {MADE_INPUT, MADE_INPUT_RSTD, MADE_QKV, P4D_W_ATTENTION_NORM,
					  P4D_W_QKV};
static const projection gate_up_projection = {MADE_MIDDLE, MADE_MIDDLE_RSTD, MADE_GATE_UP, P4D_W_FFN_NORM,
					      P4D_W_GATE_UP};

/* Whether the weight's gradient waits for the second half. */
static bool waits(const p4d_trainer *t, const projection *p)
{
	return p4d_is_split(&t->schedule) && t->kept[p->output];
}

/* dweight += dy (n, out)^T * x (n, in) */
static void weight_gradient(p4d_trainer *t, p4d_weight_kind weight, uint32_t layer, const void *dy,
			    const void *x, uint64_t out, uint64_t in)
{
	t->d->linear_weight(t->d, t->type, p4d_gradient_of(t, weight, layer), dy, x, t->n, out, in);
}

/* The gradient of a projection's weight, where dy (n, out) is that of its output. */
static int projection_weight(p4d_trainer *t, const p4d_layer *y, const projection *p, const void *dy,
			     uint64_t out, p4d_error *err)
{
	const void *x = p4d_normed_rows(t, y->made[p->input], y->made[p->rstd], p->norm, y->number, err);

	if (!x)
		return -1;
	weight_gradient(t, p->weight, y->number, dy, x, out, t->h);
	return 0;
}

/* From there on to B_HIDDEN, to which the gradient of the norm's input is added. */
static int projection_input(p4d_trainer *t, const p4d_layer *y, const projection *p, const void *dy,
			    uint64_t out, p4d_error *err)
{
	void *gradient = p4d_at(t, B_NORMED_GRADIENT);

	t->d->linear_input(t->d, t->type, p4d_terms(t, gradient), dy, p4d_weight_of(t, p->weight, y->number),
			   t->n, out, t->h, false);
	if (p4d_add_terms(t, gradient, err) < 0)
		return -1;
	t->d->norm_backward(t->d, t->type, p4d_at(t, B_HIDDEN), p4d_gradient_of(t, p->norm, y->number),
			    gradient, y->made[p->input], p4d_weight_of(t, p->norm, y->number),
			    y->made[p->rstd], t->ns, t->h);
	return 0;
}

static int ffn_part(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const projection *p = &gate_up_projection;
	void *product = p4d_at(t, B_PRODUCT), *gate_up = y->made[MADE_GATE_UP];
	void *product_gradient = p4d_at(t, B_PRODUCT_GRADIENT);
	const void *dy = p4d_gather_rows(t, p4d_at(t, B_HIDDEN), p4d_at(t, B_GATHERED_GRADIENT), err);

	if (!dy)
		return -1;
	t->d->swiglu(t->d, t->type, product, gate_up, t->n, t->f);
	weight_gradient(t, P4D_W_DOWN, y->number, dy, product, t->h, t->f);
	t->d->linear_input(t->d, t->type, product_gradient, dy, p4d_weight_of(t, P4D_W_DOWN, y->number), t->n,
			   t->h, t->f, false);
	t->d->swiglu_backward(t->d, t->type, gate_up, product_gradient, t->n, t->f);
	if (!waits(t, p) && projection_weight(t, y, p, gate_up, 2 * t->f, err) < 0)
		return -1;
	return projection_input(t, y, p, gate_up, 2 * t->f, err);
}

static int attention_part(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const projection *p = &qkv_projection;
	const p4d_heads heads = p4d_heads_of(t, y);
	void *attention_gradient = p4d_at(t, B_ATTENTION_GRADIENT), *dqkv = p4d_at(t, B_QKV_GRADIENT);
	const void *dy = p4d_gather_rows(t, p4d_at(t, B_HIDDEN), p4d_at(t, B_GATHERED_GRADIENT), err);

	if (!dy)
		return -1;
	weight_gradient(t, P4D_W_OUTPUT, y->number, dy, y->made[MADE_ATTENTION], t->h, t->q);
	t->d->linear_input(t->d, t->type, attention_gradient, dy, p4d_weight_of(t, P4D_W_OUTPUT, y->number),
			   t->n, t->h, t->q, false);
	if (p4d_attend_back(t, y, err) < 0)
		return -1;
	t->d->heads_backward(t->d, t->type, dqkv, y->made[MADE_QKV], y->made[MADE_QK_RSTD], &heads,
			     p4d_gradient_of(t, P4D_W_QKV_BIAS, y->number),
			     p4d_gradient_of(t, P4D_W_QUERY_NORM, y->number),
			     p4d_gradient_of(t, P4D_W_KEY_NORM, y->number));
	if (waits(t, p))
		t->d->copy(t->d, y->made[MADE_QKV], dqkv, t->n * t->columns * t->element);
	else if (projection_weight(t, y, p, dqkv, t->columns, err) < 0)
		return -1;
	return projection_input(t, y, p, dqkv, t->columns, err);
}

int p4d_layer_backward(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	if (p4d_layer_recompute(t, y, err) < 0 || ffn_part(t, y, err) < 0)
		return -1;
	return attention_part(t, y, err);
}

int p4d_layer_backward_weights(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const void *gate_up = y->made[MADE_GATE_UP], *qkv = y->made[MADE_QKV];

	if (waits(t, &gate_up_projection) &&
	    projection_weight(t, y, &gate_up_projection, gate_up, 2 * t->f, err) < 0)
		return -1;
	return waits(t, &qkv_projection) ? projection_weight(t, y, &qkv_projection, qkv, t->columns, err) : 0;
}
