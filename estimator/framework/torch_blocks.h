/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/caching_allocator.h"
#include "tape/tape.h"

/*
 * Plays a tape on PyTorch's allocator. tape.c computes how much is held; these functions compute the blocks.
 * Blocks are allocated and freed in PyTorch's order.
 */
typedef struct p4d_torch_blocks {
	p4d_caching_allocator *allocator;
	uint64_t workspace; /* cuBLAS's workspace for each matmul; 0: one workspace for all */
	/* Called when the gradient of a parameter exists. The owner allocates a block, or adds the gradient
	 * to another one. Autograd casts it from a block of `lowered` bytes, which still exists. */
	void (*gradient)(void *owner, uint64_t bytes);
	void *owner;
	/* blocks by value, and by operation; 0: none */
	p4d_allocated value[P4D_TAPE_VALUES], kept[P4D_TAPE_OPERATIONS], copy[P4D_TAPE_OPERATIONS];
	unsigned short saved[P4D_TAPE_VALUES]; /* number of operations that saved a storage */
	short until[P4D_TAPE_VALUES];          /* the operation after which Python has forgotten it */
} p4d_torch_blocks;

/* Blocks that are kept elsewhere; overflow: there are more than P4D_TORCH_HELD. */
enum { P4D_TORCH_HELD = 3072 };
typedef struct p4d_torch_held_blocks {
	p4d_allocated of[P4D_TORCH_HELD];
	unsigned count;
	bool overflow;
} p4d_torch_held_blocks;

void p4d_torch_blocks__hold(p4d_torch_held_blocks *held, p4d_allocated block);
/* Frees all except the first `count`. */
void p4d_torch_blocks__release(p4d_caching_allocator *allocator, p4d_torch_held_blocks *held, unsigned count);

typedef enum p4d_torch_pass {
	P4D_TORCH_SAVES,      /* for a backward pass */
	P4D_TORCH_SAVES_NONE, /* checkpointing, or evaluation */
	P4D_TORCH_AGAIN, /* recomputation by checkpointing: up to the last operation that saves something */
} p4d_torch_pass;

/*
 * Plays the forward pass and returns the block of its result. Frees the input's block if nothing keeps it,
 * unless keep_input. cached: copies of weights that autocast keeps until the model's pass ends.
 */
p4d_allocated p4d_torch_blocks__forward(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_pass pass,
					p4d_allocated input, bool keep_input, p4d_torch_held_blocks *cached);
/* put appends the saved blocks of a pass to a list; get takes them from its end. */
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
