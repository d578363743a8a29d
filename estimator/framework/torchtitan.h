/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/torch.h"
#include "framework/transformers.h"

/*
 * torchtitan's modules: a layer's tape (torchtitan_layer.c, torchtitan_experts.c), head and loss
 * (torchtitan_head.c), units that are sharded as one (torchtitan_units.c), and the step that plays them
 * (torchtitan_fsdp.c, torchtitan_pipeline.c).
 */

/* Chunks of a stage that PyTorch's pipelines have gathered at a time (schedules.py, _add_unshard_reshard,
 * max_active_stages). */
enum { P4D_TORCHTITAN_ACTIVE_CHUNKS = 3 };

/* Live points of a step. */
enum {
	P4D_TORCHTITAN_TRAINING = 1 << P4D_AT_EMBED | 1 << P4D_AT_FORWARD | 1 << P4D_AT_LOSS |
				  1 << P4D_AT_HEAD | 1 << P4D_AT_BACKWARD_FFN | 1 << P4D_AT_BACKWARD_ATTENTION
};

/* Numbers of one rank, in elements unless they say bytes. */
typedef struct p4d_torchtitan_sizes {
	uint64_t tokens, own; /* tokens of a micro-batch; own: this rank's, with sequence parallelism */
	uint64_t h, V;        /* hidden; rows of the vocabulary on this rank */
	unsigned element, param, reduced; /* bytes: p4d_torch_types */
	uint64_t shards;                  /* ranks that shard */
	p4d_wide table, whole_table;      /* one vocabulary table, with the padding of shards; without it */
	p4d_wide layer, gathered;         /* the last layer, padded; bytes of it, gathered */
	p4d_wide stage;                   /* the stage, padded; a rank has one of `shards` of it */
	p4d_wide gathered_stage; /* bytes of it, where all is gathered, or as many chunks as may be */
	unsigned together; /* tables, of a shared one, that are gathered and reduced as one; 0: none are */
	bool accumulates;  /* gradients of earlier micro-batches are there when the last one runs */
	bool keeps_shards; /* reduced shards stay until the pass ends: as gradients or, if they are only added
			      to these, for the sum over copies of the model (HSDP) */
} p4d_torchtitan_sizes;

typedef struct p4d_torchtitan_writer {
	p4d_tape_writer w; /* tokens: those of the sequence, where tensor parallelism has all of them */
	uint64_t own;      /* tokens between products, which sequence parallelism shards */
	unsigned products; /* linear layers of this layer until now */
} p4d_torchtitan_writer;

p4d_torchtitan_writer p4d_torchtitan__writer(const p4d_layout *layout, p4d_tape *tape);

/* A layer's tape: with experts, or without. */
void p4d_torchtitan__layer(p4d_torchtitan_writer *writer, bool sparse);

/* torchtitan_layer.c: parts of both kinds. Whether recomputation is selective, and whether received tensors
 * are then kept; tokens of all ranks of tensor parallelism, and this rank's part of a sum over ranks. */
bool p4d_torchtitan__selects(const p4d_tape_writer *w);
bool p4d_torchtitan__keeps_received(const p4d_tape_writer *w);
p4d_tape_tensor p4d_torchtitan__whole(p4d_tape_writer *w, p4d_tape_tensor x);
p4d_tape_tensor p4d_torchtitan__scattered(p4d_tape_writer *w, p4d_tape_tensor x);
p4d_tape_tensor p4d_torchtitan__feed_forward(p4d_torchtitan_writer *t, p4d_tape_tensor x, uint64_t columns);

/* torchtitan_experts.c */
p4d_tape_tensor p4d_torchtitan__experts(p4d_torchtitan_writer *t, p4d_tape_tensor own);

/* What is gathered and reduced as one, in elements. */
typedef struct p4d_torchtitan_group {
	int64_t whole, padded;
	int64_t share;   /* part of the first rank */
	int64_t largest; /* parameter */
	int64_t ranks;
	int64_t element; /* bytes of one, gathered */
	bool cut;        /* not by the first dimension: put together from copies */
} p4d_torchtitan_group;

/* With ep a layer's experts are a group of their own, over the ranks that have the same ones. */
typedef struct p4d_torchtitan_unit {
	p4d_torchtitan_group group[2];
	int groups;
} p4d_torchtitan_unit;

p4d_torchtitan_unit p4d_torchtitan__layer_unit(const p4d_layout *l, const p4d_torchtitan_sizes *z,
					       bool sparse);
/* Tables of the vocabulary: the embedding's, or the head's with the norm before it, or both. */
p4d_torchtitan_unit p4d_torchtitan__table_unit(const p4d_layout *l, const p4d_torchtitan_sizes *z,
					       unsigned tables, bool norm);
/* Columns of an expert's feed-forward layer on the rank that has most of them: without ep, tensor parallelism
 * shards each expert, also where the ranks do not divide it. */
static inline uint64_t p4d_torchtitan__expert_columns(const p4d_layout *l)
{
	return (uint64_t)p4d_div_up(l->expert_ffn, l->ep > 1 ? 1 : l->tp);
}

/* Elements of a unit, padded, or a rank's share of them; bytes of it, gathered. */
int64_t p4d_torchtitan__elements(const p4d_torchtitan_unit *u, bool share);
int64_t p4d_torchtitan__gathered(const p4d_torchtitan_unit *u);

/* The most that a layer's pass holds in addition to what was there, and what it leaves, in bytes. */
typedef struct p4d_torchtitan_pass {
	int64_t most, end;
} p4d_torchtitan_pass;

/* Backward, without pipelines; with them of a first micro-batch, which leaves gradients of its parameters,
 * and of the others, whose gradients are added to these. */
typedef struct p4d_torchtitan_passes {
	p4d_torchtitan_pass forward, back, first, others;
} p4d_torchtitan_passes;

/* A step while it is played, in bytes. Layers without experts, and with them. */
typedef struct p4d_torchtitan_step {
	const p4d_layout *l;
	const p4d_torchtitan_sizes *z;
	p4d_torchtitan_writer t;
	p4d_torchtitan_unit layer[2], embedding, head;
	p4d_torchtitan_passes of[2];
	int64_t live;
	int64_t forward, loss, head_backward, backward; /* the most */
	int64_t state;                                  /* forward: the buffer of the last gather */
	int64_t reducing;                               /* backward: copies that are being reduced */
	bool ahead;                                     /* forward: units are gathered ahead */
	bool keeps; /* shards that were reduced stay: see p4d_torchtitan_sizes */
	bool recomputes;
} p4d_torchtitan_step;

static inline void p4d_torchtitan__peek(const p4d_torchtitan_step *p, int64_t beside, int64_t *most)
{
	if (p->live + beside > *most)
		*most = p->live + beside;
}

/* torchtitan_pipeline.c: plays the passes of a stage. Gathered parameters, and sent and received tensors,
 * have rows of their own and are not included. False: 64 bits do not suffice. */
bool p4d_torchtitan__play_stage(p4d_torchtitan_step *p, const p4d_rows *rows);

/* A lower bound of the peak of a stage without its parameters, which needs no play. */
double p4d_torchtitan__least_of_stage(const p4d_torchtitan_step *p, const p4d_rows *rows);

/* The stage's gathered parameters, and what it sends and receives, as rows. */
void p4d_torchtitan__stage_rows(p4d_rows *rows, const p4d_torchtitan_sizes *sizes);

/* torchtitan_head.c: head and loss. */
void p4d_torchtitan__head_rows(p4d_rows *rows, const p4d_torchtitan_sizes *sizes);

/* torchtitan_reserved.c: what the allocator reserves; 0: not known. */
uint64_t p4d_torchtitan__reserved(const p4d_layout *layout, bool is_short);

/* Bytes of the angles of rotary positions; each layer has its own. */
p4d_wide p4d_torchtitan__angles(const p4d_layout *l);
