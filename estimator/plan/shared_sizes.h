/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "request/devices.h"
#include "request/layout.h"

/* Sizes that the plan and p4d-train share; they determine the layout of the arena. */

enum {
	P4D_ARENA_ALIGNMENT = 256,
	P4D_SHARD_MULTIPLE = 128, /* in elements; every optimizer shard of a segment is a multiple of this */
	P4D_TOKEN_STATISTICS = 3, /* values per token about its logits: maximum, sum, target; fp32 */
	P4D_PAIR_NUMBERS = 4,     /* for a pair: log-probabilities of both answers, and the reference's */
	P4D_WIDE_NORMS = 2,       /* values per token: sums of squares over all queries, and over all keys */
};

/*
 * GPU kernels sum over tokens in two steps, so that the order of additions is fixed. This is the number of
 * partial sums for the gradients of norm weights, and of bias and qk norm after the qkv product.
 */
enum { P4D_NORM_SUMS = 256, P4D_HEAD_SUMS = 64 };

/* With tp-comm-overlap: number of parts in which tokens pass between tp ranks, and number of
 * multiprocessors that a collective takes from concurrent matmuls, one thread block on each. */
enum { P4D_TP_PARTS = 2, P4D_TP_BLOCKS = 16 };

/*
 * Tables of cosines and sines: one for the model's rotation and, if some layers rotate in another way or not
 * at all, one for these layers.
 */
static inline unsigned p4d_rope_tables(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;

	return a->unrotated_every || (l->sliding_window && a->plain_windows) ? 2 : 1;
}

/* Index of the table that a layer uses. */
static inline unsigned p4d_rope_table_of(const p4d_layout *l, uint64_t layer)
{
	const p4d_architecture *a = l->architecture;
	const unsigned every = a->full_attention_every;
	const bool full = every && (layer + 1) % every == 0;

	if (a->unrotated_every)
		return (layer + 1) % a->unrotated_every == 0;
	return l->sliding_window && a->plain_windows && !full;
}

/*
 * The cpu device's bf16 matmuls: number of rows and columns of operands and result that are in fp32 at a
 * time.
 */
enum {
	P4D_CPU_PRODUCT_BLOCK = 512,
	P4D_CPU_PRODUCT_BYTES = 3 * 4 * P4D_CPU_PRODUCT_BLOCK * P4D_CPU_PRODUCT_BLOCK
};

/*
 * The cpu device's attention computes the scores of this many queries and keys at a time. Workspace, in fp32:
 * scores, output and packed operands; for the backward pass probabilities, their gradients and packed
 * operands.
 */
enum { P4D_ATTENTION_TILE = 64 };
static inline uint64_t p4d_cpu_attention_bytes(uint64_t head_dim, bool backward)
{
	const uint64_t tile = P4D_ATTENTION_TILE;

	return 4 * tile * (backward ? 2 * tile + 5 * head_dim : tile + 4 * head_dim);
}

/*
 * data.document_places: for each call of attention, rows of int32 with the documents of the call and a few
 * more numbers, so that each row is aligned. The first row has lengths, the others places in units of a
 * token's elements in three kinds of tensors (device/cuda/sdpa.h).
 */
enum { P4D_DOCUMENT_ROWS = 4, P4D_DOCUMENT_PADDING = 4 };

typedef enum p4d_dtype {
	P4D_DT_BF16,
	P4D_DT_FP16,
	P4D_DT_FP32,
	P4D_DT_FP64, /* for sums of losses and of squared norms */
	P4D_DT_INT32,
	P4D_DT_BYTES
} p4d_dtype;

/*
 * In FP8 training, tensors that are not in FP8 are bf16 on GPUs, the output type of matrix units, and fp32 on
 * the cpu.
 */
static inline p4d_dtype p4d_dtype_of(const p4d_layout *layout)
{
	const bool fp32 =
	    layout->precision == P4D_FP32 || (layout->precision == P4D_FP8 && !p4d_on_gpu(layout->device));

	return fp32 ? P4D_DT_FP32 : layout->precision == P4D_FP16 ? P4D_DT_FP16 : P4D_DT_BF16;
}

/* A rank's share of a micro-batch. The layout has checked all divisions; n < 2^43. */
typedef struct p4d_rank_sizes {
	p4d_dtype dtype; /* type of activations and parameters */
	uint64_t batch;  /* sequences: micro-batch, divided by the Z of a tp-grid */
	uint64_t n;      /* tokens: batch*s/c; with token slices, those of the longest slice */
	uint64_t ns;     /* tokens between matmuls: n/t with sequence parallelism, else n */
	uint64_t h, f;   /* hidden, divided by the Y of a tp-grid; feed-forward columns */
	uint64_t up;     /* columns of the matmul before the activation: gate and up, or only up */
	uint64_t heads, kv_heads;
	uint64_t q, kv, columns; /* columns of queries, of keys, and of queries, keys and values together */
} p4d_rank_sizes;

static inline p4d_rank_sizes p4d_rank_sizes_of(const p4d_layout *l)
{
	p4d_rank_sizes z;

	z.dtype = p4d_dtype_of(l);
	z.batch = p4d_rank_batch(l);
	z.n = p4d_pass_tokens(l) / l->cp * z.batch;
	z.ns = l->sequence_parallel ? z.n / l->tp : z.n;
	z.h = p4d_rank_hidden(l);
	z.f = l->ffn / l->tp;
	z.up = l->glu ? 2 * z.f : z.f;
	z.heads = l->heads / l->tp;
	z.kv_heads = l->kv_heads / l->tp;
	z.q = z.heads * l->head_dim;
	z.kv = z.kv_heads * l->head_dim;
	z.columns = z.q + 2 * z.kv;
	return z;
}

/* With the Z of a tp-grid: number of layers whose gathered matrices are held at a time, the current layer
 * and the next. */
enum { P4D_DEPTH_PLACES = 2 };

/*
 * Maximum bytes of logits, and maximum tokens that have logits at a time. On a cpu, logits must stay in its
 * caches. On a GPU, each chunk of tokens reads and writes the gradient of the whole table in fp32, so a
 * matmul over fewer tokens is not worth it. If all stages share the vocabulary, half as many tokens save
 * memory.
 */
#define P4D_LOGITS_BYTES ((uint64_t)1 << 30)
enum { P4D_LOGITS_OF_GPU = 4096, P4D_LOGITS_OF_STAGES = 2048, P4D_LOGITS_OF_CPU = 1024 };
#define P4D_LOGITS_ROWS ((uint64_t)128)
enum { P4D_LOGITS_COLUMNS = 8 };

/*
 * Columns of a rank's logits. Rows are padded to multiples of 16 bytes, so that matmuls accept any
 * vocabulary.
 */
static inline uint64_t p4d_logits_columns(const p4d_layout *l)
{
	const uint64_t rows = l->vocab / l->tp / (l->vocab_parallel ? l->pp : 1);

	return (rows + P4D_LOGITS_COLUMNS - 1) / P4D_LOGITS_COLUMNS * P4D_LOGITS_COLUMNS;
}

/*
 * Tokens of a micro-batch whose logits exist at a time. The micro-batch is cut into the smallest number of
 * equal chunks.
 */
static inline uint64_t p4d_logits_tokens(const p4d_layout *l)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const uint64_t row = p4d_logits_columns(l) * (z.dtype == P4D_DT_FP32 ? 4 : 2);
	const uint64_t fit = P4D_LOGITS_BYTES / row / P4D_LOGITS_ROWS * P4D_LOGITS_ROWS;
	const uint64_t wanted = !p4d_on_gpu(l->device) ? P4D_LOGITS_OF_CPU
				: l->vocab_parallel    ? P4D_LOGITS_OF_STAGES
						       : P4D_LOGITS_OF_GPU;
	const uint64_t most = !fit ? P4D_LOGITS_ROWS : fit < wanted ? fit : wanted;
	const uint64_t chunks = (z.n + most - 1) / most, each = (z.n + chunks - 1) / chunks;
	const uint64_t rounded = (each + P4D_LOGITS_ROWS - 1) / P4D_LOGITS_ROWS * P4D_LOGITS_ROWS;

	return rounded < z.n ? rounded : z.n;
}

/*
 * The linear layers of a model that may have an adapter, numbered by their bit in P4D_TARGET_*. For a weight
 * (out, in), LoRA (arXiv 2106.09685) trains A (rank, in) and B (out, rank). Sizes are those on this rank:
 * tensor parallelism divides `in` if split_in is set, otherwise `out`. If query, key and value are one layer,
 * its number is that of the query. Layers that the model lacks have out 0.
 */
enum { P4D_ADAPTED_LAYERS = 7 };
typedef struct p4d_adapted {
	uint64_t in, out;
	bool split_in;
} p4d_adapted;

static inline p4d_adapted p4d_adapted_of(const p4d_layout *l, unsigned number)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const bool fused = l->architecture->fused_qkv;
	const bool joined = l->architecture->fused_gate_up;
	const uint64_t kv = fused ? 0 : z.kv, gate = l->glu && !joined ? z.f : 0;
	const p4d_adapted all[P4D_ADAPTED_LAYERS] = {{z.h, fused ? z.columns : z.q, false},
						     {z.h, kv, false},
						     {z.h, kv, false},
						     {z.q, z.h, true},
						     {z.h, gate, false},
						     {z.h, joined ? z.up : z.f, false},
						     {z.f, z.h, true}};

	return all[number];
}

/* Whether this linear layer has an adapter. */
static inline bool p4d_is_adapted(const p4d_layout *l, unsigned number)
{
	return l->finetune != P4D_TUNE_FULL && l->lora.targets & 1u << number &&
	       p4d_adapted_of(l, number).out;
}
