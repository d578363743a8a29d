/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm_device.h"
#include "model/host_link.h"
#include "model/rope.h"
#include "model/weights.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

/*
 * The part of the model that one rank computes. It has weights and activations in the arena of the rank's
 * plan, a device, and the groups that the rank communicates in. All code in this folder works on it. The
 * trainer decides in which order.
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

/* The arrays of a micro-batch that a caller wants filled; NULL: not wanted. */
typedef struct p4d_batch {
	/* (micro_batch, seq_len / cp): for this rank's place in dp and cp, in the order of sampler.h */
	int32_t *tokens, *labels;
	/*
	 * (micro_batch, seq_len), for whole sequences: a number for each token. Tokens of one document have
	 * the same number, and other documents of the sequence have other numbers. Only wanted with
	 * document_mask.
	 */
	int32_t *documents;
	/* (micro_batch, 2), with pairs only: log-probabilities that the reference gives the chosen answer and
	 * the rejected one */
	double *reference;
} p4d_batch;

/*
 * Source of micro-batches. The result must depend only on the arguments, because ranks that need a
 * micro-batch twice ask twice, and ranks that do not need it never ask.
 */
typedef int (*p4d_batch_source)(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
				p4d_error *err);

/* The buffers and weights of one layer in one pass. */
typedef struct p4d_layer {
	void *activation[ACT_COUNT]; /* NULL: the model has none */
	/*
	 * With slices, the keys and values of the pass's micro-batch (micro_batch, seq_len, 2 * kv), and
	 * their gradients; else NULL.
	 */
	void *keys_values;
	float *key_gradients;
	uint32_t number; /* the layer's number in the model */
	bool lost;       /* only its input exists: the backward pass recomputes everything else */
} p4d_layer;

enum { CHANNEL_FORWARD, CHANNEL_BACKWARD, CHANNEL_RING, CHANNEL_RING_GRADIENTS };

/* How many layers the host may run ahead of the device; see p4d_parallel_throttle. */
enum { P4D_AHEAD = 4 };

/*
 * Sums of a step that the device accumulates (B_SCALARS). The host reads them once per step, because reading
 * waits for all queued work.
 */
typedef struct p4d_scalars {
	/* sums over this rank's micro-batches; margin and preferred: only with pairs (pairs.h) */
	double loss, margin, preferred;
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

/* State of depth.h: which matrices are gathered, and which gradients are being summed. */
typedef struct p4d_depth {
	uint32_t layer[P4D_DEPTH_PLACES]; /* layer in each place; UINT32_MAX: none */
	/* for each place: number of the group's calls up to the end of its last gather */
	uint64_t calls[P4D_DEPTH_PLACES];
	unsigned computed; /* a bit for each matrix of the layer: this pass has computed its gradient */
	unsigned summed;   /* a bit for each gradient of sum_layer that is being summed */
	uint32_t sum_layer;
	uint64_t sum_calls;
} p4d_depth;

/*
 * Groups of documents in each copy of the row data.document_places (document_groups.h). All pointers are NULL
 * if the plan has no such row, or documents are not masked.
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
	/* window NULL: this rank's device has all parameters; gradient_window NULL: it has all gradients */
	p4d_window *window;
	p4d_swap *swap;     /* NULL: layers keep activations in slots */
	p4d_host_link lift; /* link for parameters on the host; open if there are any */
	p4d_gradient_window *gradient_window;

	p4d_dtype type;
	uint64_t element; /* bytes of type */
	uint64_t batch;   /* sequences */
	/* on this rank: number of tokens; of tokens under sequence parallelism; of hidden features */
	uint64_t n, ns, h;
	uint64_t f, q, kv; /* numbers of columns on this rank */
	uint64_t up;       /* columns of the gradient of the matmul before the activation */
	uint64_t columns;  /* q + 2 * kv */
	uint64_t length;   /* tokens of a sequence on this rank */
	/* number of tokens of each sequence before this pass, whose keys exist; see generate.h */
	uint64_t before;
	uint64_t whole; /* number of tokens of a whole micro-batch, in all its slices */
	/* number of tokens, over all sequences, in the slices before this pass's slice */
	uint64_t slice_first;
	uint64_t micro_batch; /* number of the pass's slice */
	uint32_t sequences;   /* which micro-batch's keys and values the pass uses */
	uint64_t layers;      /* number of layers of a chunk */
	uint64_t shards;      /* number of shards of the optimizer state */
	unsigned parts;       /* number of parts in which tp ranks exchange tokens; see parallel.h */
	bool first, last;     /* whether the stage begins, and whether it ends the model */
	struct {
		p4d_weight_kind norm, table;
		uint32_t layer; /* layer by which they are found */
	} head;                 /* the head whose loss this stage computes: the model's, or its own */
	bool tied_ends;         /* the table is both embedding and head, and two stages have a copy */
	uint32_t last_stage;    /* the stage on which the model ends */

	/*
	 * Groups for data on the device. tp, cp: ranks of these directions. dp_cp: ranks of dp*cp that share
	 * an optimizer; all of them if it is not sharded. copies: ranks with a copy of this rank's shard. pp:
	 * the stages. vocabulary: tp*stages. embedding_group: first and last stage with a tied table; NULL on
	 * other stages. Collectives of dp_cp are asynchronous: a call only starts them, and the code that
	 * uses the result waits. With tp_comm_overlap those of tp are asynchronous as well.
	 */
	p4d_group *tp, *cp, *dp_cp, *copies, *pp, *vocabulary, *embedding_group;
	/*
	 * Groups Y and Z of a tp-grid, in which `tp` is the group X. NULL: one rank. Collectives of tp_z are
	 * also asynchronous.
	 */
	p4d_group *tp_y, *tp_z;
	p4d_depth depth;
	p4d_group *world; /* all ranks, for numbers on the host */
	/* ranks of cp in the reverse order, for data on the device; NULL: keys are not gathered */
	p4d_group *cp_reversed;

	/* source of micro-batches in the current step */
	p4d_batch_source source;
	void *context;
	uint64_t number;
	bool evaluating;
	uint64_t trained;
	/* of one micro-batch; the arrays have room for a second copy, which is in the order of slices */
	int32_t *host_tokens, *host_labels;
	/*
	 * three arrays for one micro-batch: its documents in the order of sequences, its documents in the
	 * order that attention needs, and scratch memory; NULL without document_mask
	 */
	int32_t *host_documents;
	p4d_document_groups document_groups;
	p4d_weight_codes codes;
	double *host_reference; /* of one micro-batch of pairs; NULL: the layout has no pairs */
	double *pair_sums;      /* (global_batch, 2), on the host; see pairs.h */
	/* the micro-batch in each buffer of the device; UINT32_MAX: none */
	uint32_t *token_holder, *label_holder, *document_holder;
	uint64_t *label_trained; /* number of labels that are trained on in each of these buffers */
	/* scales of the blocks of the tensor that is being quantized; see quantized.h */
	float *block_scales;
	bool *begun;              /* for each trained weight: whether its gradient has a first part */
	const int32_t *documents; /* documents of the current pass's micro-batch; NULL: no document mask */
	p4d_attention_documents packed; /* the same documents, for packed attention; most 0: none */
	/* number of thread blocks that receives occupy until their message comes */
	unsigned waiting_blocks;
	/* for each of the last layers, the event after it; see p4d_parallel_throttle */
	void *layer_events[P4D_AHEAD];
	uint64_t throttled;
} p4d_net;

/* Bytes of a buffer; 0: the plan has none. */
static inline uint64_t p4d_net_bytes(const p4d_net *net, p4d_buffer which)
{
	return net->row[which] ? net->row[which]->bytes : 0;
}

/*
 * Opens the net. Collective: every rank opens the same layout. No later function allocates. After an error,
 * p4d_net_close closes what was opened. Errors: UNMODELLED (this runtime cannot compute it), PLAN_CHANGED,
 * NO_MEMORY, DEVICE, RANK.
 */
int p4d_net_open(p4d_net *net, const p4d_net_settings *settings, uint32_t rank, p4d_error *err);
void p4d_net_close(p4d_net *net);

/* Whether a factor of the layout has an effect, because it is not 1. */
static inline bool p4d_scales(float factor)
{
	return factor < 1 || factor > 1;
}

/*
 * Call it before the instructions of step `number`. It forgets the micro-batches on the device, and sets
 * accumulators to 0.
 */
void p4d_net_begin(p4d_net *net, uint64_t number, bool evaluating, p4d_batch_source source, void *context);

/*
 * Call it before a pass of a micro-batch or of one slice of it. Sets m->micro_batch, n, ns, length, before
 * and the other members that depend on the slice. A net that was just opened has the sizes of the longest
 * slice.
 */
void p4d_net_begin_pass(p4d_net *net, uint32_t micro_batch);

/* Waits for the device, and reads the scalars of the step. Errors: DEVICE. */
int p4d_net_read_scalars(p4d_net *net, p4d_scalars *scalars, p4d_error *err);

/*
 * initialize.c: makes the weights of a new model. A value depends only on the seed, the tensor's name and the
 * element's position. If gradients are sharded, makes only this rank's shards. trained_only: leaves out
 * frozen weights.
 */
int p4d_net_initialize(p4d_net *net, uint64_t seed, bool trained_only, p4d_error *err);

/* Computes the initial values of elements at .. at+count-1 of a slice of a stage's own head, on the host. */
void p4d_net_draw_local(const p4d_net *net, uint64_t seed, const p4d_weight_slice *slice, uint64_t at,
			uint64_t count, float *to);

/* warm_up.c. Errors: DEVICE. */
int p4d_net__warm_up(p4d_net *net, p4d_error *err);

/*
 * arena_use.c. p4d_arena_use__mark fills the arena before anything else is written. p4d_arena_use returns how
 * many bytes of each class were ever written.
 */
void p4d_arena_use__mark(p4d_net *net);
int p4d_arena_use(const p4d_net *net, uint64_t used[P4D_PART_COUNT], p4d_error *err);
