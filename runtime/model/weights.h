/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "plan/nf4.h"
#include "plan/optimizer.h"
#include "plan/shared_sizes.h"
#include "schedule/schedule.h"

/*
 * Where every parameter is stored. A stage has a flat buffer for parameters, one for gradients, and one for
 * each optimizer state or a shard of it. Each buffer has the chunks one after another, then the tables of
 * vocabulary parallelism, each padded as in p4d_parameters_padded. With adapters, these buffers have only the
 * adapters. The buffer of parameters then also has all weights of the model after them, frozen, in the same
 * order. Model code finds weights by kind and layer. Checkpoint code uses the same storage as slices of
 * tensors, with the names of Hugging Face's Llama.
 */

/* Coordinates of this rank; see p4d_place_of. */
typedef struct p4d_place {
	uint32_t tp, cp, dp, pp;
} p4d_place;

/*
 * Ranks count tensor parallel first, then context, data and pipeline parallel: rank = tp + TP*(cp + CP*(dp +
 * DP*pp)).
 */
p4d_place p4d_place_of(const p4d_layout *layout, uint32_t rank);
uint32_t p4d_place_rank(const p4d_layout *layout, p4d_place place);

/* Coordinates of place.tp in a --tp-grid, X first: tp = x + X*(y + Y*z). */
static inline p4d_tp_grid p4d_place_grid(const p4d_layout *l, p4d_place place)
{
	return (p4d_tp_grid){place.tp % l->tp, place.tp / l->tp % l->tp_y, place.tp / l->tp / l->tp_y};
}

/*
 * The comments below have each weight's shape on a rank; "/t" divides by the number of tp ranks. With a
 * tp-grid, h is also divided by Y, and the rows of layer matrices by Z: see p4d_weight.
 */
typedef enum p4d_weight_kind {
	P4D_W_EMBEDDING,      /* (V/t, h); V/(t*p) with vocabulary parallelism */
	P4D_W_ATTENTION_NORM, /* (h) */
	P4D_W_QKV,            /* ((A + 2G)/t, h): rows of queries, keys, values */
	P4D_W_QKV_BIAS,       /* ((A + 2G)/t) */
	P4D_W_QUERY_NORM,     /* (d) */
	P4D_W_KEY_NORM,       /* (d) */
	P4D_W_OUTPUT,         /* (h, A/t) */
	P4D_W_FFN_NORM,       /* (h) */
	P4D_W_GATE_UP,        /* (2f/t, h): rows of gates, then of ups; or (f/t, h): only ups */
	P4D_W_DOWN,           /* (h, f/t) */
	P4D_W_FINAL_NORM,     /* (h) */
	P4D_W_HEAD,           /* like the embedding */
	P4D_W_POSITIONS,      /* (positions, h), if positions are learned */
	P4D_W_OUTPUT_BIAS,    /* (h) */
	P4D_W_UP_BIAS,        /* (2f/t), or (f/t) without gates */
	P4D_W_DOWN_BIAS,      /* (h) */
	/* biases of LayerNorm (h) */
	P4D_W_ATTENTION_NORM_BIAS,
	P4D_W_FFN_NORM_BIAS,
	P4D_W_FINAL_NORM_BIAS,
	/* norms after each block (h) */
	P4D_W_ATTENTION_POST_NORM,
	P4D_W_FFN_POST_NORM,
	/* a stage's own loss: a norm (h), and a head like the embedding. Their layer is the stage's last */
	P4D_W_LOCAL_NORM,
	P4D_W_LOCAL_NORM_BIAS,
	P4D_W_LOCAL_HEAD,
	/* an adapter: A (rank, in), followed by B (out, rank), for each linear layer of p4d_adapted_of */
	P4D_W_ADAPTER,
	P4D_W_KINDS = P4D_W_ADAPTER + 2 * P4D_ADAPTED_LAYERS
} p4d_weight_kind;

static inline bool p4d_weights_adapts(p4d_weight_kind kind)
{
	return kind >= P4D_W_ADAPTER;
}

/* The kind of an adapter's A or B. number: index of its linear layer, as in p4d_adapted_of. */
static inline p4d_weight_kind p4d_weights_adapter(unsigned number, bool is_b)
{
	return (p4d_weight_kind)(P4D_W_ADAPTER + 2 * number + is_b);
}

/*
 * The linear layers that a matrix fuses: `count` consecutive numbers of p4d_adapted_of, beginning with
 * `first`.
 */
typedef struct p4d_matrix_layers {
	unsigned first, count; /* count 0: it is not a matrix of a layer */
} p4d_matrix_layers;
p4d_matrix_layers p4d_weights_layers_of(p4d_weight_kind matrix);

typedef struct p4d_weight {
	p4d_weight_kind kind;
	uint32_t layer;         /* layer of the model; 0 outside of layers */
	uint64_t rows, columns; /* on this rank; columns is 1 for vectors */
	uint64_t offset;        /* offset in elements in the stage's flat buffer */
	uint32_t
	    segment; /* segment that contains the weight; a frozen weight is in that segment's frozen part */
	bool decay;  /* weight decay applies to it: it is a matrix */
	/*
	 * the same on all tp ranks. Its gradients are summed over them, and it counts once in norms of
	 * gradients
	 */
	bool replicated;
	/*
	 * each rank of Y has other features; if false, all ranks of Y have the same weight and the same
	 * gradient
	 */
	bool over_y;
	/*
	 * rows are cut over Z, and gathered for use (depth.h); if false, each rank of Z has all rows, and
	 * gradients of its own sequences
	 */
	bool over_z;
	bool frozen; /* has no gradient */
	/*
	 * Stored in 4 bits (nf4.h) and not in the flat buffer. offset then counts bytes of B_QUANTIZED, which
	 * has the quantized tensors one after another.
	 */
	bool quantized;
} p4d_weight;

/*
 * A part of the flat buffer that is gathered, reduced and optimized together: see p4d_chunk_segments. The
 * last segments are vocabulary tables that are in no chunk.
 */
typedef struct p4d_segment {
	uint64_t offset, elements, padded; /* in the flat buffer */
	/*
	 * the frozen part of the same layer or table; frozen_padded 0: no window of parameters ever gets it
	 */
	uint64_t frozen_offset, frozen_padded;
	uint32_t layer; /* layer of the model */
	uint32_t first_weight, weights;
} p4d_segment;

typedef struct p4d_weights {
	uint32_t segments, count;
	uint32_t of_chunk;    /* number of segments in a chunk */
	uint32_t in_chunks;   /* number of segments of all chunks; those of tables follow */
	p4d_segment *segment; /* segments of chunks in order, then those of tables */
	p4d_weight *weight;
	uint32_t trained;         /* number of trained weights, which come first */
	uint64_t elements;        /* elements of the flat buffer, including padding */
	uint64_t frozen;          /* number of frozen elements, which follow the trained ones */
	uint64_t quantized_bytes; /* bytes of quantized matrices, which are not in the flat buffer */
} p4d_weights;

/*
 * Makes the list of one stage's weights. If head and embedding are tied, a stage with the embedding has no
 * entry for the head. If they are on two stages, both have a copy.
 */
int p4d_weights_open(p4d_weights *weights, const p4d_layout *layout, uint32_t stage, p4d_error *err);
void p4d_weights_close(p4d_weights *weights);

/*
 * The ranks of dp and cp have the same part of the model. In the order cp + CP*dp, groups of
 * p4d_optimizer_shards consecutive ranks each share one copy of the optimizer states. Returns the index of a
 * rank's shard, and of its copy.
 */
uint32_t p4d_weights_shard_number(const p4d_layout *layout, p4d_place place);
uint32_t p4d_weights_copy_number(const p4d_layout *layout, p4d_place place);

/*
 * Sets the range [*first, *first + *count) of the flat buffer: the shard of a segment's optimizer states on
 * the rank at a place. Shards are equally large. If the optimizer is not sharded, the range is the whole
 * segment.
 */
void p4d_weights_shard_of(const p4d_layout *layout, const p4d_segment *segment, p4d_place place,
			  uint64_t *first, uint64_t *count);

/* The kind of the bias of a LayerNorm; P4D_W_KINDS: this norm never has a bias. */
p4d_weight_kind p4d_weights__bias_of(p4d_weight_kind norm);

/* NULL: the stage does not have this weight. */
const p4d_weight *p4d_weights__find(const p4d_weights *weights, p4d_weight_kind kind, uint32_t layer);

/* The segment of a table, which the stage must have; a tied head is the embedding. */
uint32_t p4d_weights_table_segment(const p4d_weights *weights, p4d_weight_kind kind);

/* The first row of the whole table (embedding or head) that this rank has. */
uint64_t p4d_weights__table_row(const p4d_layout *layout, p4d_place place, const p4d_weight *table);

/*
 * The part of a tensor of the whole model that is in one rank's flat buffer: rows first_row.. and columns
 * first_column.. of the tensor `name`, stored row by row at `offset`. Padding rows after the real vocabulary
 * belong to no slice.
 */
typedef struct p4d_weight_slice {
	char name[96];                        /* "model.layers.7.self_attn.q_proj.weight" */
	uint64_t tensor_rows, tensor_columns; /* shape in the whole model; columns 0: a vector */
	uint64_t first_row, rows, first_column, columns;
	uint64_t offset; /* for a quantized weight: in elements from its beginning */
} p4d_weight_slice;

enum { P4D_SLICES_OF_WEIGHT = 3 };

/* "self_attn.q_proj": the module of a linear layer of p4d_adapted_of. */
const char *p4d_weights_adapted_name(unsigned number);

/* Whether a tensor belongs to a stage's own loss, not to the model. */
bool p4d_weights_is_local(const char *name);

/*
 * The slices of a weight on the rank at a place; returns their number. vocab: rows of the vocabulary, without
 * padding.
 */
unsigned p4d_weight_slices_of(const p4d_layout *layout, p4d_place place, uint64_t vocab,
			      const p4d_weight *weight, p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT]);

/*
 * A part of a quantized weight. Its slice is a whole tensor, also if the rank has only a part of it: blocks
 * count from the tensor's first element, so the whole tensor must be quantized. Slices of one tensor are
 * adjacent.
 */
typedef struct p4d_quantized_part {
	p4d_weight_slice slice; /* all rows and columns; its offset has no meaning */
	unsigned tensor;        /* number of the linear layer (p4d_adapted_of) that it belongs to */
	uint64_t first;         /* first element in the tensor */
} p4d_quantized_part;
unsigned p4d_weights_quantized_parts(const p4d_layout *layout, p4d_place place, uint64_t vocab,
				     const p4d_weight *weight,
				     p4d_quantized_part parts[P4D_SLICES_OF_WEIGHT]);
