/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/parameters.h"
#include "plan/plan_rows.h"

/* What PyTorch's allocator holds on one rank of a stage of Megatron-LM: the rows of its plan. */
void p4d_framework__megatron_rows(p4d_rows *rows);

/* megatron_layer.c (saved activations) and megatron_passes.c (working memory of passes) share the rest of
 * this file. */

/* Parallel degrees that shard a row: along the sequence, and across heads or columns. */
#define ALONG "sp cp"
#define ACROSS "tp cp"

/*
 * A recomputed tensor exists twice: PyTorch recomputes it and copies it to its former place
 * (tensor_parallel/random.py, CheckpointWithoutOutput).
 */
enum { TWICE = 2 };

/*
 * Transformer Engine's FP8 (megatron_fp8.c). A matmul keeps its input in the orientation that the weight
 * gradient needs, and its weight in both orientations. Before Blackwell a weight therefore has two copies;
 * with block scales it has two copies on any GPU. Scales take four bytes per 128 elements (blockwise), one
 * byte per 32 (MXFP8), or one byte per 16 (4 bits).
 */
bool p4d_megatron__fp8(const p4d_layout *layout);
uint64_t p4d_megatron__fp8_bytes(const p4d_layout *layout, uint64_t elements); /* bytes of one copy */
unsigned p4d_megatron__fp8_copies(const p4d_rows *rows);

/*
 * Size, in 16-bit elements, of the copy that a matmul keeps of its input if no other operation keeps that
 * input.
 */
p4d_wide p4d_megatron__fp8_kept(const p4d_layout *layout, p4d_wide elements);

/* Number of copies of an input that is gathered again for the weight gradients. MXFP8 and NVFP4 gather the
 * copy that they need. Other recipes gather one copy and make the second one from it. */
unsigned p4d_megatron__fp8_gathered(const p4d_rows *rows);

/* Whether the matmul after attention keeps its input cast to FP8; otherwise it keeps the original input
 * (attention.py, set_save_original_input). */
bool p4d_megatron__fp8_saves_output(const p4d_layout *layout);

/* Elements of a stage's weights that FP8 matmuls use; without embeddings, head, norms and biases. */
p4d_wide p4d_megatron__fp8_weights(const p4d_rows *rows);

/* Sizes of a micro-batch and a layer on this rank, in elements. */
typedef struct p4d_megatron_sizes {
	uint64_t tokens, own; /* tokens of the micro-batch; own: this rank's share with sequence
			       * parallelism */
	uint64_t h, A, G, F;  /* columns: hidden, queries, keys (or values), feed-forward */
	uint64_t up;          /* columns of the first feed-forward matmul: gate and up, or up */
	uint64_t product;     /* columns that the activation function saves of the first matmul's output; FP8
				 columns are converted to 16-bit ones */
	uint64_t outputs;     /* columns of attention's output that attention and the next matmul save */
	uint64_t norm;        /* columns that the matmul after a norm saves of its input: h, or less in FP8
			       * (counted as 16 bits) */
	p4d_wide ffn;         /* columns that the feed-forward part saves, including its residual */
	bool mixed;           /* layers have experts or latent attention (megatron_experts.c) */
	/*
	 * For mixed layers. forward, backward, attention: peaks of the passes on top of saved activations;
	 * attention: of the backward pass of latent attention (0 without it), not counting memory that is
	 * certainly free by then. left: memory that stays allocated after the passes of all layers
	 */
	p4d_wide forward, backward, attention, left;
	p4d_wide ffn_forward, ffn_backward; /* the same peaks for a feed-forward part without experts */
	/* Filled by p4d_megatron__layers, in elements. again: what a group of recomputed layers holds,
	 * including their inputs. further: what layers for multi-token prediction save. */
	p4d_wide again, further;
	bool gathers; /* with sequence parallelism: inputs of matmuls are gathered */
} p4d_megatron_sizes;

p4d_megatron_sizes p4d_framework__megatron_sizes(const p4d_layout *layout, uint64_t micro_batch);

/* Columns that checkpointed attention keeps of its first matmul's output, not counting the value columns. */
uint64_t p4d_megatron__product(const p4d_layout *layout, const p4d_megatron_sizes *sizes);

/* How many layers of a chunk are recomputed, and in which groups. */
typedef struct p4d_megatron_again {
	uint64_t
	    groups; /* recomputed groups, each of which keeps its input; 0: no whole layers are recomputed */
	uint64_t layers; /* layers of the group that is being recomputed */
	uint64_t whole;  /* layers of the chunk that are not recomputed */
} p4d_megatron_again;

/* Whether a module of P4D_MODULE_* is recomputed; not if whole layers are. */
bool p4d_megatron__again(const p4d_layout *layout, unsigned module);

/* Columns per token of a Mamba-2 layer on one tensor-parallel rank. */
typedef struct p4d_megatron_widths {
	p4d_wide values; /* columns of all heads, which are also those of the gates */
	p4d_wide mixed;  /* columns that the convolution mixes: values, B and C */
	p4d_wide all;    /* columns of the first matmul: `mixed`, the gates and the steps */
	p4d_wide states; /* elements of a chunk's state per token of the chunk */
	p4d_wide scores; /* scores within a chunk, for each group */
	p4d_wide heads;
} p4d_megatron_widths;
p4d_megatron_widths p4d_megatron__widths(const p4d_layout *layout);

/* Adds the rows of what the layers of a stage save (megatron_layer.c), and fills `again` and `further`. */
void p4d_megatron__layers(p4d_rows *rows, const p4d_megatron_again *again, p4d_megatron_sizes *sizes);

/* For hybrid models: adds the row of one tensor that `blocks` blocks save. */
void p4d_megatron__keep_blocks(p4d_rows *rows, const char *name, const char *shard, p4d_dtype dtype,
			       uint64_t blocks, p4d_wide elements);
/* Adds the rows of all tensors that attention blocks save. */
void p4d_megatron__keep_attention(p4d_rows *rows, const p4d_megatron_sizes *sizes, uint64_t blocks);
/* Adds the rows of all tensors that experts save. */
void p4d_megatron__keep_experts(p4d_rows *rows, const p4d_megatron_sizes *sizes, uint64_t layers);

/* What the experts of one layer save, without the router. */
p4d_wide p4d_megatron__saved_by_experts(const p4d_layout *layout, const p4d_megatron_sizes *sizes);

/* Layers for multi-token prediction on this stage. */
static inline uint64_t p4d_megatron__further(const p4d_rows *rows)
{
	return rows->last ? rows->layout->mtp_layers : 0;
}

/* Replaces the sizes that differ with experts or latent attention (megatron_experts.c). */
void p4d_megatron__size_experts(const p4d_rows *rows, p4d_megatron_sizes *sizes);

/*
 * Memory that the first step allocates and that stays: dummy gradients, buffers of the experts' exchange
 * (megatron_libraries.c).
 */
void p4d_megatron__libraries(p4d_rows *rows, const p4d_megatron_sizes *sizes);

/* Fills ffn_forward and ffn_backward (megatron_states.c). */
void p4d_megatron__size_ffn(const p4d_rows *rows, p4d_megatron_sizes *sizes);

/* Sizes and rows of hybrid models, in which a layer is a single block (megatron_states.c). */
void p4d_megatron__size_states(const p4d_rows *rows, p4d_megatron_sizes *sizes);
void p4d_megatron__state_layers(p4d_rows *rows, const p4d_megatron_sizes *sizes);

/*
 * CUDA graphs of Transformer Engine (megatron_graphs.c). A captured group of rows keeps its memory.
 * p4d_megatron__graphs adds the other memory of graphs.
 */
typedef enum p4d_megatron_group { INPUT, NORM, HEADS, STATISTICS, MIDDLE, FFN } p4d_megatron_group;
void p4d_megatron__captured(p4d_rows *rows, p4d_megatron_group group, p4d_tensor *row);
void p4d_megatron__graphs(p4d_rows *rows, const p4d_megatron_sizes *sizes);
/*
 * Unfused attention (megatron_unfused.c). saved: bytes that a layer saves for each query-key pair of a head.
 * forward, backward: bytes per pair that the passes need in addition. pairs: number of pairs of all heads of
 * the rank. mask: bytes of the causal mask.
 */
typedef struct p4d_megatron_scores {
	unsigned saved, forward, backward;
	p4d_wide pairs, mask;
	bool kernel; /* true: Transformer Engine's softmax; false: PyTorch's, which keeps the mask */
} p4d_megatron_scores;
p4d_megatron_scores p4d_megatron__scores(const p4d_layout *layout, const p4d_megatron_sizes *sizes,
					 bool dropout);
/* Elements that attention's passes hold in addition to the slots, minus elements that the feed-forward
 * part has not saved yet or has freed. 0 with fused attention. */
p4d_wide p4d_megatron__unfused_forward(const p4d_rows *rows, const p4d_megatron_sizes *sizes);
p4d_wide p4d_megatron__unfused_backward(const p4d_rows *rows, const p4d_megatron_again *again,
					const p4d_megatron_sizes *sizes, uint64_t inputs);

/* The data loader's attention mask (megatron_mask.c). Call it after the slots have their rows. */
void p4d_megatron__mask(p4d_rows *rows, const p4d_megatron_again *again, const p4d_megatron_sizes *sizes);
/* Bytes that the slots hold for one micro-batch. */
p4d_wide p4d_megatron__slot_bytes(const p4d_rows *rows, const p4d_megatron_sizes *sizes);
/*
 * Number of hidden states, each of this rank's tokens, that the schedule keeps in addition
 * (megatron_passes.c).
 */
uint64_t p4d_megatron__inputs_held(const p4d_rows *rows);

/* Adds a row of `elements` elements at one live point; adds none if elements is 0. */
static inline void p4d_megatron_held(p4d_rows *rows, p4d_live_point point, const char *name,
				     const char *shard, p4d_memory_class part, p4d_wide elements)
{
	rows->overflow = rows->overflow || elements >> 62;
	if (elements && !rows->overflow)
		p4d_row_at(rows, 1u << point, name, shard, part, p4d_dtype_of(rows->layout),
			   (uint64_t)elements, 0, 0);
}

/*
 * Rows of the passes and their schedule, of embedding and head, and of evaluation. Call it after the slots
 * have their rows.
 */
void p4d_framework__megatron_passes(p4d_rows *rows, const p4d_megatron_again *again,
				    const p4d_megatron_sizes *sizes);

/* megatron_reserved.c; see p4d_framework */
uint64_t p4d_megatron__reserved(const p4d_layout *layout, uint32_t stage, const p4d_plan *plan,
				bool is_short);
