/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torchtitan's modules hold, eager or compiled: found in the code of torchtitan 0.3.0 and PyTorch 2.15,
 * and compared with what that code, or what Inductor makes of it, allocates
 * (tests/parity/make_torch_memory.py, tests/data/torch_memory.csv, torch_compiled.csv). Of the moments of a
 * layer's backward pass the widest counts.
 */
#include "framework/torchtitan.h"

#define ALONG "sp cp"
#define ACROSS "tp cp"

/* Elements of a layer's tensors on this rank. */
typedef struct layer {
	p4d_wide own;     /* one residual stream, sharded by sequence parallelism */
	p4d_wide wide;    /* the same, whole */
	p4d_wide q, kv;   /* queries; keys or values */
	p4d_wide ffn;     /* gate, or up */
	p4d_wide product; /* of queries, keys and values in one */
	bool gathers;     /* tensor parallelism: inputs of products are gathered, their sums scattered */
} layer;

static layer layer_of(const p4d_torch_sizes *z)
{
	const p4d_wide t = z->tokens;

	return (layer){.own = (p4d_wide)z->own * z->h,
		       .wide = t * z->h,
		       .q = t * z->A,
		       .kv = t * z->G,
		       .ffn = t * z->F,
		       .product = t * (z->A + 2 * z->G),
		       .gathers = z->gathers};
}

/*
 * Elements that a layer saves if it saves all: its input, that of the second norm, what both norms gave
 * (gathered with tensor parallelism), queries, keys and values after the rotation, what attention gave, gate,
 * up, the activated gate and the product. A norm of queries and keys keeps the product that they are parts
 * of.
 */
static p4d_wide all_of(const p4d_layout *l, const layer *y)
{
	const p4d_wide norms = y->gathers ? 2 * y->wide : 2 * y->own;

	/* compiled, the activated gate is computed again with the product */
	return 2 * y->own + norms + 2 * y->q + 2 * y->kv + (l->compile ? 3 : 4) * y->ffn +
	       (l->qk_norm ? y->product - y->kv : 0) + (l->cp > 1 ? y->q : 0);
}

/* Statistics of softmax and norms, fp32, in elements of activations: one for each head and token. */
static p4d_wide statistics(const p4d_torch_sizes *z)
{
	return (p4d_wide)z->tokens * z->heads * 4 / z->element;
}

/*
 * What stays of it. Selective: every second product, by torchtitan's list of operations: of queries, keys and
 * values, gate, and down, and what attention gave; where PyTorch's DTensor scatters, which torchtitan uses
 * with cp, what was scattered, too. torch.compile keeps one result that is scattered in any case, and what
 * was exchanged: keys and values of all ranks.
 */
static p4d_wide kept_of(const p4d_layout *l, const p4d_torch_sizes *z, const layer *y)
{
	const p4d_wide gathered = l->compile && l->cp > 1 ? 2 * l->cp * y->kv : 0;
	const unsigned scattered = !y->gathers ? 0 : l->compile ? 1 : l->cp > 1 ? 2 : 0;

	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		return y->own + gathered;
	case P4D_RECOMPUTE_SELECTIVE:
		/* compiled, what down gave is not kept: no backward pass needs it */
		return y->own + y->product + y->q + y->ffn + (l->compile ? 0 : y->wide) + statistics(z) +
		       scattered * y->own + gathered;
	default:
		return all_of(l, y) + statistics(z) + gathered;
	}
}

static p4d_wide widest(p4d_wide a, p4d_wide b)
{
	return a > b ? a : b;
}

/*
 * The most beside what layers keep, in the backward pass of a layer's feed-forward part: the gradient of the
 * product and those of its factors, where the product is free; what was recomputed until then. With tensor
 * parallelism the end of recomputation may need more: the last product's result, cut to be scattered.
 */
static p4d_wide backward_of(const p4d_layout *l, const p4d_torch_sizes *z, const layer *y)
{
	const p4d_wide again = all_of(l, y) - y->own;
	const p4d_wide weight = (p4d_wide)z->F * z->h;
	/* what is scattered is cut along the sequence: of one sequence without a copy */
	const p4d_wide cut = l->micro_batch > 1 ? y->wide + y->own : 0;
	p4d_wide base = 0, first = 0, end = 0;

	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		base = again + statistics(z);
		first = y->gathers ? y->wide : 0; /* the gathered gradient of the result */
		end = base + 2 * y->wide + 2 * y->own + cut;
		break;
	case P4D_RECOMPUTE_SELECTIVE:
		/* kept: the first product, of which queries, keys and values are made, gate, attention, down
		 */
		base = again - y->product - y->q - y->ffn - y->wide;
		end = base + (l->micro_batch > 1 ? 3 : 2) * y->wide + 3 * y->own;
		break;
	default:
		/* of a forward pass: beside the gradients of others it may be the widest */
		end = z->adds ? y->wide + y->own + cut : 0;
		break;
	}
	/* compiled, one kernel makes the product again and the gradients of both factors, before any
	 * weight's. One weight's gradient, or, where they are added to others at once, none at these moments
	 * but the first; in the end those of all three */
	const p4d_wide factors =
	    base + (l->compile ? 3 : 2) * y->ffn + y->own + (z->adds || l->compile ? 0 : weight);
	const p4d_wide begins = base + first + y->ffn + y->own + weight;
	const p4d_wide inputs = base + (l->recompute == P4D_RECOMPUTE_SELECTIVE ? 3 : 2) * y->wide + y->own +
				(z->adds ? 1 : 3) * weight;
	const p4d_wide most = widest(widest(factors, begins), y->gathers ? end : 0);
	return inputs > most + 3 * y->ffn ? inputs - 3 * y->ffn : most;
}

static p4d_wide up_to(p4d_wide x, unsigned unit)
{
	return p4d_div_up(x, unit) * unit;
}

/*
 * Bytes of a layer while attention runs backward: its input, what the norm gave, the product's parts,
 * queries, keys and values, the result; the gradients of the residual stream and of the result. Beside them
 * gradients of queries, keys and values, and what the kernel takes (flash_api.cpp: queries' in fp32, sums of
 * rows, keys' and values' for all heads of queries). With cp (_templated_ring_attention_backward) gradients
 * are summed in fp32 while keys and values of all ranks are there, and what the ring sends is copied; after
 * the first of its steps, with a half of the queries.
 */
static p4d_wide attention_of(const p4d_layout *l, const p4d_torch_sizes *z, const layer *y)
{
	const p4d_wide kept = 2 * y->own + y->wide + 3 * y->q + 2 * y->kv + (l->qk_norm ? y->q + y->kv : 0);
	const p4d_wide grouped = z->G < z->A ? 2 * y->q : 0;
	const p4d_wide rows = up_to(l->seq_len / l->cp / (l->cp > 1 ? 2 : 1), 128);
	const p4d_wide scratch = 4 * l->micro_batch * z->heads * rows * (up_to(l->head_dim, 32) + 1);
	const p4d_wide ring = 7 * y->q / 2 + (18 + 2 * (p4d_wide)l->cp) * y->kv;

	return (kept + grouped + (l->cp > 1 ? ring : y->q + 2 * y->kv)) * z->element + scratch;
}

/*
 * The loss, with the hidden state before and after the last norm. Whole: logits in fp32, their log-softmax
 * and its gradient; over shards of the vocabulary one more. In chunks: beside those of an eighth of the
 * sequence its logits in the type of activations, the sum of the hidden state's gradients in fp32, and, where
 * a micro-batch has several sequences, copies of the chunks.
 */
static void write_loss(p4d_rows *rows, const p4d_torch_sizes *z, const layer *y)
{
	enum { CHUNKS = 8 };
	const p4d_layout *l = rows->layout;
	const p4d_wide logits = (p4d_wide)z->tokens * z->V;
	/* compiled, in one kernel each way: logits and their gradient in the type of activations; over shards
	 * of the vocabulary two in fp32 beside the logits */
	const p4d_wide both = y->gathers ? 8 + z->element : 2 * z->element;
	const p4d_wide passes = !l->compile       ? (y->gathers ? 16 : 12)
				: l->chunked_loss ? both - z->element
						  : both;
	p4d_wide hidden = (y->own + y->wide) * z->element;

	if (l->chunked_loss)
		hidden += y->wide * 4 + (l->micro_batch > 1 ? y->wide * z->element : 0);
	p4d_torch_held(rows, 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD, "loss.hidden", ALONG, P4D_PART_LOGITS,
		       hidden);
	p4d_torch_held(rows, 1u << P4D_AT_LOSS, "loss.logits", ACROSS, P4D_PART_LOGITS,
		       l->chunked_loss ? logits / CHUNKS * (z->element + passes) : logits * passes);
	/* while the head's gradient is summed */
	if (l->chunked_loss)
		p4d_torch_held(rows, 1u << P4D_AT_HEAD, "loss.chunk", ACROSS, P4D_PART_LOGITS,
			       (logits + y->wide) / CHUNKS * z->element);
}

/*
 * Bytes that FP8 adds in a backward pass: torchao's products save what they are given in 16 bits, and cast in
 * each pass (float8_linear.py). Of gate or up: its gradient by rows and by columns, its input, its weight.
 * From that code, and compared with nothing: see `unvalidated` of fsdp.c.
 */
static p4d_wide casts_of(const p4d_torch_sizes *z, const layer *y)
{
	return 2 * y->ffn + y->wide + (p4d_wide)z->F * z->h;
}

void p4d_torchtitan__loss(p4d_rows *rows, const p4d_torch_sizes *z)
{
	const layer y = layer_of(z);

	write_loss(rows, z, &y);
}

static void write(p4d_rows *rows, const p4d_torch_sizes *z, p4d_torch_layer *out)
{
	const p4d_layout *l = rows->layout;
	const layer y = layer_of(z);

	out->saved = kept_of(l, z, &y) * z->element;
	out->backward = backward_of(l, z, &y) * z->element;
	if (l->precision == P4D_FP8)
		out->backward += casts_of(z, &y);
	out->attention = attention_of(l, z, &y);
	out->ends = 2 * y.own * z->element;
	/* each layer has the angles of its own: complex numbers (Llama), or sines and cosines for both halves
	 * of a head (Qwen3, the family whose queries have a norm) */
	out->always =
	    (p4d_wide)l->stage_layers[rows->stage] * l->seq_len * l->head_dim * (l->qk_norm ? 8 : 4);
	if (rows->last)
		write_loss(rows, z, &y);
}

const p4d_torch_modules p4d_torch__torchtitan = {
    .name = "torchtitan", .unties = true, .write = write, .write_sparse = p4d_torchtitan__sparse_rows};
