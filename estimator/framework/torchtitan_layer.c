/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchtitan's layers as tapes, eager or compiled. Derived from the code of torchtitan 0.3.0 (models/common,
 * models/deepseek_v3, models/qwen3) and PyTorch 2.15, and compared with what that code, or Inductor's version
 * of it, allocates (tests/parity/make_torch_memory.py). A step is in torchtitan_fsdp.c.
 */
#include "framework/torchtitan.h"

bool p4d_torchtitan__selects(const p4d_tape_writer *w)
{
	return w->layout->recompute == P4D_RECOMPUTE_SELECTIVE;
}

/*
 * A linear layer. Selective recomputation keeps the result of every second one. In FP8, torchao saves the
 * 16-bit input and casts it in each pass (float8_linear.py); in the backward pass the gradient is cast by
 * rows and by columns.
 */
static p4d_tape_tensor linear(p4d_torchtitan_writer *t, p4d_tape_tensor x, uint64_t in, uint64_t out)
{
	const p4d_tape_tensor y = p4d_op_product(&t->w, x, in, out, t->w.weight, true);
	p4d_tape_operation *o = p4d_op_last(&t->w);

	o->stays = ++t->products % 2 && p4d_torchtitan__selects(&t->w);
	if (t->w.layout->precision == P4D_FP8) {
		o->scratch = x.elements + in * out;
		o->back_scratch = 2 * y.elements + x.elements + in * out;
	}
	return y;
}

/*
 * Before a matmul, tensor parallelism gathers the tokens of all its ranks and reorders them
 * (spmd_types/_collectives.py). A sum over ranks is reduce-scattered; with several sequences, from a copy.
 * Gathering and reduce-scattering are each other's backward pass.
 */
static uint64_t reordered(const p4d_tape_writer *w, p4d_tape_tensor whole)
{
	return w->rows > 1 ? whole.elements * whole.element : 0;
}

/*
 * In PyTorch's DTensor, communication consists of operations, and selective recomputation keeps the results
 * of these operations. torchtitan uses DTensor only with context parallelism. torch.compile keeps attention's
 * result for the next norm.
 */
bool p4d_torchtitan__keeps_received(const p4d_tape_writer *w)
{
	return w->layout->cp > 1 && p4d_torchtitan__selects(w);
}

p4d_tape_tensor p4d_torchtitan__whole(p4d_tape_writer *w, p4d_tape_tensor x)
{
	if (!w->layout->sequence_parallel)
		return x;
	const p4d_tape_tensor out = p4d_op_made(w, x.elements * w->layout->tp, x.element, true);
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->scratch = out.elements * out.element;
	o->back_scratch = reordered(w, out);
	return out;
}

p4d_tape_tensor p4d_torchtitan__scattered(p4d_tape_writer *w, p4d_tape_tensor x)
{
	if (!w->layout->sequence_parallel)
		return x;
	const p4d_tape_tensor out = p4d_op_made(w, x.elements / w->layout->tp, x.element, true);
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->scratch = reordered(w, x);
	o->back_scratch = x.elements * x.element;
	o->stays = p4d_torchtitan__keeps_received(w);
	return out;
}

/* A fused norm kernel, which saves its input and one number per row. */
static p4d_tape_tensor fused_norm(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns)
{
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, x.element, true);
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->saved[0] = x.value;
	o->kept = x.elements / columns * 4;
	o->weight = columns * w->weight;
	return out;
}

/* Appends a copy. Its gradient is a view of the original's gradient. */
static p4d_tape_tensor copied(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, x.element, true);

	p4d_op_append(w, x, out, P4D_SAME_GRADIENT);
	return out;
}

/* Rotary positions in fp32 (CosSinRoPE): x * cos + rotate_half(x) * sin. */
static p4d_tape_tensor turned(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_tape_tensor cosines = p4d_op_map(w, x, false, false);
	const p4d_tape_tensor first = p4d_op_slice(w, x, x.elements / 2),
			      second = p4d_op_slice(w, x, x.elements / 2);
	const p4d_tape_tensor half = p4d_op_joined(w, p4d_op_map(w, second, false, false), first);

	return p4d_op_plus(w, cosines, p4d_op_map(w, half, false, false));
}

static uint64_t bytes_of(p4d_tape_tensor x)
{
	return x.elements * x.element;
}

/* Backward workspace of the flash kernel (flash_api.cpp) for half of a rank's queries. */
static uint64_t half_of_flash(const p4d_tape_writer *w, uint64_t all)
{
	const uint64_t columns = (w->layout->head_dim + 31) / 32 * 32 + 1;
	const uint64_t rows = (w->length + 127) / 128 * 128, half = (w->length / 2 + 127) / 128 * 128;

	return all - 4 * w->rows * w->heads * (rows - half) * columns;
}

/* Keys and values of all ranks, which torch.compile keeps with any recomputation. */
static short received_of(p4d_tape_writer *w, uint64_t bytes)
{
	const p4d_tape_tensor out = p4d_op_made(w, bytes, 1, false);

	p4d_op_append(w, (p4d_tape_tensor){.value = -1}, out, P4D_NO_GRADIENT)->stays = true;
	return out.value;
}

/*
 * Fused attention. With cp (_templated_ring_attention of PyTorch) keys and values of all ranks are gathered,
 * and results of all rounds are summed in fp32. In the backward pass, gradients are also summed in fp32, and
 * copies of the gradients of keys and values are sent to the next rank. The first round has all queries,
 * later rounds have half of them. The result is copied to be contiguous.
 */
static p4d_tape_tensor attended(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k, p4d_tape_tensor v)
{
	const uint64_t cp = w->layout->cp, Q = bytes_of(q), KV = bytes_of(k) + bytes_of(v);
	const short received = cp > 1 && w->layout->torch.compile ? received_of(w, cp * KV) : -1;
	const p4d_tape_tensor y = p4d_transformers__fused(w, q, k, v);
	p4d_tape_operation *o = p4d_op_last(w);

	o->saved[4] = received;
	o->stays = p4d_torchtitan__selects(w);
	if (cp == 1)
		return y;
	const uint64_t kernel = o->back_scratch,
		       half = w->layout->kv_rank ? kernel : half_of_flash(w, kernel);
	const uint64_t first = 3 * Q + (5 + cp) * KV + kernel;
	const uint64_t second = 7 * Q / 2 + (9 + cp) * KV + half;
	o->scratch = cp * KV + 11 * bytes_of(y) / 2;
	o->back_scratch = (first > second ? first : second) - Q - KV;
	return copied(w, y);
}

/* Appends norms and rotations of queries and keys, as separate operations. */
static void turn(p4d_tape_writer *w, p4d_tape_tensor part[3])
{
	const p4d_layout *l = w->layout;
	const unsigned element = part[0].element;
	const bool pairs = !l->experts && !l->qk_norm;
	p4d_tape_tensor wide[2], turns[2];

	for (int i = 0; i < 3; i++)
		part[i] = copied(w, part[i]);
	for (int i = 0; l->qk_norm && i < 2; i++)
		part[i] = fused_norm(w, part[i], l->head_dim);
	for (int i = 0; i < 2; i++)
		wide[i] = p4d_op_cast(w, part[i], 4);
	for (int i = 0; i < 2; i++)
		turns[i] = pairs ? p4d_op_map(w, wide[i], false, false) : turned(w, wide[i]);
	p4d_op_hold(w, wide[0]);
	p4d_op_hold(w, wide[1]);
	for (int i = 0; i < 2; i++)
		part[i] = p4d_op_cast(w, turns[i], element);
	p4d_op_hold(w, turns[0]);
	p4d_op_hold(w, turns[1]);
}

/*
 * torch.compile makes one kernel for norm and rotation. The norms save the matmul's result, and values are a
 * view of that result.
 */
static void turn_at_once(p4d_tape_writer *w, p4d_tape_tensor all, p4d_tape_tensor part[3])
{
	const bool norms = w->layout->qk_norm;

	for (int i = 0; i < (norms ? 2 : 3); i++) {
		part[i] = copied(w, part[i]);
		p4d_op_last(w)->saved[0] = norms ? all.value : -1;
	}
}

/* Attention, with one matmul for queries, keys and values, which are then copied. */
static p4d_tape_tensor attention(p4d_torchtitan_writer *t, p4d_tape_tensor own)
{
	p4d_tape_writer *w = &t->w;
	const p4d_layout *l = w->layout;
	const uint64_t A = w->heads * l->head_dim, G = w->kv_heads * l->head_dim, tokens = w->tokens;
	const p4d_tape_tensor x = p4d_torchtitan__whole(w, own);
	const p4d_tape_tensor all = linear(t, x, l->hidden, A + 2 * G);
	p4d_tape_tensor part[3] = {p4d_op_view(w, all, tokens * A), p4d_op_view(w, all, tokens * G),
				   p4d_op_view(w, all, tokens * G)};
	p4d_tape_operation *o = p4d_op_append(w, all, part[0], P4D_NEW_GRADIENT);

	o->others[0] = part[1].value;
	o->others[1] = part[2].value;
	if (l->torch.compile)
		turn_at_once(w, all, part);
	else
		turn(w, part);
	const p4d_tape_tensor y = attended(w, part[0], part[1], part[2]);
	const p4d_tape_tensor out = p4d_torchtitan__scattered(w, linear(t, y, A, l->hidden));
	if (l->torch.compile)
		p4d_op_last(w)->stays = l->tp > 1 && p4d_torchtitan__selects(w);
	for (int i = 0; i < 3; i++)
		p4d_op_hold(w, part[i]);
	p4d_op_hold(w, x);
	p4d_op_hold(w, own);
	return out;
}

/* ComplexRoPE: a copy in fp32, multiplied by complex numbers, and cast back. */
static p4d_tape_tensor turned_in_pairs(p4d_tape_writer *w, p4d_tape_tensor x)
{
	return p4d_op_map(w, p4d_op_cast(w, x, 4), false, false);
}

/* Keys of latent attention: the part of each head, concatenated with the part that all heads share. */
static p4d_tape_tensor with_common(p4d_tape_writer *w, p4d_tape_tensor own, p4d_tape_tensor common,
				   uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_made(w, elements, own.element, true);
	p4d_tape_operation *o = p4d_op_append(w, own, out, P4D_SAME_GRADIENT);

	o->in[1] = common.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	return out;
}

static p4d_tape_tensor latent_attention(p4d_torchtitan_writer *t, p4d_tape_tensor own)
{
	p4d_tape_writer *w = &t->w;
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, H = w->heads, plain = H * l->head_dim, turns = H * l->rope_dim,
		       tokens = w->tokens;
	const p4d_tape_tensor x = p4d_torchtitan__whole(w, own);
	p4d_tape_tensor q = x, q_plain, q_turned, latent, k_turned, k_plain, v;

	if (l->q_rank)
		q = fused_norm(w, linear(t, x, h, l->q_rank), l->q_rank);
	q = linear(t, q, l->q_rank ? l->q_rank : h, plain + turns);
	p4d_op_parted(w, q, tokens * plain, &q_plain, &q_turned);
	p4d_op_parted(w, linear(t, x, h, l->kv_rank + l->rope_dim), tokens * l->kv_rank, &latent, &k_turned);
	const p4d_tape_tensor of_q = turned_in_pairs(w, q_turned), of_k = turned_in_pairs(w, k_turned);
	q_turned = p4d_op_cast(w, of_q, x.element);
	k_turned = p4d_op_cast(w, of_k, x.element);
	p4d_op_hold(w, of_q);
	p4d_op_hold(w, of_k);
	const p4d_tape_tensor queries = p4d_op_joined(w, q_plain, q_turned);
	const p4d_tape_tensor normed = fused_norm(w, latent, l->kv_rank);
	p4d_op_parted(w, linear(t, normed, l->kv_rank, plain + H * l->v_dim), tokens * plain, &k_plain, &v);
	const p4d_tape_tensor keys = with_common(w, k_plain, k_turned, tokens * (plain + turns));
	const p4d_tape_tensor y = attended(w, queries, keys, v);
	const p4d_tape_tensor out = p4d_torchtitan__scattered(w, linear(t, y, H * l->v_dim, h));
	const p4d_tape_tensor named[] = {q, q_turned, k_turned, queries, keys, v, x, own};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return out;
}

/*
 * Appends activation(gate) * up. torch.compile computes both in one kernel, also in the backward pass, where
 * it recomputes the product.
 */
static p4d_tape_tensor gated(p4d_tape_writer *w, p4d_tape_tensor gate, p4d_tape_tensor up)
{
	const p4d_tape_tensor both = p4d_op_times(w, gate, up);

	if (w->layout->torch.compile)
		p4d_op_last(w)->back_scratch = both.elements * both.element;
	return both;
}

/* x: the tokens of all tensor-parallel ranks together. */
p4d_tape_tensor p4d_torchtitan__feed_forward(p4d_torchtitan_writer *t, p4d_tape_tensor x, uint64_t columns)
{
	p4d_tape_writer *w = &t->w;
	const uint64_t h = w->layout->hidden, ffn = columns / w->layout->tp;
	const p4d_tape_tensor first = linear(t, x, h, ffn);
	const p4d_tape_tensor gate = w->layout->torch.compile ? first : p4d_op_map(w, first, true, false);
	const p4d_tape_tensor both = gated(w, gate, linear(t, x, h, ffn));
	const p4d_tape_tensor down = linear(t, both, ffn, h);

	if (w->layout->torch.compile) /* with torch.compile, no backward pass needs this tensor */
		p4d_op_last(w)->stays = false;
	const p4d_tape_tensor out = p4d_torchtitan__scattered(w, down);
	if (w->layout->torch.compile)
		p4d_op_last(w)->stays = false;
	return out;
}

/* A layer's feed-forward part without experts. */
static p4d_tape_tensor dense(p4d_torchtitan_writer *t, p4d_tape_tensor own)
{
	const p4d_tape_tensor x = p4d_torchtitan__whole(&t->w, own);
	const p4d_tape_tensor y = p4d_torchtitan__feed_forward(t, x, t->w.layout->ffn);

	p4d_op_hold(&t->w, x);
	p4d_op_hold(&t->w, own);
	return y;
}

p4d_torchtitan_writer p4d_torchtitan__writer(const p4d_layout *l, p4d_tape *tape)
{
	p4d_torchtitan_writer t = {.w = p4d_transformers__writer(l, tape)};

	t.w.masked = false;
	t.w.length = l->seq_len / l->cp;
	t.w.tokens = t.w.rows * t.w.length;
	t.w.heads = l->heads / l->tp;
	t.w.kv_heads = l->kv_heads / l->tp;
	t.own = l->sequence_parallel ? t.w.tokens / l->tp : t.w.tokens;
	return t;
}

void p4d_torchtitan__layer(p4d_torchtitan_writer *t, bool sparse)
{
	p4d_tape_writer *w = &t->w;
	const p4d_layout *l = w->layout;
	const uint64_t tokens = w->tokens;

	w->tokens = t->own;
	const p4d_tape_tensor x = p4d_op_begin(w, l->hidden, w->stream, true);
	w->tokens = tokens;
	t->products = 0;
	const p4d_tape_tensor normed = fused_norm(w, x, l->hidden);
	const p4d_tape_tensor y =
	    p4d_op_plus(w, x, l->kv_rank ? latent_attention(t, normed) : attention(t, normed));
	const p4d_tape_tensor in = fused_norm(w, y, l->hidden);
	p4d_op_plus(w, y,
		    !sparse          ? dense(t, in)
		    : l->memory.keys ? p4d_torchtitan__memory(t, in)
				     : p4d_torchtitan__experts(t, in));
	p4d_op_hold(w, y);
}
