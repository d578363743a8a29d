/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/parameters.h"
#include "plan/plan_rows.h"

/* What PyTorch's allocator holds on one rank of a stage of Megatron-LM: the rows of its plan. */
void p4d_framework__megatron_rows(p4d_rows *rows);

/* The rest is between megatron_memory.c, what is saved, and megatron_passes.c, what passes hold beside it. */

/* Shards of a row along the sequence and across heads or columns. */
#define ALONG "sp cp"
#define ACROSS "tp cp"

/*
 * FP8 of Transformer Engine (megatron_fp8.c). An input of a product is kept for the weight's gradient in the
 * direction that takes it, a weight in both: before Blackwell as two copies, as are tensors with scales by
 * block on any GPU. Those have four bytes of scales for 128 elements, or one for 32; in 4 bits one for 16.
 */
bool p4d_megatron__fp8(const p4d_layout *layout);
uint64_t p4d_megatron__fp8_bytes(const p4d_layout *layout, uint64_t elements); /* of one copy */
unsigned p4d_megatron__fp8_copies(const p4d_rows *rows);

/* What a product keeps of an input that nothing else keeps, in elements of 16 bits. */
p4d_wide p4d_megatron__fp8_kept(const p4d_layout *layout, p4d_wide elements);

/* Copies of an input that is gathered again for the weights' gradients: MXFP8 and NVFP4 are gathered as
 * needed, of others the second one is made of the first. */
unsigned p4d_megatron__fp8_gathered(const p4d_rows *rows);

/* Whether the product after attention keeps its input cast: else as it is given (attention.py,
 * set_save_original_input). */
bool p4d_megatron__fp8_saves_output(const p4d_layout *layout);

/* Elements of a stage's weights that products take in FP8; embeddings, head, norms and biases are not. */
p4d_wide p4d_megatron__fp8_weights(const p4d_rows *rows);

/* Numbers of a micro-batch and a layer on this rank, in elements. */
typedef struct p4d_megatron_sizes {
	uint64_t tokens, own; /* own: of them, where sequence parallelism shards */
	uint64_t h, A, G, F;  /* columns: hidden, queries, keys or values, feed-forward */
	uint64_t up;          /* of the first feed-forward product: gate and up, or up */
	uint64_t product;     /* that the activation saves of its results; in FP8, of 16 bits */
	uint64_t outputs;     /* of attention, that it and the next product save */
	uint64_t norm;        /* that a norm's product saves of its result: h, in FP8 of 16 bits */
	p4d_wide ffn;         /* all that the feed-forward part saves, its residual included */
	bool mixed;           /* layers have experts or latent attention: see megatron_experts.c */
	/* of those: widest moments of a layer's passes, beside what is saved; that of attention's backward
	 * pass beside the least that is freed until then; what is left of all layers when their passes are
	 * over */
	p4d_wide forward, backward, attention, attention_saved, left;
	p4d_wide ffn_forward, ffn_backward; /* the same of a feed-forward part without experts */
	p4d_wide further;                   /* of layers for further tokens: what they save, in 16 bits */
	bool gathers;                       /* sequence parallelism: inputs of products are gathered */
} p4d_megatron_sizes;

p4d_megatron_sizes p4d_framework__megatron_sizes(const p4d_layout *layout, uint64_t micro_batch);

/*
 * Columns of attention's first product besides the values, which are a part of it. If ranks have copies of
 * key/value heads, the product of all ranks is gathered (attention.py, get_query_key_value_tensors).
 */
static inline uint64_t p4d_megatron__product(const p4d_layout *layout, const p4d_megatron_sizes *sizes)
{
	return layout->kv_heads < layout->tp
		   ? (layout->heads + 2 * layout->kv_heads) * layout->head_dim - sizes->G
		   : sizes->A + sizes->G;
}

/* How the layers of a chunk are recomputed. */
typedef struct p4d_megatron_again {
	uint64_t groups; /* each keeps its input; 0 where not layers are recomputed */
	uint64_t layers; /* of the group that is being recomputed */
	uint64_t whole;  /* layers of the chunk that are not recomputed */
} p4d_megatron_again;

/*
 * Models with experts or latent attention (megatron_experts.c): fills the members of sizes that differ; and
 * the rows of what their layers save, and of what the first step allocates for them.
 */
void p4d_megatron__size_experts(const p4d_rows *rows, p4d_megatron_sizes *sizes);
void p4d_megatron__expert_layers(p4d_rows *rows, const p4d_megatron_again *again, p4d_megatron_sizes *sizes);
void p4d_megatron__expert_libraries(p4d_rows *rows, const p4d_megatron_sizes *sizes);

/* Of one such layer: what its experts save, but for the router; the rows of that, of so many layers. */
p4d_wide p4d_megatron__saved_by_experts(const p4d_layout *layout, const p4d_megatron_sizes *sizes);
void p4d_megatron__keep_experts(p4d_rows *rows, const p4d_megatron_sizes *sizes, uint64_t layers);

/* Fills ffn_forward and ffn_backward (megatron_states.c). */
void p4d_megatron__size_ffn(const p4d_rows *rows, p4d_megatron_sizes *sizes);

/* The same of hybrid models (megatron_states.c), whose layers are one block each. */
void p4d_megatron__size_states(const p4d_rows *rows, p4d_megatron_sizes *sizes);
void p4d_megatron__state_layers(p4d_rows *rows, const p4d_megatron_sizes *sizes);
void p4d_megatron__state_libraries(p4d_rows *rows);

/*
 * CUDA graphs of Transformer Engine (megatron_graphs.c): a row of what layers save, in slots, stays where it
 * is if its group is captured. And what graphs hold beside that.
 */
typedef enum p4d_megatron_group { INPUT, NORM, HEADS, STATISTICS, MIDDLE, FFN } p4d_megatron_group;
void p4d_megatron__captured(p4d_rows *rows, p4d_megatron_group group, p4d_tensor *row);
void p4d_megatron__graphs(p4d_rows *rows, const p4d_megatron_sizes *sizes);
/*
 * Unfused attention (megatron_unfused.c). Bytes for each pair of tokens of a head: what a layer keeps, and
 * what its passes hold beside that. pairs: of all heads of the rank. mask: bytes of the causal mask.
 */
typedef struct p4d_megatron_scores {
	unsigned saved, forward, backward;
	p4d_wide pairs, mask;
	bool kernel; /* Transformer Engine's softmax, else PyTorch's, which keeps the mask */
} p4d_megatron_scores;
p4d_megatron_scores p4d_megatron__scores(const p4d_layout *layout, const p4d_megatron_sizes *sizes,
					 bool dropout);
/* Elements that attention's passes hold beside the slots, less what the feed-forward part has not saved yet
 * or has freed; 0 with fused attention. */
p4d_wide p4d_megatron__unfused_forward(const p4d_rows *rows, const p4d_megatron_sizes *sizes);
p4d_wide p4d_megatron__unfused_backward(const p4d_rows *rows, const p4d_megatron_again *again,
					const p4d_megatron_sizes *sizes, uint64_t inputs);

/* The attention mask of the data loader (megatron_mask.c). Slots have their rows before. */
void p4d_megatron__mask(p4d_rows *rows, const p4d_megatron_again *again, const p4d_megatron_sizes *sizes);
/* Tensors of one micro-batch in the slots, in bytes; and how many narrow tensors the schedule refers to
 * besides them (megatron_passes.c). */
p4d_wide p4d_megatron__slot_bytes(const p4d_rows *rows, const p4d_megatron_sizes *sizes);
uint64_t p4d_megatron__inputs_held(const p4d_rows *rows);

/* A row of so many elements at one live point; none of 0. */
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
