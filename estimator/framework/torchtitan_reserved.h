/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of torchtitan while its steps are simulated on PyTorch's allocator. torchtitan_reserved.c has the
 * parts of a step, and the step without a pipeline; torchtitan_reserved_stage.c has a stage of a pipeline. */
#pragma once

#include "framework/torch_blocks.h"
#include "framework/torchtitan.h"

/* Array bounds: matrices of a layer; micro-batches that a stage has in flight; gradients of a unit. */
enum { P4D_TITAN_MATRICES = 6, P4D_TITAN_SLOTS = 12, P4D_TITAN_GRADIENTS = 64 };

typedef struct p4d_titan {
	const p4d_layout *l;
	p4d_torchtitan_sizes z;
	uint32_t layers;                            /* number of layers of the stage */
	uint64_t matrix[P4D_TITAN_MATRICES], table; /* elements of each matrix of a layer on this rank, and of
						       one vocabulary table, unsharded */
	unsigned matrices,
	    tables; /* number of matrices; number of tables that are parameters (one in a tied model) */
	bool again; /* layers are recomputed */
	p4d_wide layer_bytes, table_bytes; /* bytes of a gathered unit */
	p4d_wide head_bytes; /* bytes of the head's gathered unit, which includes the last norm */
	p4d_torchtitan_writer t;
	p4d_tape tape;
	p4d_torch_blocks b;
	p4d_caching_allocator main, gathers, reduces;
	p4d_allocator_streams streams; /* used if the simulated GPU is nearly full */
	p4d_allocated gathered, reducing, state;
	p4d_allocated
	    logits; /* logits of the previous chunk, which Python keeps until those of the next chunk exist */
	p4d_torch_held_blocks
	    *saves; /* saved tensors of the micro-batch that runs; points to one element of `slot` */
	p4d_torch_held_blocks slot[P4D_TITAN_SLOTS], some, copies, tail, grads, reduced;
	uint64_t grad_bytes[P4D_TITAN_GRADIENTS]; /* bytes of each block in `grads` */
	/*
	 * Only with a pipeline: parameters of the stage's units; gradients of whole units, summed over
	 * micro-batches; the index of the next of these gradients to reduce; results of micro-batches in
	 * flight.
	 */
	p4d_torch_held_blocks gathered_units, sums;
	unsigned summed;
	p4d_allocated output[P4D_TITAN_SLOTS];
	bool first, last; /* whether the stage has the embedding; whether it has the head */
	unsigned ahead;   /* number of forward passes before the first backward pass */
} p4d_titan;

/* Bytes of the hidden states of this rank. p4d_titan__wide: of all tensor-parallel ranks together. */
static inline p4d_wide p4d_titan__hidden(const p4d_titan *p)
{
	return (p4d_wide)p->z.own * p->l->hidden * p->z.element;
}

static inline p4d_wide p4d_titan__wide(const p4d_titan *p)
{
	return (p4d_wide)p->z.tokens * p->l->hidden * p->z.element;
}

/* Allocates a block on the main stream and adds it to `into`. If `into` is NULL, the block is never freed. */
static inline void p4d_titan__take(p4d_titan *p, p4d_torch_held_blocks *into, p4d_wide bytes)
{
	p4d_torch_blocks__take(&p->main, into, bytes);
}

/* Frees all blocks of the list except the first `count`. */
static inline void p4d_titan__give(p4d_titan *p, p4d_torch_held_blocks *from, unsigned count)
{
	p4d_torch_blocks__release(&p->main, from, count);
}

/* Gathers a unit. Its buffer of `bytes` lives until the next gather, or until forget_gathered. */
void p4d_titan__gather(p4d_titan *p, p4d_wide bytes);
void p4d_titan__forget_gathered(p4d_titan *p);
/* Copies a gathered unit's parameters into blocks of their own, in the list `into`. */
void p4d_titan__copy_layer(p4d_titan *p, p4d_torch_held_blocks *into);
void p4d_titan__copy_table(p4d_titan *p, p4d_torch_held_blocks *into, unsigned tables);
/*
 * Reduces the gradients of a unit from one fp32 copy. accumulated: the reduced shard is added to that of
 * earlier micro-batches, so it is not kept.
 */
void p4d_titan__reduce(p4d_titan *p, p4d_wide bytes, bool accumulated);
/* Adds the gradients of a unit to p->sums. If accumulated is false, there are no sums yet: allocates them. */
void p4d_titan__add_up(p4d_titan *p, bool accumulated);
/* Allocates the gradient of a parameter and adds its block to the list `grads` of the p4d_titan. */
void p4d_titan__add_gradient(void *titan, uint64_t bytes);

/* Passes of modules whose parameters are already gathered. Each replaces p->state by its result. */
void p4d_titan__embed(p4d_titan *p);
void p4d_titan__forward_of_layer(p4d_titan *p);
void p4d_titan__backward_of_layer(p4d_titan *p);
/* Head and loss, forward and backward. */
void p4d_titan__loss(p4d_titan *p, bool accumulated);

/* torchtitan_reserved_stage.c: the passes of a stage of a pipeline, and the reduction after them. */
void p4d_titan__run_passes(p4d_titan *p);
