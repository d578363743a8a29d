/* SPDX-License-Identifier: Apache-2.0 */
/* torchtitan's experts (models/common/moe.py, token_dispatcher.py), appended by torchtitan_layer.c at the
 * end of a layer. */
#include "framework/torchtitan.h"
#include "request/routing.h"

enum { INDEX = 8 }; /* bytes */

/*
 * The router: scores of a token's experts, from an fp32 matmul. Autograd saves the indices of the chosen
 * experts, but neither the choice itself nor the groups of experts. A map of the chosen experts lives until
 * the end of the layer.
 */
static p4d_tape_tensor router(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor *chosen_map)
{
	const p4d_layout *l = w->layout;
	const uint64_t tokens = x.elements / l->hidden;
	const uint64_t chosen = tokens * l->experts_per_token, all = tokens * l->experts;
	const p4d_tape_tensor logits =
	    p4d_op_product(w, p4d_op_cast(w, x, 4), l->hidden, l->experts, w->weight, true);
	p4d_tape_operation *o = p4d_op_last(w);

	if (w->weight < 4)
		o->copy = o->lowered = l->experts * l->hidden * 4; /* the weight, cast to fp32 */
	const p4d_tape_tensor scores = p4d_op_map(w, logits, false, true);
	const p4d_tape_tensor indices = p4d_op_made(w, chosen, INDEX + 4, false);
	o = p4d_op_append(w, scores, indices, P4D_NO_GRADIENT);
	o->scratch = all * 4; /* the scores with the experts' bias */
	o->stays = p4d_torchtitan__selects(w);
	o->saved[0] = indices.value;
	const p4d_tape_tensor top = p4d_op_made(w, chosen, 4, true);
	p4d_op_append(w, scores, top, P4D_NEW_GRADIENT)->kept =
	    2 * chosen * 4; /* the scores, normalized and scaled */
	*chosen_map = p4d_op_made(w, all, 1, false);
	p4d_op_append(w, indices, *chosen_map, P4D_NO_GRADIENT);
	p4d_op_hold(w, scores);
	return top;
}

/* A tensor of row indices, which several operations save. */
static p4d_tape_tensor indices_of(p4d_tape_writer *w, uint64_t rows)
{
	const p4d_tape_tensor out = p4d_op_made(w, rows, INDEX, false);

	p4d_op_append(w, (p4d_tape_tensor){.value = -1}, out, P4D_NO_GRADIENT);
	return out;
}

/* Copies rows in another order. Autograd saves their indices. */
static p4d_tape_tensor rows_of(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t rows, uint64_t columns)
{
	const p4d_tape_tensor out = p4d_op_made(w, rows * columns, x.element, true);

	p4d_op_append(w, x, out, P4D_NEW_GRADIENT)->kept = rows * INDEX;
	return out;
}

static p4d_tape_tensor exchanged(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_made(w, elements, x.element, true);

	p4d_op_append(w, x, out, P4D_NEW_GRADIENT)->stays = p4d_torchtitan__keeps_received(w);
	return out;
}

static p4d_tape_tensor grouped(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out)
{
	const p4d_tape_tensor y = p4d_op_made(w, p4d_op_rows(w, x, in) * out, x.element, true);
	p4d_tape_operation *o = p4d_op_append(w, x, y, P4D_NEW_GRADIENT);

	o->saved[0] = x.value;
	o->weight = w->layout->experts / w->layout->ep * in * out * w->weight;
	return y;
}

/*
 * Multiplies each row by its score, in fp32. In the backward pass the scores' gradients have this size before
 * they are summed.
 */
static p4d_tape_tensor scored(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor scores)
{
	const p4d_tape_tensor wide = p4d_op_cast(w, x, 4);
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, 4, true);
	p4d_tape_operation *o = p4d_op_append(w, wide, out, P4D_NEW_GRADIENT);

	o->in[1] = scores.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	o->saved[0] = wide.value;
	o->saved[1] = scores.value;
	o->back_scratch = x.elements * 4;
	return p4d_op_cast(w, out, x.element);
}

/*
 * Tokens are copied for each expert, exchanged if experts are on other ranks, and there sorted by expert
 * again. Results go the same way back, are multiplied by their scores, and are added to a tensor of zeros.
 */
static p4d_tape_tensor routed(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor scores)
{
	const p4d_layout *l = w->layout;
	const p4d_routed t = p4d_routed_of(l, x.elements / l->hidden);
	/* without ep, tensor parallelism shards each expert */
	const uint64_t h = l->hidden, F = p4d_torchtitan__expert_columns(l), permuted = (uint64_t)t.permuted,
		       received = (uint64_t)t.received;
	const p4d_tape_tensor own = rows_of(w, scores, permuted, 1);
	const p4d_tape_tensor indices = indices_of(w, permuted);
	const p4d_tape_tensor copies = p4d_op_made(w, permuted * h, x.element, true);
	p4d_op_append(w, x, copies, P4D_NEW_GRADIENT)->saved[0] = indices.value;
	p4d_tape_tensor in = copies;

	if (l->ep > 1) {
		in = exchanged(w, copies, received * h);
		in = rows_of(w, in, received, h);
	}
	p4d_op_hold(w, copies);
	const p4d_tape_tensor gate = p4d_op_map(w, grouped(w, in, h, F), true, false);
	p4d_tape_tensor y = p4d_op_times(w, gate, grouped(w, in, h, F));
	const p4d_tape_tensor out = grouped(w, y, F, h);
	y = out;
	if (l->ep > 1) {
		const p4d_tape_tensor back = p4d_op_made(w, y.elements, y.element, true);
		p4d_op_append(w, y, back, P4D_NEW_GRADIENT);
		y = exchanged(w, back, copies.elements);
	}
	const p4d_tape_tensor zeros = p4d_op_made(w, x.elements, x.element, false);
	p4d_op_append(w, (p4d_tape_tensor){.value = -1}, zeros, P4D_NO_GRADIENT);
	const p4d_tape_tensor weighted = scored(w, y, own);
	p4d_op_hold(w, y);
	const p4d_tape_tensor sum = p4d_op_made(w, x.elements, x.element, true);
	p4d_op_append(w, weighted, sum, P4D_NEW_GRADIENT)->saved[0] = indices.value;
	const p4d_tape_tensor named[] = {in, out, zeros, own, indices};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return sum;
}

/* With ep, each tensor-parallel rank routes its own tokens. */
p4d_tape_tensor p4d_torchtitan__experts(p4d_torchtitan_writer *t, p4d_tape_tensor own)
{
	p4d_tape_writer *w = &t->w;
	const bool exchanges = w->layout->ep > 1;
	const p4d_tape_tensor x = exchanges ? own : p4d_torchtitan__whole(w, own);
	p4d_tape_tensor chosen;
	const p4d_tape_tensor scores = router(w, x, &chosen);
	p4d_tape_tensor y = routed(w, x, scores);

	if (!exchanges)
		y = p4d_torchtitan__scattered(w, y);
	if (w->layout->shared_ffn)
		y = p4d_op_plus(w, y,
				p4d_torchtitan__feed_forward(t, exchanges ? p4d_torchtitan__whole(w, x) : x,
							     w->layout->shared_ffn));
	p4d_op_hold(w, scores);
	p4d_op_hold(w, chosen);
	p4d_op_hold(w, x);
	p4d_op_hold(w, own);
	return y;
}
