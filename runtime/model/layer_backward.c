/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer backward, whole or in two halves. In schedules that split it, the first half computes all gradients
 * but those of the matrices after the norms, qkv and gate_up: their inputs stay in the slot, output gradients
 * in place of outputs. Recomputed buffers are not in the slot, so with them part of the second half, or all,
 * is done in the first.
 */
#include "model/adapters.h"
#include "model/attention.h"
#include "model/buffers.h"
#include "model/layer.h"
#include "model/norm.h"
#include "model/parallel.h"
#include "model/product.h"

/* Whether the weight's gradient waits for the second half. */
static bool waits(const p4d_net *m, const p4d_projection *p)
{
	return p4d_is_split(m->schedule.kind) && p4d_buffers__keeps(m, p->output);
}

/* Of the matrix, or of its adapters. */
static bool is_trained(const p4d_net *m, p4d_weight_kind weight, uint32_t layer)
{
	return p4d_buffers__gradient(m, weight, layer) || p4d_adapters__has(m, weight, layer);
}

/* Adds dy (n, out)^T * x (n, in) to the gradient of the weight, or of its adapters */
static void weight_gradient(p4d_net *m, p4d_weight_kind weight, uint32_t layer, const void *dy, const void *x,
			    uint64_t out, uint64_t in)
{
	float *gradient = p4d_buffers__gradient(m, weight, layer);

	if (gradient)
		p4d_product__weight(m, gradient, dy, x, out, in,
				    p4d_buffers__has_part(m, weight, layer, out));
	else
		p4d_adapters__gradients(m, weight, layer, dy, x);
}

/* dx (n, in) = dy (n, out) * weight */
static void input_gradient(p4d_net *m, p4d_weight_kind weight, uint32_t layer, void *dx, const void *dy,
			   uint64_t out, uint64_t in)
{
	p4d_product__input(m, weight, layer, dx, dy, out, in);
	p4d_adapters__input(m, weight, layer, dx, dy);
}

/* The gradient of a projection's weight, where dy (n, out) is that of its output. */
static int projection_weight(p4d_net *m, const p4d_layer *y, const p4d_projection *p, const void *dy,
			     uint64_t out, p4d_error *err)
{
	if (!is_trained(m, p->weight, y->number))
		return 0;
	const void *x = p4d_layer__normed(m, y, p, err);

	if (!x)
		return -1;
	weight_gradient(m, p->weight, y->number, dy, x, out, m->h);
	return 0;
}

/* Continues to B_HIDDEN, adding the gradient of the norm's input. */
static int projection_input(p4d_net *m, const p4d_layer *y, const p4d_projection *p, const void *dy,
			    uint64_t out, p4d_error *err)
{
	void *gradient = p4d_buffers_at(m, B_NORM_OUT_GRADIENT);

	input_gradient(m, p->weight, y->number, p4d_parallel__partial(m, gradient), dy, out, m->h);
	if (p4d_parallel__reduce_partial(m, gradient, err) < 0)
		return -1;
	p4d_norm__backward(m, p->norm, y->number, p4d_buffers_at(m, B_HIDDEN), gradient,
			   y->activation[p->input], y->activation[p->rstd]);
	return 0;
}

/*
 * The gradient of a block's last product, of all rows: that of the hidden state, or through a norm behind the
 * block. Of the bias: of this rank's rows. NULL: failed.
 */
static const void *end_gradient(p4d_net *m, const p4d_layer *y, p4d_weight_kind norm, p4d_weight_kind bias,
				p4d_activation output, p4d_activation rstd, p4d_error *err)
{
	const void *gradient = p4d_buffers_at(m, B_HIDDEN);
	void *through = p4d_buffers_at(m, B_NORM_OUT_GRADIENT);
	float *dbias = p4d_buffers__gradient(m, bias, y->number);

	if (y->activation[output]) {
		m->d->zero(m->d, through, m->ns * m->h * m->element);
		p4d_norm__backward(m, norm, y->number, through, gradient, y->activation[output],
				   y->activation[rstd]);
		gradient = through;
	}
	if (dbias)
		m->d->bias_backward(m->d, m->type, dbias, gradient, m->ns, m->h);
	return p4d_parallel__gather_rows(m, gradient, p4d_buffers_at(m, B_GATHERED_GRADIENT), err);
}

static int ffn_part(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_projection *p = &p4d_layer__gate_up;
	void *product = p4d_layer__product(m, y), *gate_up = y->activation[ACT_GATE_UP];
	void *ffn_act_gradient = p4d_buffers_at(m, B_FFN_ACT_GRADIENT);
	float *dbias = p4d_buffers__gradient(m, P4D_W_UP_BIAS, y->number);
	const void *dy = end_gradient(m, y, P4D_W_FFN_POST_NORM, P4D_W_DOWN_BIAS, ACT_FFN_OUTPUT,
				      ACT_FFN_OUTPUT_RSTD, err);

	if (!dy)
		return -1;
	const bool trained = is_trained(m, P4D_W_DOWN, y->number), kept = y->activation[ACT_PRODUCT];
	input_gradient(m, P4D_W_DOWN, y->number, ffn_act_gradient, dy, m->h, m->f);
	p4d_layer__activate_back(m, gate_up, trained && !kept ? product : NULL, ffn_act_gradient);
	if (trained)
		weight_gradient(m, P4D_W_DOWN, y->number, dy, product, m->h, m->f);
	if (dbias)
		m->d->bias_backward(m->d, m->type, dbias, gate_up, m->n, m->up);
	if (!waits(m, p) && projection_weight(m, y, p, gate_up, m->up, err) < 0)
		return -1;
	return projection_input(m, y, p, gate_up, m->up, err);
}

static int attention_part(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_projection *p = &p4d_layer__qkv;
	const p4d_heads heads = p4d_attention__heads_of(m, y);
	void *attention_gradient = p4d_buffers_at(m, B_ATTENTION_GRADIENT),
	     *dqkv = p4d_buffers_at(m, B_QKV_GRADIENT);
	const void *dy = end_gradient(m, y, P4D_W_ATTENTION_POST_NORM, P4D_W_OUTPUT_BIAS,
				      ACT_ATTENTION_OUTPUT, ACT_ATTENTION_OUTPUT_RSTD, err);

	if (!dy)
		return -1;
	weight_gradient(m, P4D_W_OUTPUT, y->number, dy, y->activation[ACT_ATTENTION], m->h, m->q);
	input_gradient(m, P4D_W_OUTPUT, y->number, attention_gradient, dy, m->h, m->q);
	if (p4d_attention__backward(m, y, err) < 0)
		return -1;
	m->d->heads_backward(m->d, m->type, dqkv, y->activation[ACT_QKV], y->activation[ACT_QK_RSTD], &heads,
			     p4d_buffers__gradient(m, P4D_W_QKV_BIAS, y->number),
			     p4d_buffers__gradient(m, P4D_W_QUERY_NORM, y->number),
			     p4d_buffers__gradient(m, P4D_W_KEY_NORM, y->number));
	if (waits(m, p))
		m->d->copy(m->d, y->activation[ACT_QKV], dqkv, m->n * m->columns * m->element);
	else if (projection_weight(m, y, p, dqkv, m->columns, err) < 0)
		return -1;
	return projection_input(m, y, p, dqkv, m->columns, err);
}

int p4d_layer_backward(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	if (p4d_layer__recompute(m, y, err) < 0 || ffn_part(m, y, err) < 0)
		return -1;
	return attention_part(m, y, err);
}

int p4d_layer_backward_weights(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const void *gate_up = y->activation[ACT_GATE_UP], *qkv = y->activation[ACT_QKV];

	if (waits(m, &p4d_layer__gate_up) &&
	    projection_weight(m, y, &p4d_layer__gate_up, gate_up, m->up, err) < 0)
		return -1;
	return waits(m, &p4d_layer__qkv) ? projection_weight(m, y, &p4d_layer__qkv, qkv, m->columns, err) : 0;
}
