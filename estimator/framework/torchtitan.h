/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/torch.h"
#include "framework/transformers.h"

/*
 * torchtitan's modules: a layer's tape (torchtitan_layer.c, torchtitan_experts.c), head and loss
 * (torchtitan_head.c), the units that FSDP shards (torchtitan_units.c), and the step that simulates the tapes
 * (torchtitan_fsdp.c, torchtitan_pipeline.c).
 */

/* Number of chunks of a stage whose parameters PyTorch's pipelines keep gathered at a time (schedules.py,
 * _add_unshard_reshard, max_active_stages). */
enum { P4D_TORCHTITAN_ACTIVE_CHUNKS = 3 };

/* Live points of a step. */
enum {
	P4D_TORCHTITAN_TRAINING = 1 << P4D_AT_EMBED | 1 << P4D_AT_FORWARD | 1 << P4D_AT_LOSS |
				  1 << P4D_AT_HEAD | 1 << P4D_AT_BACKWARD_FFN | 1 << P4D_AT_BACKWARD_ATTENTION
};

/* Numbers of one rank, in elements unless a comment says bytes. */
typedef struct p4d_torchtitan_sizes {
	uint64_t tokens, own; /* tokens of a micro-batch; own: this rank's share with sequence parallelism */
	uint64_t h, V;        /* columns of the residual stream; rows of the vocabulary on this rank */
	unsigned element, param, reduced; /* bytes per element: p4d_torch_types */
	uint64_t shards;                  /* ranks that shard parameters */
	p4d_wide table, whole_table;      /* parameters of one vocabulary table: padded to a multiple of the
					     shards; not padded */
	p4d_wide layer, gathered; /* parameters of the last layer, padded to a multiple of the shards; bytes
				     of this layer when gathered */
	p4d_wide stage; /* parameters of the stage, padded to a multiple of the shards; a rank has one of
			   `shards` parts */
	p4d_wide gathered_stage; /* bytes of all gathered chunks of the stage, or of as many chunks as PyTorch
				    gathers at a time */
	unsigned together; /* if embedding and head share a table: number of tables that FSDP gathers and
			      reduces as one unit; else 0 */
	bool accumulates;  /* when the last micro-batch runs, gradients of earlier micro-batches exist */
	bool keeps_shards; /* reduced shards stay allocated until the pass ends: as gradients or, if they
			    * are only added to gradients, for the sum over replicas (HSDP) */
} p4d_torchtitan_sizes;

typedef struct p4d_torchtitan_writer {
	p4d_tape_writer w; /* its member `tokens` counts the tokens of all tensor-parallel ranks together */
	uint64_t own;      /* tokens between matmuls, which sequence parallelism shards */
	unsigned products; /* number of linear layers written so far for this layer */
} p4d_torchtitan_writer;

p4d_torchtitan_writer p4d_torchtitan__writer(const p4d_layout *layout, p4d_tape *tape);

/* The tape of a layer. sparse: the layer has experts. */
void p4d_torchtitan__layer(p4d_torchtitan_writer *writer, bool sparse);

/*
 * Whether recomputation is selective. This and the next four functions are in torchtitan_layer.c, and serve
 * layers with and without experts.
 */
bool p4d_torchtitan__selects(const p4d_tape_writer *w);
/* Whether selective recomputation keeps tensors that a rank receives. */
bool p4d_torchtitan__keeps_received(const p4d_tape_writer *w);
/* A tensor of the tokens of all tensor-parallel ranks, gathered from their parts. */
p4d_tape_tensor p4d_torchtitan__whole(p4d_tape_writer *w, p4d_tape_tensor x);
/* This rank's part of a sum over the tensor-parallel ranks. */
p4d_tape_tensor p4d_torchtitan__scattered(p4d_tape_writer *w, p4d_tape_tensor x);
p4d_tape_tensor p4d_torchtitan__feed_forward(p4d_torchtitan_writer *t, p4d_tape_tensor x, uint64_t columns);

/* torchtitan_experts.c */
p4d_tape_tensor p4d_torchtitan__experts(p4d_torchtitan_writer *t, p4d_tape_tensor own);

/* torchtitan_memory.c: a memory layer (P4D_FEED_MEMORY), without tensor parallelism. */
p4d_tape_tensor p4d_torchtitan__memory(p4d_torchtitan_writer *t, p4d_tape_tensor x);
/* Adds the rows of the table of values that memory layers share. */
void p4d_torchtitan__memory_rows(p4d_rows *rows);

/*
 * torchtitan_fsdp.c: adds a row of bytes that live from the start or, with `later`, from the first update on.
 */
void p4d_torchtitan__always(p4d_rows *rows, const char *name, p4d_memory_class part, p4d_wide bytes,
			    bool later);
/*
 * Bytes of an optimizer's moments for this many parameters of `element` bytes. Moments have the type of their
 * parameters.
 */
p4d_wide p4d_torchtitan__moments(const p4d_layout *l, p4d_wide elements, unsigned element);

/* Parameters that FSDP gathers and reduces together. Sizes are in elements. */
typedef struct p4d_torchtitan_group {
	int64_t whole, padded;
	int64_t share;   /* elements of the first rank's part */
	int64_t largest; /* elements of the largest parameter */
	int64_t ranks;
	int64_t element; /* bytes per element when gathered */
	bool cut; /* sharded along another dimension than the first: FSDP needs a second copy to put the
		     parameter together */
} p4d_torchtitan_group;

/* A unit of FSDP. With ep, a layer's experts are a group of their own, sharded over the ranks with the same
 * experts. */
typedef struct p4d_torchtitan_unit {
	p4d_torchtitan_group group[2];
	int groups;
} p4d_torchtitan_unit;

p4d_torchtitan_unit p4d_torchtitan__layer_unit(const p4d_layout *l, const p4d_torchtitan_sizes *z,
					       bool sparse);
/* The FSDP unit of a vocabulary table: the embedding, or the head with the norm before it, or all of
 * these. */
p4d_torchtitan_unit p4d_torchtitan__table_unit(const p4d_layout *l, const p4d_torchtitan_sizes *z,
					       unsigned tables, bool norm);
/*
 * Columns of an expert's feed-forward layer, on the rank that has the most. Without ep, tensor parallelism
 * shards each expert, even if the ranks do not divide its columns.
 */
static inline uint64_t p4d_torchtitan__expert_columns(const p4d_layout *l)
{
	return (uint64_t)p4d_div_up(l->expert_ffn, l->ep > 1 ? 1 : l->tp);
}

/* Elements of a unit with padding; with `share`, only those of one rank's part. */
int64_t p4d_torchtitan__elements(const p4d_torchtitan_unit *u, bool share);
/* Bytes of the gathered unit. */
int64_t p4d_torchtitan__gathered(const p4d_torchtitan_unit *u);

/*
 * Bytes of a layer's pass: the peak above the memory before the pass, and the memory that remains after it.
 */
typedef struct p4d_torchtitan_pass {
	int64_t most, end;
} p4d_torchtitan_pass;

/*
 * Backward passes without pipelines. With pipelines: passes of the first micro-batch, which creates the
 * gradients of parameters, and passes of later micro-batches, which add to these gradients.
 */
typedef struct p4d_torchtitan_passes {
	p4d_torchtitan_pass forward, back, first, others;
} p4d_torchtitan_passes;

/* A step while it is simulated, in bytes. Arrays: layers without experts, and with experts. */
typedef struct p4d_torchtitan_step {
	const p4d_layout *l;
	const p4d_torchtitan_sizes *z;
	p4d_torchtitan_writer t;
	p4d_torchtitan_unit layer[2], embedding, head;
	p4d_torchtitan_passes of[2];
	int64_t live;
	int64_t forward, loss, head_backward, backward; /* the peak so far */
	int64_t state;    /* in forward passes: bytes of the buffer of the last gather */
	int64_t reducing; /* backward: copies of gradients that are being
			   * reduced */
	bool ahead;       /* in forward passes, FSDP gathers units ahead of their use */
	bool keeps;       /* reduced shards stay allocated, see p4d_torchtitan_sizes */
	bool recomputes;
} p4d_torchtitan_step;

static inline void p4d_torchtitan__peek(const p4d_torchtitan_step *p, int64_t beside, int64_t *most)
{
	if (p->live + beside > *most)
		*most = p->live + beside;
}

/* torchtitan_pipeline.c: simulates the passes of a stage. Gathered parameters, and sent and received tensors,
 * have rows of their own and are not included. False: the result does not fit 64 bits. */
bool p4d_torchtitan__play_stage(p4d_torchtitan_step *p, const p4d_rows *rows);

/* A lower bound of a stage's peak without its parameters. Needs no simulation. */
double p4d_torchtitan__least_of_stage(const p4d_torchtitan_step *p, const p4d_rows *rows);

/* Adds rows for the stage's gathered parameters, and for the tensors that it sends and receives. */
void p4d_torchtitan__stage_rows(p4d_rows *rows, const p4d_torchtitan_sizes *sizes);

/* torchtitan_head.c: head and loss. */
void p4d_torchtitan__head_rows(p4d_rows *rows, const p4d_torchtitan_sizes *sizes);

/* torchtitan_reserved.c: bytes that the allocator reserves on a rank of this stage; 0: unknown. */
uint64_t p4d_torchtitan__reserved(const p4d_layout *layout, uint32_t stage, const p4d_plan *plan,
				  bool is_short);

/* Bytes of the cosines and sines of rotary positions. Each layer has its own copy. */
p4d_wide p4d_torchtitan__angles(const p4d_layout *l);
