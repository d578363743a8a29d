/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/parameters.h"
#include "plan/plan_rows.h"

/* What PyTorch's allocator holds on one rank of a stage of Megatron-LM: the rows of its plan. */
void p4d_framework__megatron_rows(p4d_rows *rows);

/* The rest of this file is shared by megatron_memory.c (saved activations) and megatron_passes.c (working
 * memory of passes). */

/* Shards of a row along the sequence and across heads or columns. */
#define ALONG "sp cp"
#define ACROSS "tp cp"

/*
 * FP8 of Transformer Engine (megatron_fp8.c). A matmul keeps its input in the direction that the weight
 * gradient takes, and its weight in both directions. Before Blackwell a weight therefore has two copies;
 * tensors with scales by block have two copies on any GPU. Scales take four bytes per 128 elements
 * (blockwise) or one byte per 32 (MXFP8); in 4 bits one byte per 16.
 */
bool p4d_megatron__fp8(const p4d_layout *layout);
uint64_t p4d_megatron__fp8_bytes(const p4d_layout *layout, uint64_t elements); /* bytes of one copy */
unsigned p4d_megatron__fp8_copies(const p4d_rows *rows);

/* What a matmul keeps of an input that nothing else keeps, in elements of 16 bits. */
p4d_wide p4d_megatron__fp8_kept(const p4d_layout *layout, p4d_wide elements);

/* Copies of an input that is gathered again for the weight gradients. MXFP8 and NVFP4 gather the copy that
 * they need; other recipes gather one copy and make the second one from it. */
unsigned p4d_megatron__fp8_gathered(const p4d_rows *rows);

/* Whether the matmul after attention keeps its input cast to FP8; otherwise it keeps the original input
 * (attention.py, set_save_original_input). */
bool p4d_megatron__fp8_saves_output(const p4d_layout *layout);

/* Elements of a stage's weights that matmuls take in FP8; without embeddings, head, norms and biases. */
p4d_wide p4d_megatron__fp8_weights(const p4d_rows *rows);

/* Sizes of a micro-batch and a layer on this rank, in elements. */
typedef struct p4d_megatron_sizes {
	uint64_t tokens, own; /* own: this rank's tokens with sequence parallelism */
	uint64_t h, A, G, F;  /* columns: hidden, queries, keys or values, feed-forward */
	uint64_t up;          /* columns of the first feed-forward matmul: gate and up, or up */
	uint64_t product;     /* columns that the activation saves of its output; in FP8, as 16 bits */
	uint64_t outputs;     /* columns of attention's output that attention and the next matmul save */
	uint64_t norm; /* columns that the matmul after a norm saves of its input: h, in FP8 as 16 bits */
	p4d_wide ffn;  /* all that the feed-forward part saves, with its residual */
	bool mixed;    /* layers have experts or latent attention: see megatron_experts.c */
	/* for mixed layers: peaks of a layer's passes in addition to saved activations; attention's backward
	 * pass, in addition to the least that is freed until then; memory of all layers that remains after
	 * their passes */
	p4d_wide forward, backward, attention, attention_saved, left;
	p4d_wide ffn_forward, ffn_backward; /* such peaks of a feed-forward part without experts */
	p4d_wide further;                   /* saved by layers for multi-token prediction, in 16 bits */
	bool gathers;                       /* sequence parallelism: inputs of matmuls are gathered */
} p4d_megatron_sizes;

p4d_megatron_sizes p4d_framework__megatron_sizes(const p4d_layout *layout, uint64_t micro_batch);

/*
 * Columns of attention's first matmul without those of the values. If ranks have copies of key/value heads,
 * the output of all ranks is gathered (attention.py, get_query_key_value_tensors).
 */
static inline uint64_t p4d_megatron__product(const p4d_layout *layout, const p4d_megatron_sizes *sizes)
{
	return layout->kv_heads < layout->tp
		   ? (layout->heads + 2 * layout->kv_heads) * layout->head_dim - sizes->G
		   : sizes->A + sizes->G;
}

/* How the layers of a chunk are recomputed. */
typedef struct p4d_megatron_again {
	uint64_t
	    groups; /* recomputed groups, each of which keeps its input; 0: no whole layers are recomputed */
	uint64_t layers; /* layers of the group that is being recomputed */
	uint64_t whole;  /* layers of the chunk that are not recomputed */
} p4d_megatron_again;

/*
 * Models with experts or latent attention (megatron_experts.c): fills the members of sizes that differ; adds
 * the rows of what their layers save, and of what the first step allocates for libraries.
 */
void p4d_megatron__size_experts(const p4d_rows *rows, p4d_megatron_sizes *sizes);
void p4d_megatron__expert_layers(p4d_rows *rows, const p4d_megatron_again *again, p4d_megatron_sizes *sizes);
void p4d_megatron__expert_libraries(p4d_rows *rows, const p4d_megatron_sizes *sizes);

/* What the experts of one such layer save, without the router; and the rows for `layers` such layers. */
p4d_wide p4d_megatron__saved_by_experts(const p4d_layout *layout, const p4d_megatron_sizes *sizes);
void p4d_megatron__keep_experts(p4d_rows *rows, const p4d_megatron_sizes *sizes, uint64_t layers);

/* Fills ffn_forward and ffn_backward (megatron_states.c). */
void p4d_megatron__size_ffn(const p4d_rows *rows, p4d_megatron_sizes *sizes);

/* Like the functions for experts, for hybrid models, whose layers are one block each (megatron_states.c). */
void p4d_megatron__size_states(const p4d_rows *rows, p4d_megatron_sizes *sizes);
void p4d_megatron__state_layers(p4d_rows *rows, const p4d_megatron_sizes *sizes);
void p4d_megatron__state_libraries(p4d_rows *rows);

/*
 * CUDA graphs of Transformer Engine (megatron_graphs.c). If the group of a row is captured, the row keeps its
 * memory. p4d_megatron__graphs adds the other memory of graphs.
 */
typedef enum p4d_megatron_group { INPUT, NORM, HEADS, STATISTICS, MIDDLE, FFN } p4d_megatron_group;
void p4d_megatron__captured(p4d_rows *rows, p4d_megatron_group group, p4d_tensor *row);
void p4d_megatron__graphs(p4d_rows *rows, const p4d_megatron_sizes *sizes);
/*
 * Unfused attention (megatron_unfused.c). saved, forward, backward: bytes for each pair of tokens of a head,
 * saved by a layer and used by its passes in addition. pairs: of all heads of the rank. mask: bytes of the
 * causal mask.
 */
typedef struct p4d_megatron_scores {
	unsigned saved, forward, backward;
	p4d_wide pairs, mask;
	bool kernel; /* Transformer Engine's softmax, else PyTorch's, which keeps the mask */
} p4d_megatron_scores;
p4d_megatron_scores p4d_megatron__scores(const p4d_layout *layout, const p4d_megatron_sizes *sizes,
					 bool dropout);
/* Elements that attention's passes hold in addition to the slots, minus those that the feed-forward part has
 * not saved yet or has freed; 0 with fused attention. */
p4d_wide p4d_megatron__unfused_forward(const p4d_rows *rows, const p4d_megatron_sizes *sizes);
p4d_wide p4d_megatron__unfused_backward(const p4d_rows *rows, const p4d_megatron_again *again,
					const p4d_megatron_sizes *sizes, uint64_t inputs);

/* The attention mask of the data loader (megatron_mask.c). Slots have their rows before. */
void p4d_megatron__mask(p4d_rows *rows, const p4d_megatron_again *again, const p4d_megatron_sizes *sizes);
/* Tensors of one micro-batch in the slots, in bytes; and the number of narrow tensors to which the schedule
 * refers in addition (megatron_passes.c). */
p4d_wide p4d_megatron__slot_bytes(const p4d_rows *rows, const p4d_megatron_sizes *sizes);
uint64_t p4d_megatron__inputs_held(const p4d_rows *rows);

/* Adds a row of `elements` elements at one live point; none if it is 0. */
static inline void p4d_megatron_held(p4d_rows *rows, p4d_live_point point, const char *name,
				     const char *shard, p4d_memory_class part, p4d_wide elements)
{
	rows->overflow = rows->overflow || elements >> 62;
	if (elements && !rows->overflow)
		p4d_row_at(rows, 1u << point, name, shard, part, p4d_dtype_of(rows->layout),
			   (uint64_t)elements, 0, 0);
}

/* Rows of the passes and their schedule, of the model's ends, and of evaluation. Slots have theirs before. */
void p4d_framework__megatron_passes(p4d_rows *rows, const p4d_megatron_again *again,
				    const p4d_megatron_sizes *sizes);

/* megatron_reserved.c; see p4d_framework */
uint64_t p4d_megatron__reserved(const p4d_layout *layout, const p4d_plan *plan, bool is_short);
