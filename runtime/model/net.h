/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm_device.h"
#include "model/host_link.h"
#include "model/rope.h"
#include "model/weights.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

/*
 * The part of the model that one rank computes: its weights and activations in the arena of its plan, on a
 * device, with the groups of its place. Everything in this folder works on it; the trainer above decides the
 * order.
 */

typedef struct p4d_net_settings {
	const p4d_layout *layout; /* borrowed for the life of the net */
	const p4d_gpu *gpu;       /* NULL on the cpu */
	p4d_device *device;
	p4d_device *host; /* computes on data in the host's memory; NULL: `device` does */
	p4d_world *world;
	p4d_transport *transport; /* for data on the device; NULL: the device's memory is the host's */
	p4d_rope rope;
	float norm_epsilon;
	float z_loss;
	float adapter_scale; /* factor of adapters' outputs: LoRA's alpha divided by the rank */
	float beta;          /* DPO's beta, for a layout with pairs */
	uint64_t vocab;      /* rows of the vocabulary, without padding */
	uint64_t seed;       /* seed of dropout masks, and of weights that no released model has */
	bool document_mask;  /* tokens attend only to their own document */
} p4d_net_settings;

/* The requested parts of a micro-batch; NULL: not requested. */
typedef struct p4d_batch {
	/* (micro_batch, seq_len / cp): for this rank's place in dp and cp, in the order of sampler.h */
	int32_t *tokens, *labels;
	/* (micro_batch, seq_len): a number for each token of the whole sequences, equal for the tokens of one
	 * document and different for others of the sequence. Only requested with document_mask. */
	int32_t *documents;
	/* (micro_batch, 2), with pairs only: log-probabilities that the reference gives the chosen answer and
	 * the rejected one */
	double *reference;
} p4d_batch;

/*
 * The source of micro-batches. A function only of its arguments: ranks that need a micro-batch twice ask
 * twice, and ranks that do not need it never ask.
 */
typedef int (*p4d_batch_source)(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
				p4d_error *err);

/* The buffers and weights of one layer in one pass. */
typedef struct p4d_layer {
	void *activation[ACT_COUNT]; /* NULL: the model has none */
	/* with slices (micro_batch, seq_len, 2 * kv): for the micro-batch of the pass; else NULL */
	void *keys_values;
	float *key_gradients;
	uint32_t number; /* the layer's number in the model */
	bool lost;       /* only its input exists: the backward pass recomputes everything else */
} p4d_layer;

enum { CHANNEL_FORWARD, CHANNEL_BACKWARD, CHANNEL_RING, CHANNEL_RING_GRADIENTS };

/* How many layers the host may run ahead of the device; see p4d_parallel_throttle. */
enum { P4D_AHEAD = 4 };

/*
 * Numbers that a step accumulates on the device; B_SCALARS. Read once per step, because reading waits for all
 * queued work.
 */
typedef struct p4d_scalars {
	double loss, margin,
	    preferred;  /* sums over this rank's micro-batches; margin and preferred are of pairs (pairs.h) */
	double squares; /* sum of squares of its gradients */
	double matrix;  /* sum of squares of the matrix that is being orthogonalized (newton_schulz.h) */
	uint64_t nonfinite;
} p4d_scalars;

/* see window.h and gradient_window.h */
typedef struct p4d_window p4d_window;
typedef struct p4d_gradient_window p4d_gradient_window;
typedef struct p4d_swap p4d_swap; /* swap.h */
/* see weight_codes.h; both NULL: the plan keeps no codes */
typedef struct p4d_weight_codes {
	uint64_t *at; /* for each weight: where its codes begin in B_FP8_WEIGHTS; only matrices have codes */
	bool *made;   /* for each weight: whether these are the codes of the parameters of this step */
} p4d_weight_codes;

/* State of depth.h: gathered matrices, and gradients that are summed. */
typedef struct p4d_depth {
	uint32_t layer[P4D_DEPTH_PLACES]; /* layer in each place; UINT32_MAX: none */
	uint64_t calls[P4D_DEPTH_PLACES]; /* number of the group's calls up to and including each place's last
					     gather */
	unsigned computed; /* a bit for each matrix of the layer in this pass whose gradient was computed */
	unsigned summed;   /* gradients of sum_layer that are in transit */
	uint32_t sum_layer;
	uint64_t sum_calls;
} p4d_depth;

/*
 * Groups of documents in the copies of data.document_places (document_groups.h). All NULL if the plan has
 * none, or documents are not masked.
 */
typedef struct p4d_document_groups {
	int32_t *places; /* room for a copy */
	uint64_t *begin; /* where the documents of a micro-batch begin, and where the last one ends */
	uint64_t *count; /* (copies) */
	uint64_t *first; /* (copies, rows of a copy) the first token of each group */
} p4d_document_groups;

typedef struct p4d_net {
	p4d_net_settings set;
	const p4d_layout *l;
	p4d_device *d, *host;
	p4d_place place;
	p4d_schedule schedule;
	p4d_plan plan;
	p4d_instruction_list list;
	p4d_weights weights;
	char *arena, *host_arena;         /* the host's arena is NULL if no tensor is on the host */
	const p4d_tensor *row[B_BUFFERS]; /* NULL: the plan has none */
	/* NULL: this rank has all parameters, or all gradients */
	p4d_window *window;
	p4d_swap *swap;     /* NULL: layers keep activations in slots */
	p4d_host_link lift; /* link for parameters on the host; open if there are any */
	p4d_gradient_window *gradient_window;

	p4d_dtype type;
	uint64_t element; /* bytes of type */
	uint64_t batch;   /* sequences */
	uint64_t n, ns,
	    h; /* number of tokens; of tokens under sequence parallelism; of hidden features on this rank */
	uint64_t f, q, kv;    /* numbers of columns on this rank */
	uint64_t up;          /* columns of the gradient of the matmul before the activation */
	uint64_t columns;     /* q + 2 * kv */
	uint64_t length;      /* tokens of a sequence on this rank */
	uint64_t before;      /* number of tokens before this pass's whose keys exist; see generate.h */
	uint64_t whole;       /* number of tokens of a micro-batch in all slices */
	uint64_t slice_first; /* tokens of all sequences in the slices before that of the pass */
	uint64_t micro_batch; /* number of the pass's slice */
	uint32_t sequences;   /* index of the keys and values that belong to the pass */
	uint64_t layers;      /* number of layers of a chunk */
	uint64_t shards;      /* number of shards of the optimizer state */
	unsigned parts;       /* number of parts in which tokens pass between tp ranks; see parallel.h */
	bool first, last;     /* whether the stage begins, and whether it ends the model */
	struct {
		p4d_weight_kind norm, table;
		uint32_t layer; /* layer by which they are found */
	} head;                 /* the head whose loss this stage computes: the model's, or its own */
	bool tied_ends;         /* two stages have a copy of the table */
	uint32_t last_stage;    /* the stage on which the model ends */

	/*
	 * Groups for data on the device: the ranks of tp; of cp; those of dp*cp that share an optimizer (all
	 * of them, if it is not sharded); those with copies of its shard; the stages; tp*stages; the first
	 * and the last stage of a tied table (NULL on other stages). Collectives of dp_cp are asynchronous:
	 * they are only started, and awaited where results are used. With tp_comm_overlap those of tp are
	 * asynchronous as well.
	 */
	p4d_group *tp, *cp, *dp_cp, *copies, *pp, *vocabulary, *embedding_group;
	/* groups Y and Z of a tp-grid, in which `tp` is the group X; NULL: one rank. Collectives of tp_z are
	 * also asynchronous */
	p4d_group *tp_y, *tp_z;
	p4d_depth depth;
	p4d_group *world;       /* all ranks, for numbers on the host */
	p4d_group *cp_reversed; /* if keys are gathered, else NULL; for data on the device */

	/* source of micro-batches in the current step */
	p4d_batch_source source;
	void *context;
	uint64_t number;
	bool evaluating;
	uint64_t trained;
	int32_t *host_tokens, *host_labels; /* of one micro-batch; the arrays are longer, so that it can be
					       reordered by slices */
	int32_t *host_documents; /* documents of one micro-batch: in order, then reordered, then scratch; NULL
				    without document_mask */
	p4d_document_groups document_groups;
	p4d_weight_codes codes;
	double *host_reference; /* of one micro-batch of pairs; NULL: the layout has no pairs */
	double *pair_sums;      /* (global_batch, 2), on the host; see pairs.h */
	/* the micro-batch in each buffer of the device; UINT32_MAX: none */
	uint32_t *token_holder, *label_holder, *document_holder;
	uint64_t *label_trained;  /* number of labels that are trained on in each of these buffers */
	float *block_scales;      /* block scales of the tensor that is being quantized; see quantized.h */
	bool *begun;              /* for each trained weight: whether its gradient has a first part */
	const int32_t *documents; /* documents of the current pass's micro-batch; NULL: no document mask */
	p4d_attention_documents
	    packed; /* the same documents, for packed attention; most 0: the plan has no memory for them */
	unsigned waiting_blocks;       /* number of thread blocks that receives begun early occupy */
	void *layer_events[P4D_AHEAD]; /* event after each of the last layers */
	uint64_t throttled;
} p4d_net;

/* Bytes of a buffer; 0: the plan has none. */
static inline uint64_t p4d_net_bytes(const p4d_net *net, p4d_buffer which)
{
	return net->row[which] ? net->row[which]->bytes : 0;
}

/*
 * Collective: every rank opens the same layout. After this nothing allocates. After an error, p4d_net_close
 * closes what was opened. Errors: UNMODELLED (this runtime cannot compute it), PLAN_CHANGED, NO_MEMORY,
 * DEVICE, RANK.
 */
int p4d_net_open(p4d_net *net, const p4d_net_settings *settings, uint32_t rank, p4d_error *err);
void p4d_net_close(p4d_net *net);

/* Whether a factor of the layout changes anything, because it is not 1. */
static inline bool p4d_scales(float factor)
{
	return factor < 1 || factor > 1;
}

/*
 * Call it before the instructions of step `number`: no micro-batch is on the device, and accumulators are 0.
 */
void p4d_net_begin(p4d_net *net, uint64_t number, bool evaluating, p4d_batch_source source, void *context);

/*
 * Call it before a pass of a micro-batch, or of one slice of it: sets its number, and n, ns, length, before
 * and other members of the slice. A net that was just opened has the sizes of the longest slice.
 */
void p4d_net_begin_pass(p4d_net *net, uint32_t micro_batch);

/* Waits for the device, and reads the scalars of the step. Errors: DEVICE. */
int p4d_net_read_scalars(p4d_net *net, p4d_scalars *scalars, p4d_error *err);

/*
 * initialize.c: weights of a new model, as a function of seed, name and position of the element; if gradients
 * are sharded, only this rank's shards. trained_only: not frozen weights.
 */
int p4d_net_initialize(p4d_net *net, uint64_t seed, bool trained_only, p4d_error *err);

/* Computes the initial values of elements at .. at+count-1 of a slice of a stage's own head, on the host. */
void p4d_net_draw_local(const p4d_net *net, uint64_t seed, const p4d_weight_slice *slice, uint64_t at,
			uint64_t count, float *to);

/* warm_up.c. Errors: DEVICE. */
int p4d_net__warm_up(p4d_net *net, p4d_error *err);

/*
 * arena_use.c: marks the arena before anything is written; and returns the bytes that were ever written, by
 * class.
 */
void p4d_arena_use__mark(p4d_net *net);
int p4d_arena_use(const p4d_net *net, uint64_t used[P4D_PART_COUNT], p4d_error *err);
