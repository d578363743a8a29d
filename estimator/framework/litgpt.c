/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LitGPT's modules as tapes (litgpt/model.py, lora.py, utils.py of release 0.4): one matmul for queries, keys
 * and values; adapters with dropout; tables that are never tied; and a loss in chunks of 128 tokens whose
 * logits all stay allocated. Compared with the memory that its finetune recipes published.
 */
#include "framework/transformers.h"

/*
 * The adapter branch of LoRALinear: dropout, two matmuls and a multiplication. columns: columns of the
 * branch's result.
 */
static p4d_tape_tensor adapter(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t rank,
			       uint64_t columns)
{
	p4d_tape_tensor y = p4d_op_map(w, x, false, false);

	p4d_op_last(w)->kept = x.elements; /* dropout's mask */
	y = p4d_op_product(w, y, in, rank, w->weight, true);
	y = p4d_op_product(w, y, rank, columns, w->weight, true);
	return p4d_op_map(w, y, false, false);
}

/*
 * A matmul with a quantized weight keeps its input, with 4 bytes per element. p4d derived this from LitGPT's
 * published recipes, by comparing those with bitsandbytes 0.42 and those without it. first: no earlier matmul
 * has kept this input.
 */
static p4d_tape_tensor linear(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out, bool first)
{
	if (w->layout->quant == P4D_QUANT_NONE)
		return p4d_op_product(w, x, in, out, w->weight, w->trains);
	const p4d_tape_tensor y = p4d_op_made(w, p4d_op_rows(w, x, in) * out, w->weight, p4d_op_needs(w, x));
	p4d_tape_operation *o = p4d_op_append(w, x, y, P4D_NEW_GRADIENT);
	o->kept = p4d_op_needs(w, x) && first ? x.elements * 4 : 0;
	o->scratch = o->back_scratch = in * out * 2;
	return y;
}

static p4d_tape_tensor adapted(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out, bool first,
			       unsigned target)
{
	const p4d_layout *l = w->layout;
	const p4d_tape_tensor y = linear(w, x, in, out, first);

	if (l->finetune == P4D_TUNE_FULL || !(l->lora.targets & target))
		return y;
	return p4d_op_plus(w, y, adapter(w, x, in, l->lora.rank, out));
}

/*
 * LoRAQKVLinear: the results of adapters for queries, keys or values are concatenated and padded with zeros
 * to the width of the matmul.
 */
static p4d_tape_tensor queries_keys_values(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t A = l->heads * l->head_dim, G = l->kv_heads * l->head_dim;
	const unsigned of = l->finetune == P4D_TUNE_FULL ? 0 : l->lora.targets;
	const unsigned parts = !!(of & P4D_TARGET_Q) + !!(of & P4D_TARGET_K) + !!(of & P4D_TARGET_V);
	const uint64_t columns =
	    (of & P4D_TARGET_Q ? A : 0) + (of & P4D_TARGET_K ? G : 0) + (of & P4D_TARGET_V ? G : 0);
	const p4d_tape_tensor y = linear(w, x, l->hidden, A + 2 * G, true);

	if (!parts)
		return y;
	p4d_tape_tensor z = p4d_op_map(w, x, false, false);
	p4d_op_last(w)->kept = x.elements;
	z = p4d_op_product(w, z, l->hidden, parts * l->lora.rank, w->weight, true);
	z = p4d_op_product(w, z, parts * l->lora.rank, columns, w->weight, true); /* a grouped convolution */
	if (parts < 3) {
		const p4d_tape_tensor padded = p4d_op_made(w, y.elements, z.element, true);
		p4d_op_append(w, z, padded, P4D_NEW_GRADIENT);
		z = padded;
	}
	return p4d_op_plus(w, y, p4d_op_map(w, z, false, false));
}

/*
 * apply_rope, whose cosines and sines are fp32. A copy then appends the part of each head that is not
 * rotated.
 */
static p4d_tape_tensor rotated(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_tape_tensor straight = p4d_op_cast(w, x, 4),
			      turned = p4d_op_map(w, p4d_op_map(w, x, false, false), false, false);
	const p4d_tape_tensor sum =
	    p4d_op_cast(w, p4d_op_plus(w, straight, p4d_op_cast(w, turned, 4)), x.element);

	return p4d_op_map(w, sum, false, false);
}

static p4d_tape_tensor fused(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k, p4d_tape_tensor v)
{
	const p4d_layout *l = w->layout;
	const p4d_tape_tensor out = p4d_op_made(w, q.elements, q.element, p4d_op_needs(w, q));
	p4d_tape_operation *o = p4d_op_append(w, q, out, P4D_NEW_GRADIENT);
	const short saved[] = {q.value, k.value, v.value, out.value};

	o->in[1] = k.value;
	o->in[2] = v.value;
	o->gradient[1] = o->gradient[2] = P4D_NEW_GRADIENT;
	for (int i = 0; i < 4 && p4d_op_needs(w, out); i++)
		o->saved[i] = saved[i];
	o->kept = w->rows * l->heads * w->length * 4;
	o->back_scratch = 4 * q.elements; /* flash_api.cpp: gradient of the queries in fp32 */
	return out;
}

static p4d_tape_tensor attention(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t A = l->heads * l->head_dim, queries = w->tokens * A;
	const p4d_tape_tensor all = queries_keys_values(w, x);
	p4d_tape_tensor q = p4d_op_view(w, all, queries),
			k = p4d_op_view(w, all, w->tokens * l->kv_heads * l->head_dim),
			v = p4d_op_view(w, all, k.elements);
	p4d_tape_operation *o = p4d_op_append(w, all, q, P4D_NEW_GRADIENT);

	o->others[0] = k.value;
	o->others[1] = v.value;
	if (l->kv_heads <
	    l->heads) { /* keys and values are expanded to all heads, and copied to be contiguous */
		p4d_tape_tensor *const parts[] = {&q, &k, &v};
		for (int i = 0; i < 3; i++) {
			const p4d_tape_tensor wide =
			    p4d_op_made(w, queries, all.element, p4d_op_needs(w, all));
			p4d_op_append(w, *parts[i], wide, P4D_NEW_GRADIENT);
			*parts[i] = wide;
		}
	}
	q = rotated(w, q);
	k = rotated(w, k);
	const p4d_tape_tensor y =
	    l->architecture->attention_cap > 0 ? p4d_transformers__eager(w, q, k, v) : fused(w, q, k, v);
	p4d_op_hold(w, all);
	p4d_op_hold(w, x);
	return adapted(w, y, A, l->hidden, true, P4D_TARGET_O);
}

/* shared: attention reads the same input, so it is already kept. */
static p4d_tape_tensor mlp(p4d_tape_writer *w, p4d_tape_tensor x, bool shared)
{
	const p4d_layout *l = w->layout;
	p4d_tape_tensor y = adapted(w, x, l->hidden, l->ffn, !shared, P4D_TARGET_UP);

	if (l->glu) {
		const p4d_tape_tensor up = adapted(w, x, l->hidden, l->ffn, false, P4D_TARGET_UP);
		const p4d_tape_tensor gate = y;
		y = p4d_op_times(w, p4d_op_map(w, y, true, false), up);
		p4d_op_hold(w, gate);
		p4d_op_hold(w, up);
	} else {
		y = p4d_op_map(w, y, true, false);
	}
	y = adapted(w, y, l->ffn, l->hidden, true, P4D_TARGET_DOWN);
	p4d_op_hold(w, x);
	return y;
}

static void layer(p4d_tape_writer *w, bool needs_gradient)
{
	const p4d_layout *l = w->layout;
	const bool after = l->architecture->place != P4D_NORMS_BEFORE;
	const p4d_tape_tensor x = p4d_op_begin(w, l->hidden, w->stream, needs_gradient);
	const p4d_tape_tensor first = p4d_transformers__norm(w, x, l->hidden);
	p4d_tape_tensor y = attention(w, first);

	if (l->architecture->parallel) {
		const bool shared = l->architecture->norms == 1;
		const p4d_tape_tensor z =
		    mlp(w, shared ? first : p4d_transformers__norm(w, x, l->hidden), shared);
		p4d_op_plus(w, p4d_op_plus(w, z, y), x);
		return;
	}
	y = p4d_op_plus(w, after ? p4d_transformers__norm(w, y, l->hidden) : y, x);
	p4d_tape_tensor z = mlp(w, p4d_transformers__norm(w, y, l->hidden), false);
	p4d_op_plus(w, after ? p4d_transformers__norm(w, z, l->hidden) : z, y);
}

/*
 * Logits leave the model in fp32 (Fabric's convert_output). The training loop refers to them until it has the
 * next logits, so the previous step's logits exist while new ones are computed. The log-softmax of all chunks
 * stays allocated, while gradients are computed chunk by chunk.
 */
static void end(p4d_tape_writer *w)
{
	enum { CHUNK = 128 };
	const p4d_layout *l = w->layout;
	const uint64_t chunks = (w->length + CHUNK - 1) / CHUNK;
	const p4d_tape_tensor x = p4d_op_begin(w, l->hidden, w->stream, true);
	const p4d_tape_tensor y = p4d_transformers__norm(w, x, l->hidden);
	const p4d_tape_tensor logits = linear(w, y, l->hidden, l->vocab, true);
	const bool adapters = l->finetune != P4D_TUNE_FULL;
	const p4d_tape_tensor wide = p4d_op_cast(w, logits, 4);
	p4d_op_last(w)->scratch = wide.elements * 4; /* logits of the previous step */

	p4d_op_hold(w, logits);
	const p4d_tape_tensor logarithms = p4d_op_map(w, wide, false, true);
	p4d_tape_operation *o = p4d_op_last(w);
	if (!adapters) /* a copy of the logits without their last token */
		o->kept += wide.elements * 4;
	if (adapters && chunks > 1) { /* the gradients of all logits never exist at the same time */
		o->gradient[0] = P4D_SAME_GRADIENT;
		o->back_scratch = wide.elements / chunks * 8;
	}
	const p4d_tape_tensor loss = p4d_op_made(w, 1, 4, true);
	p4d_op_append(w, logarithms, loss, P4D_NEW_GRADIENT)->saved[0] = logarithms.value;
	p4d_op_hold(w, wide);
}

const p4d_transformers_tapes p4d_litgpt__tapes = {.layer = layer, .end = end, .unties = true};
