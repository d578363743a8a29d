/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/torch.h"
#include "framework/transformers.h"

/* torchtitan's modules: between torchtitan_layer.c, torchtitan_experts.c and torchtitan_fsdp.c. */

typedef struct p4d_torchtitan_writer {
	p4d_tape_writer w; /* tokens: of the sequence, where tensor parallelism has all of them */
	uint64_t own;      /* of these, between products: sequence parallelism shards them */
	unsigned products; /* linear layers of this layer until now */
} p4d_torchtitan_writer;

p4d_torchtitan_writer p4d_torchtitan__writer(const p4d_layout *layout, p4d_tape *tape);

/* A layer's tape: with experts, or without, in a model that has experts or latent attention. */
void p4d_torchtitan__layer(p4d_torchtitan_writer *writer, bool sparse);

/* What is gathered and reduced as one, in elements. */
typedef struct p4d_torchtitan_group {
	int64_t whole, padded;
	int64_t share;   /* of the first rank */
	int64_t largest; /* parameter */
	int64_t ranks;
	bool cut; /* not by the first dimension: put together from copies */
} p4d_torchtitan_group;

/* With ep a layer's experts are a group of their own, over the ranks that have the same ones. */
typedef struct p4d_torchtitan_unit {
	p4d_torchtitan_group group[2];
	int groups;
} p4d_torchtitan_unit;

p4d_torchtitan_unit p4d_torchtitan__layer_unit(const p4d_layout *l, const p4d_torch_sizes *z, bool sparse);
/* Tables of the vocabulary: the embedding's, or the head's with the norm before it, or both. */
p4d_torchtitan_unit p4d_torchtitan__table_unit(const p4d_layout *l, const p4d_torch_sizes *z, unsigned tables,
					       bool norm);
/* Elements of a unit, padded, or a rank's share of them. */
int64_t p4d_torchtitan__elements(const p4d_torchtitan_unit *u, bool share);

/* What a layer's passes hold; pipelines: first, of a first micro-batch's backward pass, which leaves
 * gradients of its parameters, while those of others are added to them. */
typedef struct p4d_torchtitan_passes {
	p4d_tape_pass forward, back, first;
} p4d_torchtitan_passes;

/* A step while it is played, in bytes. Of layers: without experts, and with them. */
typedef struct p4d_torchtitan_step {
	const p4d_layout *l;
	const p4d_torch_sizes *z;
	p4d_torchtitan_writer t;
	p4d_torchtitan_unit layer[2], embedding, head;
	p4d_torchtitan_passes of[2];
	int64_t live;
	int64_t forward, loss, head_backward, backward; /* the most */
	int64_t state;                                  /* forward: the buffer of what was gathered last */
	int64_t reducing;                               /* backward: copies of what is reduced */
	bool ahead;                                     /* forward: units are gathered ahead */
	bool keeps; /* shards that were reduced stay: see p4d_torch_sizes */
	bool recomputes;
} p4d_torchtitan_step;

static inline void p4d_torchtitan__peek(const p4d_torchtitan_step *p, int64_t beside, int64_t *most)
{
	if (p->live + beside > *most)
		*most = p->live + beside;
}

/* torchtitan_pipeline.c: the passes of a stage, beside its parameters, which are gathered, and what it
 * sends and receives; these have rows of their own. False: too much for 64 bits. */
bool p4d_torchtitan__play_stage(p4d_torchtitan_step *p, const p4d_rows *rows);

/* write_sparse of p4d_torch_modules. */
void p4d_torchtitan__sparse_rows(p4d_rows *rows, p4d_torch_sizes *sizes);

/* The loss, beside the head. */
void p4d_torchtitan__loss(p4d_rows *rows, const p4d_torch_sizes *sizes);
