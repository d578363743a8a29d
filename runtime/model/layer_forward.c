/* SPDX-License-Identifier: Apache-2.0 */
/* A layer forward, and its recomputation in the backward pass. */
#include "model/adapters.h"
#include "model/attention.h"
#include "model/buffers.h"
#include "model/layer.h"
#include "model/parallel.h"

const void *p4d_layer__norm_rows(p4d_net *m, const void *x, float *rstd, p4d_weight_kind norm, uint32_t layer,
				 p4d_error *err)
{
	void *norm_out = p4d_buffers_at(m, B_NORM_OUT);

	m->d->norm(m->d, m->type, norm_out, rstd, x, p4d_buffers__weight(m, norm, layer), m->ns, m->h,
		   m->set.norm_epsilon);
	return p4d_parallel__gather_rows(m, norm_out, p4d_buffers_at(m, B_GATHERED), err);
}

/* to (ns, h) = residual + x (n, in) * weight (h, in)^T, summed over tp */
static int add_product(p4d_net *m, void *to, const void *residual, const void *x, p4d_weight_kind weight,
		       uint32_t layer, uint64_t in, p4d_error *err)
{
	const void *w = p4d_buffers__weight(m, weight, layer);
	void *sum = p4d_buffers_at(m, B_NORM_OUT);

	if (m->l->tp == 1) {
		m->d->linear(m->d, m->type, to, residual, x, w, m->n, m->h, in);
		p4d_adapters__add(m, weight, layer, to, x);
		return 0;
	}
	void *partial = p4d_parallel__partial(m, NULL);
	m->d->linear(m->d, m->type, partial, NULL, x, w, m->n, m->h, in);
	p4d_adapters__add(m, weight, layer, partial, x);
	if (p4d_parallel__reduce_partial(m, sum, err) < 0)
		return -1;
	m->d->add(m->d, m->type, to, residual, sum, m->ns * m->h);
	return 0;
}

static int attention_part(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_heads heads = p4d_attention__heads_of(m, y);
	const void *x = p4d_layer__norm_rows(m, y->activation[ACT_INPUT], y->activation[ACT_INPUT_RSTD],
					     P4D_W_ATTENTION_NORM, y->number, err);

	if (!x)
		return -1;
	m->d->linear(m->d, m->type, y->activation[ACT_QKV], NULL, x,
		     p4d_buffers__weight(m, P4D_W_QKV, y->number), m->n, m->columns, m->h);
	p4d_adapters__add(m, P4D_W_QKV, y->number, y->activation[ACT_QKV], x);
	m->d->heads(m->d, m->type, y->activation[ACT_QKV], y->activation[ACT_QK_RSTD], &heads);
	if (p4d_attention__forward(m, y, err) < 0)
		return -1;
	return add_product(m, y->activation[ACT_POST_ATTENTION], y->activation[ACT_INPUT],
			   y->activation[ACT_ATTENTION], P4D_W_OUTPUT, y->number, m->q, err);
}

static int gate_up(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const void *x =
	    p4d_layer__norm_rows(m, y->activation[ACT_POST_ATTENTION], y->activation[ACT_POST_ATTENTION_RSTD],
				 P4D_W_FFN_NORM, y->number, err);

	if (!x)
		return -1;
	m->d->linear(m->d, m->type, y->activation[ACT_GATE_UP], NULL, x,
		     p4d_buffers__weight(m, P4D_W_GATE_UP, y->number), m->n, 2 * m->f, m->h);
	p4d_adapters__add(m, P4D_W_GATE_UP, y->number, y->activation[ACT_GATE_UP], x);
	return 0;
}

int p4d_layer_forward(p4d_net *m, const p4d_layer *y, void *output, p4d_error *err)
{
	void *ffn_act = p4d_buffers_at(m, B_FFN_ACT);

	if (attention_part(m, y, err) < 0 || gate_up(m, y, err) < 0)
		return -1;
	m->d->swiglu(m->d, m->type, ffn_act, y->activation[ACT_GATE_UP], m->n, m->f);
	return add_product(m, output, y->activation[ACT_POST_ATTENTION], ffn_act, P4D_W_DOWN, y->number, m->f,
			   err);
}

int p4d_layer__recompute(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	if (!p4d_buffers__keeps(m, ACT_QKV) && attention_part(m, y, err) < 0)
		return -1;
	return p4d_buffers__keeps(m, ACT_GATE_UP) ? 0 : gate_up(m, y, err);
}
