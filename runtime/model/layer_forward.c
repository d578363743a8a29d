/* SPDX-License-Identifier: Apache-2.0 */
/* A layer forward, from its input to its output, and again in the backward pass. */
#include "trainer/trainer_parts.h"

const void *p4d_normed_rows(p4d_trainer *t, const void *x, float *rstd, p4d_weight_kind norm, uint32_t layer,
			    p4d_error *err)
{
	void *normed = p4d_at(t, B_NORMED);

	t->d->norm(t->d, t->type, normed, rstd, x, p4d_weight_of(t, norm, layer), t->ns, t->h,
		   t->set.norm_epsilon);
	return p4d_gather_rows(t, normed, p4d_at(t, B_GATHERED), err);
}

/* to (ns, h) = residual + x (n, in) * weight (h, in)^T, summed over tp */
static int add_product(p4d_trainer *t, void *to, const void *residual, const void *x, p4d_weight_kind weight,
		       uint32_t layer, uint64_t in, p4d_error *err)
{
	const void *w = p4d_weight_of(t, weight, layer);
	void *sum = p4d_at(t, B_NORMED);

	if (t->l->tp == 1) {
		t->d->copy(t->d, to, residual, t->ns * t->h * t->element);
		t->d->linear(t->d, t->type, to, x, w, t->n, t->h, in, true);
		return 0;
	}
	t->d->linear(t->d, t->type, p4d_terms(t, NULL), x, w, t->n, t->h, in, false);
	if (p4d_add_terms(t, sum, err) < 0)
		return -1;
	t->d->add(t->d, t->type, to, residual, sum, t->ns * t->h);
	return 0;
}

static int attention_part(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const p4d_heads heads = p4d_heads_of(t, y);
	const void *x = p4d_normed_rows(t, y->made[MADE_INPUT], y->made[MADE_INPUT_RSTD],
					P4D_W_ATTENTION_NORM, y->number, err);

	if (!x)
		return -1;
	t->d->linear(t->d, t->type, y->made[MADE_QKV], x, p4d_weight_of(t, P4D_W_QKV, y->number), t->n,
		     t->columns, t->h, false);
	t->d->heads(t->d, t->type, y->made[MADE_QKV], y->made[MADE_QK_RSTD], &heads);
	if (p4d_attend(t, y, err) < 0)
		return -1;
	return add_product(t, y->made[MADE_MIDDLE], y->made[MADE_INPUT], y->made[MADE_ATTENTION],
			   P4D_W_OUTPUT, y->number, t->q, err);
}

static int gate_up(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const void *x = p4d_normed_rows(t, y->made[MADE_MIDDLE], y->made[MADE_MIDDLE_RSTD], P4D_W_FFN_NORM,
					y->number, err);

	if (!x)
		return -1;
	t->d->linear(t->d, t->type, y->made[MADE_GATE_UP], x, p4d_weight_of(t, P4D_W_GATE_UP, y->number),
		     t->n, 2 * t->f, t->h, false);
	return 0;
}

int p4d_layer_forward(p4d_trainer *t, const p4d_layer *y, void *output, p4d_error *err)
{
	void *product = p4d_at(t, B_PRODUCT);

	if (attention_part(t, y, err) < 0 || gate_up(t, y, err) < 0)
		return -1;
	t->d->swiglu(t->d, t->type, product, y->made[MADE_GATE_UP], t->n, t->f);
	return add_product(t, output, y->made[MADE_MIDDLE], product, P4D_W_DOWN, y->number, t->f, err);
}

int p4d_layer_recompute(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	if (!t->kept[MADE_QKV] && attention_part(t, y, err) < 0)
		return -1;
	return t->kept[MADE_GATE_UP] ? 0 : gate_up(t, y, err);
}
