/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/caching_allocator.h"
#include "tape/tape.h"

/*
 * A tape played on PyTorch's allocator: tape.c says how much is held, this in which blocks. Blocks are taken
 * and given back in the order in which PyTorch does so.
 */
typedef struct p4d_torch_blocks {
	p4d_caching_allocator *allocator;
	uint64_t workspace; /* that cuBLAS is given for each product; 0: it has one for all */
	/* The gradient of a parameter is there: its owner takes a block, or adds it to another. Autograd
	 * casts it from a block of `lowered` bytes, which is still there. */
	void (*gradient)(void *owner, uint64_t bytes);
	void *owner;
	/* by value, and by operation; 0: none */
	p4d_allocated value[P4D_TAPE_VALUES], kept[P4D_TAPE_OPERATIONS], copy[P4D_TAPE_OPERATIONS];
	unsigned short saved[P4D_TAPE_VALUES]; /* of a storage: by so many operations */
	short until[P4D_TAPE_VALUES];          /* the operation after which Python has forgotten it */
} p4d_torch_blocks;

/* Blocks that something else keeps; `overflow`: there are more. */
enum { P4D_TORCH_HELD = 3072 };
typedef struct p4d_torch_held_blocks {
	p4d_allocated of[P4D_TORCH_HELD];
	unsigned count;
	bool overflow;
} p4d_torch_held_blocks;

void p4d_torch_blocks__hold(p4d_torch_held_blocks *held, p4d_allocated block);
/* Gives back all but the first `count`. */
void p4d_torch_blocks__release(p4d_caching_allocator *allocator, p4d_torch_held_blocks *held, unsigned count);

typedef enum p4d_torch_pass {
	P4D_TORCH_SAVES,      /* for a backward pass */
	P4D_TORCH_SAVES_NONE, /* checkpointing, or evaluation */
	P4D_TORCH_AGAIN, /* as checkpointing recomputes it: up to the last operation that saves something */
} p4d_torch_pass;

/*
 * The forward pass; returns the block of its result. The input's block is given back when nobody keeps it,
 * unless keep_input. cached: copies of weights that autocast keeps until the model's pass ends.
 */
p4d_allocated p4d_torch_blocks__forward(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_pass pass,
					p4d_allocated input, bool keep_input, p4d_torch_held_blocks *cached);
/* What the pass saved goes to the end of a list, and is taken from there again. */
void p4d_torch_blocks__put(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_held_blocks *saved);
void p4d_torch_blocks__get(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_held_blocks *saved);

/*
 * The backward pass from a gradient of the result, whose block it gives back; returns that of the input's
 * gradient. first: one operation is run behind those that need nothing saved; see p4d_tape_backward_again.
 */
p4d_allocated p4d_torch_blocks__backward(p4d_torch_blocks *b, const p4d_tape *tape, p4d_allocated gradient,
					 bool keep_input);

/*
 * Bytes that PyTorch reserves for a model of `layers` layers: on a GPU with enough memory, or (is_short) on
 * the smallest GPU that suffices. At most `depth` layers are played; each further layer takes as much as the
 * last. *played: layers that the play reads.
 */
uint64_t p4d_torch_blocks__reserved(p4d_allocator_play *play, void *of, uint32_t *played, uint64_t layers,
				    uint32_t depth, bool is_short);
