/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's scaled_dot_product_attention, which does not store scores. */
#include "framework/transformers.h"

static uint64_t up_to(uint64_t x, uint64_t unit)
{
	return (x + unit - 1) / unit * unit;
}

/*
 * cuDNN's result has the layout of the queries (MHA.cpp, alloc_with_matching_layout). A concatenation makes
 * queries head by head, and the next matmul needs its input token by token: a copy, which it saves.
 */
static p4d_tape_tensor by_token(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const p4d_rotated share = l->positions ? P4D_ROTATED_NOT : l->architecture->rotated;

	if (l->flash_attention != P4D_CUDNN || l->kv_rank || !share || share == P4D_ROTATED_WHOLE)
		return x;
	const p4d_tape_tensor copy = p4d_op_made(w, x.elements, x.element, p4d_op_needs(w, x));
	p4d_op_append(w, x, copy, P4D_SAME_GRADIENT);
	return copy;
}

p4d_tape_tensor p4d_transformers__fused(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k,
					p4d_tape_tensor v)
{
	const p4d_layout *l = w->layout;
	const bool efficient = w->masked || l->kv_rank; /* in latent attention, values are narrower than
							 * keys */
	const uint64_t statistics = w->rows * w->heads * up_to(w->length, efficient ? 32 : 1) * 4;
	const uint64_t mask = w->rows * w->length * w->length;

	if (w->autocast) {
		q = p4d_op_cast(w, q, 2);
		k = p4d_op_cast(w, k, 2);
		v = p4d_op_cast(w, v, 2);
	}
	if (w->masked && w->kv_heads < w->heads && !l->architecture->broadcasts_keys) { /* repeat_kv */
		const p4d_tape_tensor wide = {.elements = q.elements, .element = k.element};
		p4d_tape_tensor y = p4d_op_made(w, wide.elements, k.element, p4d_op_needs(w, k));
		p4d_op_append(w, k, y, P4D_NEW_GRADIENT);
		k = y;
		y = p4d_op_made(w, wide.elements, v.element, p4d_op_needs(w, v));
		p4d_op_append(w, v, y, P4D_NEW_GRADIENT);
		v = y;
	}
	const p4d_tape_tensor out =
	    p4d_op_made(w, l->kv_rank ? v.elements : q.elements, q.element,
			p4d_op_needs(w, q) || p4d_op_needs(w, k) || p4d_op_needs(w, v));
	p4d_tape_operation *o = p4d_op_append(w, q, out, P4D_NEW_GRADIENT);
	o->in[1] = k.value;
	o->in[2] = v.value;
	o->gradient[1] = o->gradient[2] = P4D_NEW_GRADIENT;
	if (!p4d_op_needs(w, out)) {
		o->scratch = statistics + (w->masked ? mask * 3 : 0);
		return efficient ? out : by_token(w, out);
	}
	const short saved[] = {q.value, k.value, v.value, out.value};
	for (int i = 0; i < 4; i++)
		o->saved[i] = saved[i];
	o->kept = statistics;
	if (w->masked) {
		o->kept += mask * q.element; /* convert_boolean_attn_mask, for each layer */
		o->scratch = mask;
	}
	if (efficient) {
		o->back_scratch = statistics;
		return out;
	}
	/* flash_api.cpp: dq in fp32, row sums, keys and values of all query heads */
	o->back_scratch = 4 * w->rows * w->heads * up_to(w->length, 128) * (up_to(l->head_dim, 32) + 1);
	if (w->kv_heads < w->heads)
		o->back_scratch += 2 * q.elements * q.element;
	return by_token(w, out);
}
