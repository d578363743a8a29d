/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every product and attention once, before anything is queued that waits for other ranks: a library chooses
 * how it computes a shape, and loads the code, at the first of its kind, and that may need an idle device.
 */
#include "trainer/trainer_parts.h"

/* With whatever lies in the arena, which nothing has been put into yet. */
void p4d_warm_product(p4d_trainer *t, const void *weight, float *gradient, uint64_t n, uint64_t out,
		      uint64_t in, bool logits)
{
	void *any = t->arena;

	if (logits)
		t->d->linear_logits(t->d, t->type, any, any, weight, n, out, in);
	else
		t->d->linear(t->d, t->type, any, any, weight, n, out, in, false);
	t->d->linear_input(t->d, t->type, any, any, weight, n, out, in, false);
	t->d->linear_weight(t->d, t->type, gradient, any, any, n, out, in);
}

int p4d_warm_up(p4d_trainer *t, p4d_error *err)
{
	const uint32_t layer = t->weights.segment[0].layer;
	const struct {
		p4d_weight_kind kind;
		uint64_t out, in;
	} products[] = {
	    {P4D_W_QKV, t->columns, t->h},
	    {P4D_W_OUTPUT, t->h, t->q},
	    {P4D_W_GATE_UP, 2 * t->f, t->h},
	    {P4D_W_DOWN, t->h, t->f},
	};

	if (!t->d->identity[0]) /* the host's memory, and its code */
		return 0;
	for (int i = 0; i < 4; i++)
		p4d_warm_product(t, p4d_weight_of(t, products[i].kind, layer),
				 p4d_gradient_of(t, products[i].kind, layer), t->n, products[i].out,
				 products[i].in, false);
	p4d_warm_head(t);
	p4d_warm_attention(t);
	return t->d->sync(t->d, err);
}
