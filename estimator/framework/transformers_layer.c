/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, layers and the end of transformers' models. */
#include "framework/transformers.h"
#include "request/class_loss.h"

static p4d_tape_tensor with_angles(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const unsigned element =
	    x.element > w->stream
		? x.element
		: w->stream; /* the cosines and sines have the type of the residual stream */
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, element, p4d_op_needs(w, x));
	p4d_op_append(w, x, out, P4D_NEW_GRADIENT);
	return out;
}

/* gpt-oss's _apply_rotary_emb, which rotates the two halves of a head as separate tensors. */
static p4d_tape_tensor rotated_by_halves(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_tape_tensor first = p4d_op_view(w, x, x.elements / 2),
			      second = p4d_op_view(w, x, x.elements / 2);
	p4d_op_append(w, x, first, P4D_NEW_GRADIENT)->others[0] = second.value; /* chunk() */
	p4d_tape_tensor half[2];

	for (int i = 0; i < 2; i++) {
		const p4d_tape_tensor cosines = with_angles(w, i ? second : first);
		half[i] = p4d_op_plus(w, cosines, with_angles(w, i ? first : second));
		if (!i) /* in a difference, the second operand has a gradient of its own */
			p4d_op_last(w)->gradient[1] = P4D_NEW_GRADIENT;
	}
	const p4d_tape_tensor out = p4d_op_joined(w, half[0], half[1]);
	p4d_op_hold(w, half[0]);
	p4d_op_hold(w, half[1]);
	return out;
}

/* apply_rotary_pos_emb of one tensor: x * cos + rotate_half(x) * sin. */
static p4d_tape_tensor rotated(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_architecture *a = w->layout->architecture;
	const unsigned share = w->layout->positions ? P4D_ROTATED_NOT : a->rotated;
	const p4d_tape_tensor whole = x;

	if (!share)
		return x;
	if (a->attention_sinks)
		return rotated_by_halves(w, x);
	if (share < P4D_ROTATED_WHOLE)
		x = p4d_op_slice(w, x, x.elements * (share + share % 2) / 1000);
	const p4d_tape_tensor turned = with_angles(w, x);
	const p4d_tape_tensor first = p4d_op_slice(w, x, x.elements / 2),
			      second = p4d_op_slice(w, x, x.elements / 2);
	p4d_tape_tensor half = p4d_op_map(w, second, false, false);
	half = with_angles(w, p4d_op_joined(w, half, first));
	p4d_tape_tensor y = p4d_op_plus(w, turned, half);
	if (share < P4D_ROTATED_WHOLE)
		y = p4d_op_joined(w, y, p4d_op_slice(w, whole, whole.elements - x.elements));
	return y;
}

/*
 * RoPE on queries and keys. If the model's code casts them, it casts both before RoPE, and casts both back
 * after it.
 */
static void rotate(p4d_tape_writer *w, p4d_tape_tensor x[2])
{
	const p4d_architecture *a = w->layout->architecture;
	const bool back = a->rotates_in_fp32 || a->qk_norm == P4D_QK_NORM_WIDE || a->restores_rotated;
	const unsigned given = x[0].element;
	p4d_tape_tensor of[2] = {x[0], x[1]}, y[2];

	for (int i = 0; i < 2; i++)
		of[i] = a->rotates_in_fp32 ? p4d_op_cast(w, of[i], 4) : of[i];
	for (int i = 0; i < 2; i++)
		y[i] = rotated(w, of[i]);
	for (int i = 0; i < 2; i++)
		x[i] = back ? p4d_op_cast(w, y[i], given) : y[i];
	for (int i = 0; i < 2; i++) {
		p4d_op_hold(w, of[i]);
		p4d_op_hold(w, y[i]);
	}
}

/* Splits the result of one matmul into queries, keys and values, as views. */
static void split(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor *q, p4d_tape_tensor *k,
		  p4d_tape_tensor *v)
{
	const p4d_layout *l = w->layout;
	const uint64_t of_keys = w->tokens * l->kv_heads * l->head_dim,
		       of_queries = w->tokens * l->heads * l->head_dim;

	if (!l->architecture->splits_at_once) {
		*q = p4d_op_slice(w, x, of_queries);
		*k = p4d_op_slice(w, x, of_keys);
		*v = p4d_op_slice(w, x, of_keys);
		return;
	}
	*q = p4d_op_view(w, x, of_queries);
	*k = p4d_op_view(w, x, of_keys);
	*v = p4d_op_view(w, x, of_keys);
	p4d_tape_operation *o = p4d_op_append(w, x, *q, P4D_NEW_GRADIENT);
	o->others[0] = k->value;
	o->others[1] = v->value;
}

/* A norm of queries or keys, before or after their rotation. Its code refers to its input until the norm
 * is done. */
static p4d_tape_tensor normed(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t wide, bool is_rotated)
{
	const int norm = w->layout->qk_norm;

	if (!norm || w->layout->architecture->norms_rotated != is_rotated)
		return x;
	const p4d_tape_tensor y =
	    p4d_transformers__norm(w, x, norm == P4D_QK_NORM_WIDE ? wide : w->layout->head_dim);
	p4d_op_hold(w, x);
	return y;
}

static p4d_tape_tensor attention_of(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t A = l->heads * l->head_dim, G = l->kv_heads * l->head_dim;
	const bool gated = l->architecture->gated_attention;
	p4d_tape_tensor q, k, v, gate = x;

	if (l->kv_rank)
		return p4d_transformers__latent_attention(w, x);
	if (l->architecture->fused_qkv) {
		split(w, p4d_transformers__linear(w, x, l->hidden, A + 2 * G, P4D_TARGET_Q), &q, &k, &v);
	} else {
		q = p4d_transformers__linear(w, x, l->hidden, gated ? 2 * A : A, P4D_TARGET_Q);
		if (gated) { /* one chunk() call separates queries and gates, and the gate is copied to be
				contiguous */
			const p4d_tape_tensor own = p4d_op_view(w, q, w->tokens * A),
					      other = p4d_op_view(w, q, w->tokens * A);
			p4d_op_append(w, q, own, P4D_NEW_GRADIENT)->others[0] = other.value;
			gate = p4d_op_made(w, other.elements, other.element, p4d_op_needs(w, other));
			p4d_op_append(w, other, gate, P4D_SAME_GRADIENT);
			q = own;
		}
		if (l->architecture->scales_query)
			q = p4d_op_map(w, q, false, false);
		q = normed(w, q, A, false);
		k = normed(w, p4d_transformers__linear(w, x, l->hidden, G, P4D_TARGET_K), G, false);
		v = p4d_transformers__linear(w, x, l->hidden, G, P4D_TARGET_V);
	}
	if (l->architecture->fused_qkv) {
		q = normed(w, q, A, false);
		k = normed(w, k, G, false);
	}
	const p4d_tape_tensor whole_q = q, whole_k = k;
	p4d_tape_tensor both[2] = {q, k};
	rotate(w, both);
	q = normed(w, both[0], A, true);
	k = normed(w, both[1], G, true);
	p4d_op_hold(w, whole_q);
	p4d_op_hold(w, whole_k);
	p4d_tape_tensor y = l->flash_attention && l->architecture->attention_cap <= 0
				? p4d_transformers__fused(w, q, k, v)
				: p4d_transformers__eager(w, q, k, v);
	if (gated)
		y = p4d_op_times(w, y, p4d_op_map(w, gate, false, true));
	y = p4d_transformers__linear(w, y, A, l->hidden, P4D_TARGET_O);
	p4d_op_hold(w, gate);
	p4d_op_hold(w, q);
	p4d_op_hold(w, k);
	p4d_op_hold(w, v);
	p4d_op_hold(w, x);
	return p4d_transformers__dropped(w, y);
}

static p4d_tape_tensor scaled_branch(p4d_tape_writer *w, p4d_tape_tensor x)
{
	return w->layout->architecture->scales_residual ? p4d_op_map(w, x, false, false) : x;
}

static void parallel_layer(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const p4d_tape_tensor first = p4d_transformers__norm(w, x, l->hidden);
	const p4d_tape_tensor attention = attention_of(w, first);
	const p4d_tape_tensor second =
	    l->architecture->norms > 1 ? p4d_transformers__norm(w, x, l->hidden) : first;
	const p4d_tape_tensor mlp = p4d_transformers__mlp(w, second, l->ffn);

	p4d_op_plus(w, p4d_op_plus(w, attention, mlp), x);
	p4d_op_hold(w, attention);
	p4d_op_hold(w, mlp);
}

/* In BERT's layers, norms follow the residual sums. */
static void encoder_layer(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const uint64_t h = w->layout->hidden;
	const p4d_tape_tensor y = p4d_transformers__norm(w, p4d_op_plus(w, attention_of(w, x), x), h);
	const p4d_tape_tensor z = p4d_transformers__dropped(w, p4d_transformers__mlp(w, y, w->layout->ffn));

	p4d_transformers__norm(w, p4d_op_plus(w, z, y), h);
	p4d_op_hold(w, y);
}

static p4d_tape_tensor mixed(p4d_tape_writer *w, p4d_tape_tensor x, p4d_mixer mixer)
{
	return mixer == P4D_MIX_ATTENTION ? attention_of(w, x) : p4d_transformers__state(w, x, mixer);
}

static p4d_tape_tensor fed(p4d_tape_writer *w, p4d_tape_tensor x, p4d_feed feed)
{
	return feed == P4D_FEED_EXPERTS ? p4d_transformers__experts(w, x)
					: p4d_transformers__mlp(w, x, w->layout->ffn);
}

/* A layer with a single block (attention, a mixer or a feed-forward part), after a norm. */
static void single_block(p4d_tape_writer *w, p4d_tape_tensor x, p4d_layer_kind kind)
{
	const p4d_tape_tensor in = p4d_transformers__norm(w, x, w->layout->hidden);

	p4d_op_plus(w, x, kind.mixer == P4D_MIX_NONE ? fed(w, in, kind.feed) : mixed(w, in, kind.mixer));
}

static void layer(p4d_tape_writer *w, bool needs_gradient)
{
	const p4d_layout *l = w->layout;
	const p4d_layer_kind kind = p4d_transformers__parts(w->kind);
	const bool before = l->architecture->place != P4D_NORMS_AFTER,
		   after = l->architecture->place != P4D_NORMS_BEFORE;
	const p4d_tape_tensor x = p4d_op_begin(w, l->hidden, w->between, needs_gradient);

	if (l->architecture->kind == P4D_ENCODER) {
		encoder_layer(w, x);
		return;
	}
	if (l->architecture->parallel) {
		parallel_layer(w, x);
		return;
	}
	if (l->architecture->single_blocks) {
		single_block(w, x, kind);
		return;
	}
	p4d_tape_tensor y = mixed(w, before ? p4d_transformers__norm(w, x, l->hidden) : x, kind.mixer);
	y = p4d_op_plus(w, x, scaled_branch(w, after ? p4d_transformers__norm(w, y, l->hidden) : y));
	const p4d_tape_tensor in = before ? p4d_transformers__norm(w, y, l->hidden) : y;
	p4d_tape_tensor z = fed(w, in, kind.feed);
	z = p4d_transformers__dropped(w, z);
	p4d_op_plus(w, y, scaled_branch(w, after ? p4d_transformers__norm(w, z, l->hidden) : z));
	p4d_op_hold(w, y);
}

/*
 * Liger's fused head and loss (liger_kernel/ops/fused_linear_cross_entropy.py). The number of token chunks is
 * the vocabulary size divided by the hidden size. Each chunk has its logits and, in place, their gradient.
 * Gradients of the input and the head exist when the forward pass ends.
 */
static void chunked_end(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t parts = (l->vocab + l->hidden - 1) / l->hidden,
		       of_part = (w->tokens + parts - 1) / parts;
	const p4d_tape_tensor loss = p4d_op_made(w, 1, 4, true);
	p4d_tape_operation *o = p4d_op_append(w, x, loss, P4D_NEW_GRADIENT);
	uint64_t chunk = 1;

	while (chunk < of_part)
		chunk *= 2;
	chunk = chunk < w->tokens ? chunk : w->tokens;
	o->kept = x.elements * x.element;
	o->weight = w->trains ? l->vocab * l->hidden * w->weight : 0;
	/* the chunks' gradients of the weight are summed in fp32 */
	o->scratch = chunk * l->vocab * 2 + 2 * o->weight + (w->trains ? l->vocab * l->hidden * 4 : 0);
	p4d_op_hold(w, x);
}

/*
 * TRL 1.4 to 1.14 (_chunked_cross_entropy_loss): logits of 256 tokens at a time, in fp32, with their softmax
 * and entropy; each chunk is recomputed in the backward pass. Weights are cast to fp32, and autocast casts
 * them back. Gradients of chunks are summed. In addition to the sum, there are either two gradients in fp32,
 * or one gradient and the weights.
 */
static void trl_end(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t table = l->vocab * l->hidden,
		       chunk = (w->tokens < 256 ? w->tokens : 256) * l->vocab * 4;
	const uint64_t fp32 = w->weight < 4 ? 4 * table : 0, lowered = w->autocast ? 2 * table : 0;
	/* 4 tensors of a chunk's size: logits, logarithms, exponentials, products; 6 if logits are capped */
	const uint64_t chunks = (l->architecture->logit_cap > 0 ? 6 : 4) * chunk;
	const bool copies = w->rows > 1;
	const p4d_tape_tensor rows = copies ? p4d_op_map(w, x, false, false) : p4d_op_view(w, x, x.elements);

	if (!copies)
		p4d_op_append(w, x, rows, P4D_NEW_GRADIENT);
	const p4d_tape_tensor sorted = p4d_op_map(w, rows, false, false);
	p4d_tape_operation *o = p4d_op_append(w, sorted, p4d_op_made(w, 1, 4, true), P4D_NEW_GRADIENT);
	o->saved[0] = sorted.value;
	o->weight = w->trains ? table * w->weight : 0;
	o->scratch = P4D_MOST(fp32 + lowered + chunk, chunks);
	o->back_scratch = P4D_MOST(P4D_MOST(fp32 + lowered + chunk, (w->autocast ? lowered : fp32) + chunks),
				   w->trains ? 8 * table + (w->autocast ? 0 : chunk) : 0) +
			  sorted.elements * sorted.element;
	p4d_op_hold(w, x);
}

/*
 * TRL 1.15 and later (ChunkedLogProbFunction): logits are computed in tiles of 4096 tokens by 32768 words.
 * One buffer holds two tiles. Gradients are summed in fp32, and cast at the end.
 */
static void tiled_end(p4d_tape_writer *w, p4d_tape_tensor x)
{
	enum { TOKENS = 4096, WORDS = 32768, VECTORS = 12 };
	const p4d_layout *l = w->layout;
	const unsigned element = w->autocast ? 2 : x.element;
	const uint64_t tokens = w->tokens < TOKENS ? w->tokens : TOKENS,
		       words = l->vocab < WORDS ? l->vocab : WORDS, table = l->vocab * l->hidden;
	/* the buffer, and casts of a tile's input and weights */
	const uint64_t tile = tokens * WORDS * element +
			      (element < x.element ? tokens * l->hidden * element : 0) +
			      (element < w->weight ? words * l->hidden * element : 0);
	const p4d_tape_tensor rows = p4d_op_view(w, x, x.elements);
	p4d_op_append(w, x, rows, P4D_NEW_GRADIENT);
	const p4d_tape_tensor selected = p4d_op_map(w, rows, false, false);
	const p4d_tape_tensor loss = p4d_op_made(w, 1, 4, true);
	p4d_tape_operation *o = p4d_op_append(w, selected, loss, P4D_NEW_GRADIENT);

	o->saved[0] = selected.value;
	o->kept = w->tokens * 2 * 4;
	o->weight = w->trains ? table * w->weight : 0;
	o->scratch = tile + w->tokens * VECTORS * 4;
	o->back_scratch =
	    tile + (x.element < 4 ? x.elements * 4 : 0) + (w->trains && w->weight < 4 ? table * 4 : 0);
	p4d_op_hold(w, x);
}

/* The head's input: BERT's transform, the class token of an image, or all tokens after the last norm. */
static p4d_tape_tensor head_input(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;

	if (l->architecture->head_transform) {
		x = p4d_transformers__linear(w, x, l->hidden, l->hidden, 0);
		return p4d_transformers__norm(w, p4d_op_map(w, x, true, false), l->hidden);
	}
	x = p4d_transformers__norm(w, x, l->hidden);
	return l->architecture->kind == P4D_VISION ? p4d_op_slice(w, x, w->rows * l->hidden) : x;
}

/*
 * The loss of DPO in TRL before 1.15 (dpo_trainer.py of 1.10, _compute_loss) with 16-bit logits:
 * log-probabilities are 16-bit as well (selective_log_softmax). The entropy is calculated from a copy, 128
 * tokens at a time, while the reference's logits exist.
 */
static void paired_end(p4d_tape_writer *w, p4d_tape_tensor logits)
{
	enum { TOKENS = 128 };
	const p4d_layout *l = w->layout;
	const uint64_t all = logits.elements * logits.element,
		       chunk = (w->tokens < TOKENS ? w->tokens : TOKENS) * l->vocab * logits.element;
	p4d_tape_operation *o = p4d_op_append(w, logits, p4d_op_made(w, 1, 4, true), P4D_NEW_GRADIENT);

	o->kept = all;
	o->scratch = (l->reference ? 2 : 1) * all + 2 * chunk;
	p4d_op_hold(w, logits);
}

/*
 * The loss of models whose class computes it itself (class_loss.c). It uses the logits without the last token
 * of each sequence: selected by the attention mask or, with several sequences, copied to be contiguous. The
 * gradient of either slice has the size of all logits.
 */
static void class_end(p4d_tape_writer *w, p4d_tape_tensor logits, const p4d_class_loss *of)
{
	const p4d_tape_tensor all = of->upcasts ? p4d_op_cast(w, logits, 4) : logits;
	p4d_tape_tensor x = p4d_op_slice(w, all, (w->tokens - w->rows) * w->layout->vocab);

	if (of->masks || w->rows > 1) {
		x = p4d_op_map(w, x, false, false);
		if (of->masks)
			p4d_op_last(w)->kept = 2 * 8 * (w->tokens - w->rows);
		else
			p4d_op_last(w)->gradient[0] = P4D_SAME_GRADIENT;
	}
	const p4d_tape_tensor wide = w->autocast ? p4d_op_cast(w, x, 4) : x;
	const p4d_tape_tensor logarithms = p4d_op_map(w, wide, false, true);
	const p4d_tape_tensor loss = p4d_op_made(w, 1, 4, true);
	p4d_op_append(w, logarithms, loss, P4D_NEW_GRADIENT)->saved[0] = logarithms.value;
	p4d_op_hold(w, x);
	if (w->autocast && all.element == 2) { /* accelerate's convert_outputs_to_fp32 */
		p4d_tape_operation *o = p4d_op_append(w, loss, p4d_op_view(w, loss, 1), P4D_SAME_GRADIENT);
		o->scratch = all.elements * 4;
	}
	p4d_op_hold(w, all);
	if (of->keeps)
		p4d_op_hold(w, logits);
}

/*
 * The loss that the model's class computes itself, if the layout's release of transformers is known and old
 * enough; NULL: loss_utils.py computes the loss.
 */
static const p4d_class_loss *old_loss(const p4d_layout *l)
{
	static const p4d_class_loss plain = {.upcasts = false};
	const uint64_t before = l->architecture->own_loss_before;
	const bool old =
	    before && l->torch.transformers && l->torch.transformers < 4 * P4D_RELEASE_UNIT + before;

	return old && l->torch.model_code == P4D_MODEL_CODE_TRANSFORMERS ? &plain : NULL;
}

/*
 * The logits that the loss uses. Before release 4.49: logits without the last token of each sequence; with
 * several sequences they are copied to be contiguous. Later releases only shift the labels.
 */
static p4d_tape_tensor shifted(p4d_tape_writer *w, p4d_tape_tensor logits)
{
	enum { LABELS = 4 * P4D_RELEASE_UNIT + 49 };
	const p4d_layout *l = w->layout;

	if (!l->torch.transformers || l->torch.transformers >= LABELS ||
	    l->architecture->kind != P4D_DECODER || l->torch.model_code != P4D_MODEL_CODE_TRANSFORMERS)
		return logits;
	p4d_tape_tensor x = p4d_op_slice(w, logits, (w->tokens - w->rows) * l->vocab);
	if (w->rows > 1) {
		x = p4d_op_map(w, x, false, false);
		p4d_op_last(w)->gradient[0] = P4D_SAME_GRADIENT;
	}
	return x;
}

/* The last norm, the head, and the loss in fp32 (loss_utils.py, ForCausalLMLoss). */
static void end(p4d_tape_writer *w)
{
	const p4d_layout *l = w->layout;
	const p4d_architecture *a = l->architecture;
	const p4d_tape_tensor x = p4d_op_begin(w, l->hidden, w->between, true);
	const p4d_tape_tensor y = head_input(w, x);

	if (l->torch.chunked_loss) {
		void (*const ends[])(p4d_tape_writer *, p4d_tape_tensor) = {[P4D_LOSS_CHUNKED] = chunked_end,
									    [P4D_LOSS_TRL] = trl_end,
									    [P4D_LOSS_TRL_FUSED] = tiled_end};
		ends[l->torch.chunked_loss](w, y);
		return;
	}
	p4d_tape_tensor logits = p4d_transformers__linear(w, y, l->hidden, l->vocab, 0);
	p4d_op_last(w)->arrives = w->prefetched;
	if (a->logit_cap > 0)
		logits = p4d_op_map(w, p4d_op_map(w, p4d_op_map(w, logits, false, false), false, true), false,
				    false);
	else if (a->scales_logits)
		logits = p4d_op_map(w, logits, false, false);
	else if (a->logits_in_fp32)
		logits =
		    p4d_op_cast(w, logits, 4); /* a cast to fp32; autocast also drops its cache of casts */
	/* accelerate casts FSDP's outputs to fp32 */
	if (l->pairs && !w->autocast && logits.element == 2 && !p4d_framework_shares(l, P4D_SHARES_UNITS)) {
		paired_end(w, logits);
		p4d_op_hold(w, y);
		return;
	}
	const p4d_class_loss *own = l->torch.class_loss ? l->torch.class_loss : old_loss(l);
	if (own && !l->pairs) {
		class_end(w, logits, own);
		p4d_op_hold(w, y);
		return;
	}
	/* the loss of decoders casts to fp32 itself */
	const p4d_tape_tensor wide =
	    a->kind == P4D_DECODER || w->autocast ? p4d_op_cast(w, logits, 4) : logits;
	const p4d_tape_tensor of = shifted(w, wide);
	const p4d_tape_tensor logarithms = p4d_op_map(w, of, false, true);
	const p4d_tape_tensor loss = p4d_op_made(w, 1, 4, true);
	p4d_op_append(w, logarithms, loss, P4D_NEW_GRADIENT)->saved[0] = logarithms.value;
	p4d_op_hold(w, of);
	p4d_op_hold(w, wide);
	if (w->autocast && logits.element == 2) { /* accelerate's convert_outputs_to_fp32 */
		p4d_tape_operation *o = p4d_op_append(w, loss, p4d_op_view(w, loss, 1), P4D_SAME_GRADIENT);
		o->scratch = logits.elements * 4;
	}
	p4d_op_hold(w, logits);
	p4d_op_hold(w, y);
}

const p4d_transformers_tapes p4d_transformers__tapes = {.layer = layer, .end = end};
