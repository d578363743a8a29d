/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backward pass of a layer, whole or in two halves. In schedules that split it, the first half computes
 * all gradients except those of the qkv and gate_up matrices. For these, the slot keeps the matrix's input,
 * and the gradient of its output replaces the output. Activations that are recomputed are not in the slot.
 * Then the first half also computes these gradients, or one of them.
 */
#include "model/adapters.h"
#include "model/attention.h"
#include "model/buffers.h"
#include "model/layer.h"
#include "model/norm.h"
#include "model/product.h"

/* Whether the gradient of the weight is computed in the second half of a split backward pass. */
static bool waits(const p4d_net *m, const p4d_projection *p)
{
	return p4d_is_split(m->schedule.kind) && p4d_buffers__keeps(m, p->output);
}

/* Whether the matrix, or its adapters, are trained. */
static bool is_trained(const p4d_net *m, p4d_weight_kind weight, uint32_t layer)
{
	return p4d_buffers__gradient(m, weight, layer) || p4d_adapters__has(m, weight, layer);
}

/*
 * The gradient of a linear layer's output. both: it is used for the gradient of the input and then, in the
 * same half of the pass, for the gradient of the weight.
 */
static p4d_product_gradient of_both(const p4d_net *m, p4d_weight_kind weight, uint32_t layer, const void *dy)
{
	return (p4d_product_gradient){.rows = dy,
				      .both = m->parts == 1 && p4d_buffers__gradient(m, weight, layer)};
}

/* Adds dy (n, out)^T * x (n, in) to the gradient of the weight, or of its adapters */
static void weight_gradient(p4d_net *m, p4d_weight_kind weight, uint32_t layer, p4d_product_gradient dy,
			    const p4d_product_input *x, uint64_t out, uint64_t in)
{
	float *gradient = p4d_buffers__gradient(m, weight, layer);

	if (gradient)
		p4d_product__weight(m, gradient, dy, x, out, in,
				    p4d_buffers__has_part(m, weight, layer, out));
	else
		p4d_adapters__gradients(m, weight, layer, dy.rows, x->rows);
}

/* dx (n, in) = dy (n, out) * weight, for a part of the tokens */
static void input_gradient(p4d_net *m, p4d_weight_kind weight, uint32_t layer, p4d_token_part part, void *dx,
			   p4d_product_gradient dy, uint64_t out, uint64_t in)
{
	void *to = (char *)dx + part.first * in * m->element;
	p4d_product_gradient from = dy;
	from.rows = (const char *)dy.rows + part.first * out * m->element;

	p4d_product__input(m, weight, layer, to, from, part.count, out, in);
	p4d_adapters__input(m, weight, layer, to, from.rows, part);
}

/*
 * Backward pass of a linear layer. now: the weight gradient is computed in the current half of the pass. x:
 * the gathered input; the gather may still be running.
 */
typedef struct projection_back {
	const p4d_projection *of;
	uint64_t out;
	bool now;
	p4d_gathering x;
} projection_back;

/* An input of which only the kept codes are known, if the layer keeps codes. */
static p4d_product_input codes_of(const p4d_layer *y, const p4d_projection *p)
{
	return (p4d_product_input){.kept = y->activation[p->codes]};
}

/*
 * Starts to gather the input for the weight's gradient, unless the layer keeps the input's codes. The gather
 * runs concurrently with the operations that are queued so far.
 */
static int begin_projection(p4d_net *m, const p4d_layer *y, const p4d_projection *p, uint64_t out, bool now,
			    projection_back *back, p4d_error *err)
{
	*back = (projection_back){.of = p, .out = out, .now = now && is_trained(m, p->weight, y->number)};
	const p4d_product_input kept = codes_of(y, p);
	return back->now && !p4d_product__keeps(m, &kept) ? p4d_layer__normed(m, y, p, &back->x, err) : 0;
}

/* The gradient of the projection's output. */
static p4d_product_gradient of_output(const p4d_net *m, const p4d_layer *y, const projection_back *back,
				      const void *rows)
{
	return back->now ? of_both(m, back->of->weight, y->number, rows)
			 : (p4d_product_gradient){.rows = rows};
}

/* dy (n, out): gradient of the projection's output */
static int projection_weight(p4d_net *m, const p4d_layer *y, const projection_back *back,
			     p4d_product_gradient dy, p4d_error *err)
{
	p4d_product_input x = codes_of(y, back->of);

	if (!back->now)
		return 0;
	if (!p4d_product__keeps(m, &x)) {
		x.rows = back->x.rows;
		if (p4d_parallel__gathered(m, &back->x, m->parts - 1, err) < 0)
			return -1;
	}
	weight_gradient(m, back->of->weight, y->number, dy, &x, back->out, m->h);
	return 0;
}

/*
 * Computes the gradients of the matmul's input and weight. While the weight's gradient is computed, the
 * input's gradient is summed over the ranks. Then adds the gradient of the norm's input to B_HIDDEN.
 */
static int end_projection(p4d_net *m, const p4d_layer *y, const projection_back *back,
			  p4d_product_gradient dy, p4d_error *err)
{
	const p4d_projection *p = back->of;
	void *gradient = p4d_buffers_at(m, B_NORM_OUT_GRADIENT),
	     *partial = p4d_parallel__partial(m, gradient);

	for (unsigned i = 0; i < m->parts; i++) {
		input_gradient(m, p->weight, y->number, p4d_parallel__part(m, i), partial, dy, back->out,
			       m->h);
		if (p4d_parallel__reduce_part(m, gradient, i, err) < 0)
			return -1;
	}
	if (projection_weight(m, y, back, dy, err) < 0 || p4d_parallel__reduced(m, err) < 0)
		return -1;
	if (!p4d_layer__has_norm(y, p)) {
		m->d->add(m->d, m->type, p4d_buffers_at(m, B_HIDDEN), p4d_buffers_at(m, B_HIDDEN), gradient,
			  m->ns * m->h);
		return 0;
	}
	return p4d_norm__backward(m, p->norm, y->number, p4d_buffers_at(m, B_HIDDEN), gradient,
				  y->activation[p->input], y->activation[p->rstd], err);
}

/*
 * Gathers the gradient of the output of a block's last matmul. This is the gradient of the hidden state,
 * passed backward through the norm after the block if there is one. Also computes the bias's gradient, from
 * this rank's rows.
 */
static int end_gradient(p4d_net *m, const p4d_layer *y, p4d_weight_kind norm, p4d_weight_kind bias,
			p4d_activation output, p4d_activation rstd, p4d_gathering *to, p4d_error *err)
{
	const void *gradient = p4d_buffers_at(m, B_HIDDEN);
	void *through = p4d_buffers_at(m, B_NORM_OUT_GRADIENT);
	float *dbias = p4d_buffers__gradient(m, bias, y->number);
	const float factor = (float)m->l->factor.residual;

	if (p4d_scales(factor)) { /* only models without a norm after the block have such a factor */
		m->d->add_scaled(m->d, m->type, through, NULL, gradient, factor, m->ns * m->h);
		gradient = through;
	}
	if (y->activation[output]) {
		m->d->zero(m->d, through, m->ns * m->h * m->element);
		if (p4d_norm__backward(m, norm, y->number, through, gradient, y->activation[output],
				       y->activation[rstd], err) < 0)
			return -1;
		gradient = through;
	}
	if (dbias)
		m->d->bias_backward(m->d, m->type, dbias, gradient, m->ns, m->h);
	return p4d_parallel__gather(m, gradient, p4d_buffers_at(m, B_GATHERED_GRADIENT), to, err);
}

/*
 * dx (n, in) = dy (n, h) * weight, for a block's last matmul. Processes each part of dy as soon as it has
 * arrived.
 */
static int end_input(p4d_net *m, const p4d_layer *y, p4d_weight_kind weight, void *dx,
		     const p4d_gathering *dy, uint64_t in, p4d_error *err)
{
	const p4d_product_gradient gradient = of_both(m, weight, y->number, dy->rows);

	for (unsigned i = 0; i < m->parts; i++) {
		if (p4d_parallel__gathered(m, dy, i, err) < 0)
			return -1;
		input_gradient(m, weight, y->number, p4d_parallel__part(m, i), dx, gradient, m->h, in);
	}
	return p4d_parallel__sum_features(m, dx, in, err);
}

/*
 * Computes the gradient of the down matrix, and replaces gate and up by their gradients. dact: the gradient
 * of the activation's result.
 */
static p4d_product_gradient activation_back(p4d_net *m, const p4d_layer *y, const projection_back *back,
					    const void *dy, const void *dact)
{
	void *product = p4d_layer__product(m, y), *gate_up = y->activation[ACT_GATE_UP];
	float *dbias = p4d_buffers__gradient(m, P4D_W_UP_BIAS, y->number);
	p4d_product_input x = {.rows = product, .kept = y->activation[ACT_PRODUCT_CODES]};
	const bool kept = y->activation[ACT_PRODUCT] || p4d_product__keeps(m, &x);
	const bool trained = is_trained(m, P4D_W_DOWN, y->number);
	const bool fuses = p4d_product__fuses(m);
	p4d_product_gradient of_gate_up = of_output(m, y, back, gate_up);

	if (fuses)
		x.gate_up = gate_up;
	else
		p4d_layer__activate_back(m, gate_up, trained && !kept ? product : NULL, dact);
	if (trained)
		weight_gradient(m, P4D_W_DOWN, y->number, of_both(m, P4D_W_DOWN, y->number, dy), &x, m->h,
				m->f);
	if (fuses && of_gate_up.both)
		/* the next matmuls compute the gradient of gate and up themselves, and do not store it */
		of_gate_up.dact = dact;
	else if (fuses)
		p4d_layer__activate_back(m, gate_up, NULL, dact);
	if (dbias)
		m->d->bias_backward(m->d, m->type, dbias, gate_up, m->n, m->up);
	return of_gate_up;
}

static int ffn_part(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_projection *p = &p4d_layer__gate_up;
	void *ffn_act_gradient = p4d_buffers_at(m, B_FFN_ACT_GRADIENT);
	projection_back back;
	p4d_gathering dy;

	if (end_gradient(m, y, P4D_W_FFN_POST_NORM, P4D_W_DOWN_BIAS, ACT_FFN_OUTPUT, ACT_FFN_OUTPUT_RSTD, &dy,
			 err) < 0 ||
	    begin_projection(m, y, p, m->up, !waits(m, p), &back, err) < 0 ||
	    end_input(m, y, P4D_W_DOWN, ffn_act_gradient, &dy, m->f, err) < 0)
		return -1;
	return end_projection(m, y, &back, activation_back(m, y, &back, dy.rows, ffn_act_gradient), err);
}

static int attention_part(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_projection *p = &p4d_layer__qkv;
	const p4d_heads heads = p4d_attention__heads_of(m, y);
	void *attention_gradient = p4d_buffers_at(m, B_ATTENTION_GRADIENT),
	     *dqkv = p4d_buffers_at(m, B_QKV_GRADIENT);
	const p4d_product_input x = {.rows = y->activation[ACT_ATTENTION],
				     .kept = y->activation[ACT_ATTENTION_CODES]};
	projection_back back;
	p4d_gathering dy;

	if (end_gradient(m, y, P4D_W_ATTENTION_POST_NORM, P4D_W_OUTPUT_BIAS, ACT_ATTENTION_OUTPUT,
			 ACT_ATTENTION_OUTPUT_RSTD, &dy, err) < 0 ||
	    begin_projection(m, y, p, m->columns, !waits(m, p), &back, err) < 0 ||
	    end_input(m, y, P4D_W_OUTPUT, attention_gradient, &dy, m->q, err) < 0)
		return -1;
	weight_gradient(m, P4D_W_OUTPUT, y->number, of_both(m, P4D_W_OUTPUT, y->number, dy.rows), &x, m->h,
			m->q);
	if (p4d_attention__backward(m, y, err) < 0 ||
	    p4d_attention__sum_heads(m, p4d_buffers_at(m, B_QK_DOTS), dqkv, y->activation[ACT_QKV], &heads,
				     err) < 0)
		return -1;
	m->d->heads_backward(m->d, m->type, dqkv, y->activation[ACT_QKV], y->activation[ACT_QK_RSTD], &heads,
			     p4d_buffers__gradient(m, P4D_W_QKV_BIAS, y->number),
			     p4d_buffers__gradient(m, P4D_W_QUERY_NORM, y->number),
			     p4d_buffers__gradient(m, P4D_W_KEY_NORM, y->number));
	if (waits(m, p))
		m->d->copy(m->d, y->activation[ACT_QKV], dqkv, m->n * m->columns * m->element);
	return end_projection(m, y, &back, of_output(m, y, &back, dqkv), err);
}

int p4d_layer_backward(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	if (p4d_layer__recompute(m, y, err) < 0 || ffn_part(m, y, err) < 0)
		return -1;
	return attention_part(m, y, err);
}

bool p4d_layer_late_gradients(const p4d_net *m)
{
	return waits(m, &p4d_layer__qkv) || waits(m, &p4d_layer__gate_up);
}

/*
 * Whether the second half needs parameters. With adapters it does, because the gradient of A needs B, and the
 * gradient of B needs A.
 */
bool p4d_layer_late_parameters(const p4d_net *m)
{
	const bool adapters = m->l->finetune != P4D_TUNE_FULL;

	return p4d_layer_late_gradients(m) && (adapters || !p4d_buffers__keeps(m, ACT_INPUT_NORMED));
}

static int late_weight(p4d_net *m, const p4d_layer *y, const p4d_projection *p, uint64_t out, p4d_error *err)
{
	projection_back back;

	if (begin_projection(m, y, p, out, waits(m, p), &back, err) < 0)
		return -1;
	return projection_weight(m, y, &back, (p4d_product_gradient){.rows = y->activation[p->output]}, err);
}

int p4d_layer_backward_weights(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	if (late_weight(m, y, &p4d_layer__gate_up, m->up, err) < 0)
		return -1;
	return late_weight(m, y, &p4d_layer__qkv, m->columns, err);
}
