/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TRAINER_PARTS_H
#define P4D_TRAINER_PARTS_H

#include "trainer/trainer.h"

/* Inside the trainer: what its files share. trainer.h is for everyone else. */

/* Rows of the plan that the model uses, in the order of p4d_row_names. */
typedef enum p4d_buffer {
	B_PARAMETERS,
	B_GRADIENTS,
	B_MASTER,
	B_FIRST,
	B_SECOND,
	B_TOKENS,
	B_LABELS,
	B_DOCUMENTS,
	B_SEND_FORWARD,
	B_SEND_BACKWARD,
	B_EMBEDDING_OUTPUT,
	B_EMBEDDING_GRADIENT,
	B_HEAD_OUTPUT,
	B_HEAD_GRADIENT,
	B_ROPE,
	B_POSITIONS,
	B_SCALARS,
	B_REDUCTIONS,
	B_LIBRARY,
	B_HEAD_INPUT,
	B_HEAD_RSTD,
	B_LOGITS,
	B_LOGITS_GRADIENT,
	B_STATISTICS,
	B_VOCABULARY_HIDDEN,
	B_VOCABULARY_STATISTICS,
	B_VOCABULARY_HIDDEN_GRADIENT,
	B_HIDDEN,
	B_NORMED,
	B_NORMED_GRADIENT,
	B_PARTIAL,
	B_GATHERED,
	B_GATHERED_GRADIENT,
	B_PRODUCT,
	B_PRODUCT_GRADIENT,
	B_ATTENTION_GRADIENT,
	B_QKV_GRADIENT,
	B_FORWARD_WORKSPACE,
	B_BACKWARD_WORKSPACE,
	B_ROW_SUMS,
	B_QKV_SUMS,
	B_RING_KEYS_VALUES,
	B_RING_OUTPUT,
	B_RING_LSE,
	B_RING_BACK_KEYS_VALUES,
	B_RING_BACK_GRADIENTS,
	B_GATHERED_KEYS_VALUES,
	B_GATHERED_BACK_KEYS_VALUES,
	B_GATHERED_BACK_GRADIENTS,
	B_BUFFERS
} p4d_buffer;

/* What a layer makes on its way forward. */
typedef enum p4d_made {
	MADE_INPUT,
	MADE_INPUT_RSTD,
	MADE_QKV,
	MADE_QK_RSTD,
	MADE_ATTENTION,
	MADE_LSE,
	MADE_MIDDLE,
	MADE_MIDDLE_RSTD,
	MADE_GATE_UP,
	MADE_COUNT
} p4d_made;

/* The buffers and weights of one layer in one pass. */
typedef struct p4d_layer {
	void *made[MADE_COUNT]; /* NULL: the model has none */
	uint32_t number;        /* of the model */
} p4d_layer;

enum { CHANNEL_FORWARD, CHANNEL_BACKWARD, CHANNEL_RING, CHANNEL_RING_GRADIENTS };

/* The buffers of one direction, and the sends that are on their way from them. */
typedef struct p4d_sends {
	p4d_pending pending[P4D_SEND_BUFFERS];
	bool busy[P4D_SEND_BUFFERS];
	unsigned current; /* the buffer that the pass before the next SEND fills */
} p4d_sends;

/* Layers of a pass that the host may be ahead of the device; see p4d_keep_pace. */
enum { P4D_AHEAD = 4 };

/* What a step adds up on the device; B_SCALARS. Read once a step: reading waits for all that was queued. */
typedef struct p4d_scalars {
	double loss, squares; /* of this rank's micro-batches; of its gradients */
	uint64_t nonfinite;
} p4d_scalars;

struct p4d_trainer {
	p4d_trainer_settings set;
	const p4d_layout *l;
	p4d_device *d;
	p4d_place place;
	p4d_schedule schedule;
	p4d_plan plan;
	p4d_list list;
	p4d_weights weights;
	char *arena;
	const p4d_tensor *row[B_BUFFERS], *kept[MADE_COUNT], *again[MADE_COUNT];

	p4d_dtype type;
	uint64_t element;    /* bytes of type */
	uint64_t n, ns, h;   /* tokens; under sequence parallelism; hidden */
	uint64_t f, q, kv;   /* columns of this rank */
	uint64_t columns;    /* q + 2 * kv */
	uint64_t length;     /* tokens of a sequence on this rank */
	uint64_t layers;     /* of a chunk */
	uint64_t shards;     /* of the optimizer state */
	uint32_t shard;      /* this rank's */
	bool first, last;    /* the stage begins, ends the model */
	bool tied_ends;      /* two stages hold a copy of the table */
	uint32_t last_stage; /* where the model ends */

	/*
	 * Data on the device: tp, cp, dp*cp, stages, tp*stages, the two ends of a tied table (NULL
	 * elsewhere). Collectives of `replicas` run aside: gather_ahead and p4d_reduce_segment only call
	 * them.
	 */
	p4d_group *tp, *cp, *replicas, *pp, *vocabulary, *ends;
	p4d_group *world;       /* all ranks; numbers of the host */
	p4d_group *cp_reversed; /* where keys are gathered, else NULL; data on the device */

	/* of the step that runs */
	p4d_batch_source source;
	void *context;
	uint64_t number;
	bool evaluating;
	uint64_t trained;
	p4d_sends sends[2];
	int32_t *host_tokens, *host_labels;
	int32_t *host_documents; /* of a micro-batch, in order and then arranged; NULL without the mask */
	/* the micro-batch in each copy; UINT32_MAX: none */
	uint32_t *token_holder, *label_holder, *document_holder;
	uint64_t *label_trained;  /* labels that are trained on in each copy */
	const int32_t *documents; /* of the micro-batch of the pass that runs; NULL: not masked */
	float learning_rate;
	double most_loss;      /* that is applied */
	uint64_t *gathers;     /* by segment: calls of `replicas` after which its parameters are there */
	void *pace[P4D_AHEAD]; /* marks of the last layers */
	uint64_t paced;
	p4d_step_result result;
};

/* buffers.c */
void p4d_find_buffers(p4d_trainer *t);
void *p4d_at(const p4d_trainer *t, p4d_buffer which);
void *p4d_at_slot(const p4d_trainer *t, p4d_buffer which, uint32_t slot, uint32_t layer);
/* Buffer `number` of the P4D_SEND_BUFFERS in a row. */
void *p4d_hand_over(const p4d_trainer *t, p4d_buffer which, uint64_t number);
p4d_layer p4d_layer_at(const p4d_trainer *t, uint32_t chunk, uint32_t slot, uint32_t layer);
/* The parameters and gradients of a weight; NULL when the model has none. */
void *p4d_weight_of(const p4d_trainer *t, p4d_weight_kind kind, uint32_t layer);
float *p4d_gradient_of(const p4d_trainer *t, p4d_weight_kind kind, uint32_t layer);
/* Tokens and labels of a micro-batch; asks the source when they are not there. NULL: it failed. */
const int32_t *p4d_tokens_of(p4d_trainer *t, uint32_t micro_batch, p4d_error *err);
const int32_t *p4d_labels_of(p4d_trainer *t, uint32_t micro_batch, p4d_error *err);

/* Labels of a micro-batch, which are there, that are trained on. */
uint64_t p4d_trained_of(const p4d_trainer *t, uint32_t micro_batch);

/* parallel.c: what tensor and sequence parallelism add to a product */
/* All rows (n) of x (ns): x itself, or gathered into `to`. NULL: failed. */
const void *p4d_gather_rows(p4d_trainer *t, const void *x, void *to, p4d_error *err);
/* Where a product writes whose terms lie on all tp ranks: the partial sums, or `to` when there is one rank.
 */
void *p4d_terms(p4d_trainer *t, void *to);
/* to (ns, h) = the sum of what p4d_terms holds on all tp ranks. */
int p4d_add_terms(p4d_trainer *t, void *to, p4d_error *err);
/*
 * Before each layer. A queue of a device that is full holds up the host where it cannot hear that a rank is
 * gone. So it is never filled: the host waits, and listens, until the device is P4D_AHEAD layers behind.
 */
int p4d_keep_pace(p4d_trainer *t, p4d_error *err);
/* After the arena is there, and the list. */
int p4d_open_groups(p4d_trainer *t, p4d_error *err);
void p4d_close_groups(p4d_trainer *t);

/* arena_use.c: before anything is written */
void p4d_mark_arena(p4d_trainer *t);

/* warm_up.c. Errors: DEVICE. */
int p4d_warm_up(p4d_trainer *t, p4d_error *err);
void p4d_warm_product(p4d_trainer *t, const void *weight, float *gradient, uint64_t n, uint64_t out,
		      uint64_t in, bool logits);
void p4d_warm_head(p4d_trainer *t);      /* head.c */
void p4d_warm_attention(p4d_trainer *t); /* attention_layer.c */

/* trainer.c. Errors: DEVICE. */
int p4d_read_scalars(p4d_trainer *t, p4d_scalars *scalars, p4d_error *err);

/* trainer_state.c */
void p4d_fill_rope(p4d_trainer *t, float *scratch);

/* sequence_order.c */
/* Where token i of a context-parallel rank lies in its sequence. */
uint64_t p4d_place_in_sequence(const p4d_layout *l, uint64_t rank, uint64_t i);
/* The block of this rank's tokens; that of all keys where they are gathered. */
enum { P4D_GATHERED_BLOCK = 1 };
uint32_t p4d_own_block(const p4d_trainer *t);
/* shape->blocks: what this rank's queries see of the keys of a block. */
void p4d_find_blocks(const p4d_trainer *t, uint32_t block, p4d_attention_shape *shape);
/* scratch: as many as the plan's row has */
void p4d_fill_positions(p4d_trainer *t, int32_t *scratch);
/* t->documents of a micro-batch; asks the source when they are not there. */
int p4d_find_documents(p4d_trainer *t, uint32_t micro_batch, p4d_error *err);

/* attention_layer.c */
int p4d_attend(p4d_trainer *t, const p4d_layer *y, p4d_error *err);
int p4d_attend_back(p4d_trainer *t, const p4d_layer *y, p4d_error *err);
p4d_heads p4d_heads_of(const p4d_trainer *t, const p4d_layer *y);

/* layer_forward.c: input to output (ns, h); recompute makes again what was not kept */
int p4d_layer_forward(p4d_trainer *t, const p4d_layer *y, void *output, p4d_error *err);
int p4d_layer_recompute(p4d_trainer *t, const p4d_layer *y, p4d_error *err);
/* norm of x into B_NORMED, all rows of it. NULL: failed. */
const void *p4d_normed_rows(p4d_trainer *t, const void *x, float *rstd, p4d_weight_kind norm, uint32_t layer,
			    p4d_error *err);

/* layer_backward.c: B_HIDDEN is the gradient of the output, and becomes that of the input */
int p4d_layer_backward(p4d_trainer *t, const p4d_layer *y, p4d_error *err);
int p4d_layer_backward_weights(p4d_trainer *t, const p4d_layer *y, p4d_error *err);

/* embedding.c */
int p4d_embed(p4d_trainer *t, uint32_t micro_batch, void *to, p4d_error *err);
int p4d_embed_back(p4d_trainer *t, uint32_t micro_batch, const void *gradient, p4d_error *err);

/* head.c: loss of the hidden state in a slot; its gradient in B_HIDDEN unless evaluating */
int p4d_head(p4d_trainer *t, uint32_t micro_batch, uint32_t slot, p4d_error *err);
void p4d_head_norm(p4d_trainer *t, uint32_t slot, void *to);
void p4d_head_norm_back(p4d_trainer *t, uint32_t slot, const void *gradient);

/* vocabulary.c */
int p4d_vocabulary_pass(p4d_trainer *t, const p4d_instruction *in, p4d_error *err);
/*
 * The head over rows x (n, h): of each piece of tokens logits, statistics (merged over `group`), and what is
 * asked for. statistics: 3 * n.
 */
typedef struct p4d_head_work {
	const void *x;
	const int32_t *labels;
	float *statistics;
	p4d_group *group;
	bool merge;           /* make the statistics; else they are there */
	bool count;           /* add to the loss */
	bool input, weight;   /* gradients: of x, of the table */
	void *input_gradient; /* (n, h) */
} p4d_head_work;
int p4d_head_pieces(p4d_trainer *t, const p4d_head_work *work, p4d_error *err);

/* executor.c */
int p4d_execute(p4d_trainer *t, p4d_error *err);

/* optimizer.c */
/* Asks for the parameters of a segment, or of all whose GATHER_PARAMS is in the list, in its order. */
int p4d_gather_segment(p4d_trainer *t, uint32_t segment, p4d_error *err);
int p4d_gather_ahead(p4d_trainer *t, p4d_error *err);
int p4d_await_segment(p4d_trainer *t, uint32_t segment, p4d_error *err); /* they are used from here on */
/* Segments of a chunk; chunk == chunks: of the tables. */
uint32_t p4d_segments_of(const p4d_trainer *t, uint32_t chunk);
uint32_t p4d_segment_at(const p4d_trainer *t, uint32_t chunk, uint32_t i);
/* After a layer in the pass that is the last to add to its gradients, where they can be reduced beside what
 * follows; and what is left after that pass. */
int p4d_reduce_layer(p4d_trainer *t, const p4d_instruction *in, uint32_t layer, p4d_error *err);
int p4d_reduce_chunk(p4d_trainer *t, uint32_t chunk, p4d_error *err);
int p4d_reduce_segment(p4d_trainer *t, uint32_t segment, bool at_end, p4d_error *err);
int p4d_optimize(p4d_trainer *t, p4d_error *err);

#endif
