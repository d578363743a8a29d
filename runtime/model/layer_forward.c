/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the forward pass of a layer. Before the backward pass, computes the activations that were not kept
 * once more.
 */
#include "model/adapters.h"
#include "model/attention.h"
#include "model/buffers.h"
#include "model/layer.h"
#include "model/norm.h"
#include "model/product.h"

const p4d_projection p4d_layer__qkv = {.input = ACT_INPUT,
				       .rstd = ACT_INPUT_RSTD,
				       .normed = ACT_INPUT_NORMED,
				       .codes = ACT_INPUT_CODES,
				       .output = ACT_QKV,
				       .norm = P4D_W_ATTENTION_NORM,
				       .weight = P4D_W_QKV};
const p4d_projection p4d_layer__gate_up = {.input = ACT_POST_ATTENTION,
					   .rstd = ACT_POST_ATTENTION_RSTD,
					   .normed = ACT_POST_ATTENTION_NORMED,
					   .codes = ACT_POST_ATTENTION_CODES,
					   .output = ACT_GATE_UP,
					   .norm = P4D_W_FFN_NORM,
					   .weight = P4D_W_GATE_UP};

static int gather(p4d_net *m, const void *normed, p4d_gathering *to, p4d_error *err)
{
	return p4d_parallel__gather(m, normed, p4d_buffers_at(m, B_GATHERED), to, err);
}

static int normed_again(p4d_net *m, const p4d_layer *y, const p4d_projection *p, p4d_gathering *to,
			p4d_error *err)
{
	void *kept = y->activation[p->normed], *normed = kept ? kept : p4d_buffers_at(m, B_NORM_OUT);

	if (!p4d_layer__has_norm(y, p))
		return gather(m, y->activation[p->input], to, err);
	if (p4d_norm__forward(m, p->norm, y->number, normed, y->activation[p->rstd], y->activation[p->input],
			      err) < 0)
		return -1;
	return gather(m, normed, to, err);
}

int p4d_layer__normed(p4d_net *m, const p4d_layer *y, const p4d_projection *p, p4d_gathering *to,
		      p4d_error *err)
{
	const void *kept = y->activation[p->normed];

	return kept ? gather(m, kept, to, err) : normed_again(m, y, p, to, err);
}

void *p4d_layer__product(const p4d_net *m, const p4d_layer *y)
{
	void *kept = y->activation[ACT_PRODUCT];

	return kept ? kept : p4d_buffers_at(m, B_FFN_ACT);
}

static void activate(p4d_net *m, void *act, const void *gate_up)
{
	if (m->l->activation == P4D_SWIGLU_ACTIVATION)
		m->d->swiglu(m->d, m->type, act, gate_up, m->n, m->f);
	else if (m->l->activation == P4D_GEGLU)
		m->d->geglu(m->d, m->type, act, gate_up, m->n, m->f);
	else
		m->d->gelu(m->d, m->type, act, gate_up, m->n, m->f);
}

void p4d_layer__activate_back(p4d_net *m, void *gate_up, void *act, const void *dact)
{
	if (m->l->activation == P4D_SWIGLU_ACTIVATION)
		m->d->swiglu_backward(m->d, m->type, gate_up, act, dact, m->n, m->f);
	else if (m->l->activation == P4D_GEGLU)
		m->d->geglu_backward(m->d, m->type, gate_up, act, dact, m->n, m->f);
	else
		m->d->gelu_backward(m->d, m->type, gate_up, act, dact, m->n, m->f);
}

/*
 * The input of the feed-forward layer's last matmul. Computes the activation, unless the matmul computes it
 * while it quantizes.
 */
static p4d_product_input activated(p4d_net *m, const p4d_layer *y)
{
	p4d_product_input x = {.kept = y->activation[ACT_PRODUCT_CODES]};

	if (p4d_product__fuses(m)) {
		x.gate_up = y->activation[ACT_GATE_UP];
		return x;
	}
	activate(m, p4d_layer__product(m, y), y->activation[ACT_GATE_UP]);
	x.rows = p4d_layer__product(m, y);
	return x;
}

/*
 * The last matmul of a block, with its bias. norm: the norm after it, if the model has one; output: the
 * stored input of that norm.
 */
typedef struct block_end {
	p4d_weight_kind weight, bias, norm;
	p4d_activation output, rstd;
} block_end;

static const block_end attention_end = {P4D_W_OUTPUT, P4D_W_OUTPUT_BIAS, P4D_W_ATTENTION_POST_NORM,
					ACT_ATTENTION_OUTPUT, ACT_ATTENTION_OUTPUT_RSTD};
static const block_end ffn_end = {P4D_W_DOWN, P4D_W_DOWN_BIAS, P4D_W_FFN_POST_NORM, ACT_FFN_OUTPUT,
				  ACT_FFN_OUTPUT_RSTD};

/* The rows of x (n, in) from `first` on. */
static p4d_product_input from_row(const p4d_net *m, const p4d_product_input *x, uint64_t first, uint64_t in)
{
	p4d_product_input part = *x;

	if (x->rows)
		part.rows = (const char *)x->rows + first * in * m->element;
	return part;
}

/* to (ns, h) = x (n, in) * weight (h, in)^T + bias, summed over tp */
static int product(p4d_net *m, void *to, const p4d_product_input *x, const block_end *end, uint32_t layer,
		   uint64_t in, p4d_error *err)
{
	const void *bias = p4d_buffers__weight(m, end->bias, layer);
	char *partial = p4d_parallel__partial(m, to);

	for (unsigned i = 0; i < m->parts; i++) {
		const p4d_token_part part = p4d_parallel__part(m, i);
		const p4d_product_input of = from_row(m, x, part.first, in);
		void *sums = partial + part.first * m->h * m->element;
		p4d_product__forward(m, end->weight, layer, sums, NULL, &of, part.count, m->h, in);
		p4d_adapters__add(m, end->weight, layer, sums, of.rows, part);
		if (p4d_parallel__reduce_part(m, to, i, err) < 0)
			return -1;
	}
	if (p4d_parallel__reduced(m, err) < 0)
		return -1;
	if (bias)
		m->d->add_bias(m->d, m->type, to, bias, m->ns, m->h);
	return 0;
}

/* to (ns, h) = residual + the result of a block's last matmul on x (n, in) */
static int add_end(p4d_net *m, void *to, const void *residual, const p4d_product_input *x,
		   const block_end *end, const p4d_layer *y, uint64_t in, p4d_error *err)
{
	void *sum = p4d_buffers_at(m, B_NORM_OUT), *output = y->activation[end->output];

	const float factor = (float)m->l->factor.residual;

	if (m->l->tp == 1 && !output && !p4d_scales(factor) &&
	    !p4d_buffers__weight(m, end->bias, y->number)) {
		p4d_product__forward(m, end->weight, y->number, to, residual, x, m->n, m->h, in);
		p4d_adapters__add(m, end->weight, y->number, to, x->rows, (p4d_token_part){0, m->n});
		return 0;
	}
	if (product(m, output ? output : sum, x, end, y->number, in, err) < 0)
		return -1;
	if (output &&
	    p4d_norm__forward(m, end->norm, y->number, sum, y->activation[end->rstd], output, err) < 0)
		return -1;
	if (p4d_scales(factor))
		m->d->add_scaled(m->d, m->type, to, residual, sum, factor, m->ns * m->h);
	else
		m->d->add(m->d, m->type, to, residual, sum, m->ns * m->h);
	return 0;
}

/*
 * Computes the norm, and the matmul of its result with the matrix (out, h). Processes each part of the tokens
 * as soon as it is gathered.
 */
static int project(p4d_net *m, const p4d_layer *y, const p4d_projection *p, uint64_t out, p4d_error *err)
{
	p4d_gathering x;

	if (normed_again(m, y, p, &x, err) < 0)
		return -1;
	for (unsigned i = 0; i < m->parts; i++) {
		const p4d_token_part part = p4d_parallel__part(m, i);
		const p4d_product_input rows = {.rows = (const char *)x.rows + part.first * m->h * m->element,
						.kept = y->activation[p->codes]};
		void *to = (char *)y->activation[p->output] + part.first * out * m->element;
		if (p4d_parallel__gathered(m, &x, i, err) < 0)
			return -1;
		p4d_product__forward(m, p->weight, y->number, to, NULL, &rows, part.count, out, m->h);
		p4d_adapters__add(m, p->weight, y->number, to, rows.rows, part);
	}
	return p4d_parallel__sum_features(m, y->activation[p->output], out, err);
}

static int attention_part(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_heads heads = p4d_attention__heads_of(m, y);
	const p4d_product_input x = {.rows = y->activation[ACT_ATTENTION],
				     .kept = y->activation[ACT_ATTENTION_CODES]};

	if (project(m, y, &p4d_layer__qkv, m->columns, err) < 0)
		return -1;
	if (p4d_attention__sum_heads(m, y->activation[ACT_QK_RSTD], y->activation[ACT_QKV],
				     y->activation[ACT_QKV], &heads, err) < 0)
		return -1;
	m->d->heads(m->d, m->type, y->activation[ACT_QKV], y->activation[ACT_QK_RSTD], &heads);
	if (p4d_attention__forward(m, y, err) < 0)
		return -1;
	return add_end(m, y->activation[ACT_POST_ATTENTION], y->activation[ACT_INPUT], &x, &attention_end, y,
		       m->q, err);
}

static int gate_up(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const void *bias = p4d_buffers__weight(m, P4D_W_UP_BIAS, y->number);

	if (project(m, y, &p4d_layer__gate_up, m->up, err) < 0)
		return -1;
	if (bias)
		m->d->add_bias(m->d, m->type, y->activation[ACT_GATE_UP], bias, m->n, m->up);
	return 0;
}

int p4d_layer_forward(p4d_net *m, const p4d_layer *y, void *output, p4d_error *err)
{
	if (attention_part(m, y, err) < 0 || gate_up(m, y, err) < 0)
		return -1;
	const p4d_product_input x = activated(m, y);
	return add_end(m, output, y->activation[ACT_POST_ATTENTION], &x, &ffn_end, y, m->f, err);
}

/* Computes the input of the norm after the feed-forward layer, and its statistics. */
static int ffn_output(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_product_input x = activated(m, y);
	void *output = y->activation[ACT_FFN_OUTPUT];

	if (product(m, output, &x, &ffn_end, y->number, m->f, err) < 0)
		return -1;
	return p4d_norm__forward(m, P4D_W_FFN_POST_NORM, y->number, p4d_buffers_at(m, B_NORM_OUT),
				 y->activation[ACT_FFN_OUTPUT_RSTD], output, err);
}

int p4d_layer__recompute(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	if ((y->lost || !p4d_buffers__keeps(m, ACT_QKV)) && attention_part(m, y, err) < 0)
		return -1;
	if (!y->lost && p4d_buffers__keeps(m, ACT_GATE_UP))
		return 0;
	if (gate_up(m, y, err) < 0)
		return -1;
	/*
	 * Layers keep the product or its codes only if they keep everything, so nothing else is missing here.
	 */
	if (y->activation[ACT_PRODUCT] || y->activation[ACT_PRODUCT_CODES]) {
		const p4d_product_input x = activated(m, y);
		p4d_product__keep(m, &x, m->f);
	}
	return y->activation[ACT_FFN_OUTPUT] ? ffn_output(m, y, err) : 0;
}
