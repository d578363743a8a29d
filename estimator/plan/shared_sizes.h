/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "request/layout.h"

/* Sizes shared by the plan and p4d-train: the arena is laid out with them. */

enum {
	P4D_ARENA_ALIGNMENT = 256,
	P4D_SHARD_MULTIPLE = 128,       /* elements; of every optimizer shard of a segment */
	P4D_CROSS_ENTROPY_CHUNK = 1024, /* tokens of a micro-batch whose logits exist at a time */
	P4D_TOKEN_STATISTICS = 3,       /* of a token's logits: maximum, sum, target; fp32 */
};

/*
 * Sums over tokens take two stages on a GPU, so that their order is fixed: this many partial sums of the
 * gradients of norm weights, and of what follows the qkv product (bias, qk norm).
 */
enum { P4D_NORM_SUMS = 256, P4D_HEAD_SUMS = 64 };

/* The cpu's matrix products of bf16: rows and columns of operands and product in fp32 at a time. */
enum {
	P4D_CPU_PRODUCT_BLOCK = 512,
	P4D_CPU_PRODUCT_BYTES = 3 * 4 * P4D_CPU_PRODUCT_BLOCK * P4D_CPU_PRODUCT_BLOCK
};

/*
 * The cpu's attention computes the scores of this many queries and keys at a time. Workspace: scores, output
 * and packed operands; backward: probabilities, their gradients and packed operands; fp32.
 */
enum { P4D_ATTENTION_TILE = 64 };
static inline uint64_t p4d_cpu_attention_bytes(uint64_t head_dim, bool backward)
{
	const uint64_t tile = P4D_ATTENTION_TILE;

	return 4 * tile * (backward ? 2 * tile + 5 * head_dim : tile + 4 * head_dim);
}

typedef enum p4d_dtype {
	P4D_DT_BF16,
	P4D_DT_FP16,
	P4D_DT_FP32,
	P4D_DT_FP64, /* sums of losses and norms */
	P4D_DT_INT32,
	P4D_DT_BYTES
} p4d_dtype;

static inline p4d_dtype p4d_dtype_of(const p4d_layout *layout)
{
	return layout->precision == P4D_FP32   ? P4D_DT_FP32
	       : layout->precision == P4D_FP16 ? P4D_DT_FP16
					       : P4D_DT_BF16;
}

/* A rank's share of a micro-batch. The layout has checked all divisions; n < 2^43. */
typedef struct p4d_rank_sizes {
	p4d_dtype dtype; /* of activations and parameters */
	uint64_t n;      /* tokens: b*s/c */
	uint64_t ns;     /* the same under sequence parallelism: n/t */
	uint64_t h, f;   /* hidden; feed-forward columns */
	uint64_t heads, kv_heads;
	uint64_t q, kv, columns; /* of queries, of keys, of queries, keys and values */
} p4d_rank_sizes;

static inline p4d_rank_sizes p4d_rank_sizes_of(const p4d_layout *l)
{
	p4d_rank_sizes z;

	z.dtype = p4d_dtype_of(l);
	z.n = l->seq_len / l->cp * l->micro_batch;
	z.ns = l->sequence_parallel ? z.n / l->tp : z.n;
	z.h = l->hidden;
	z.f = l->ffn / l->tp;
	z.heads = l->heads / l->tp;
	z.kv_heads = l->kv_heads / l->tp;
	z.q = z.heads * l->head_dim;
	z.kv = z.kv_heads * l->head_dim;
	z.columns = z.q + 2 * z.kv;
	return z;
}

/*
 * The linear layers of a Llama that may have an adapter, by the number of their bit in P4D_TARGET_*. Beside a
 * weight (out, in) LoRA (arXiv 2106.09685) trains A (rank, in) and B (out, rank). Sizes on this rank: with
 * tensor parallelism `in` is cut where split_in is set, else `out`.
 */
enum { P4D_ADAPTED_LAYERS = 7 };
typedef struct p4d_adapted {
	uint64_t in, out;
	bool split_in;
} p4d_adapted;

static inline p4d_adapted p4d_adapted_of(const p4d_layout *l, unsigned number)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const p4d_adapted all[P4D_ADAPTED_LAYERS] = {
	    {z.h, z.q, false}, {z.h, z.kv, false}, {z.h, z.kv, false}, {z.q, z.h, true},
	    {z.h, z.f, false}, {z.h, z.f, false},  {z.f, z.h, true}};

	return all[number];
}

/* Whether that layer has one. */
static inline bool p4d_is_adapted(const p4d_layout *l, unsigned number)
{
	return l->finetune != P4D_TUNE_FULL && l->lora_targets & 1u << number;
}
