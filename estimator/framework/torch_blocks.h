/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/caching_allocator.h"
#include "tape/tape.h"

/*
 * Simulates a tape on PyTorch's allocator. tape.c only sums bytes; these functions allocate and free single
 * blocks, in PyTorch's order.
 */
typedef struct p4d_torch_blocks {
	p4d_caching_allocator *allocator;
	uint64_t workspace; /* cuBLAS's workspace for each matmul; 0: one workspace for all */
	/* Called when the gradient of a parameter exists. The owner allocates a block for it or adds it to
	 * an earlier gradient. If the operation's `lowered` (p4d_tape_operation in tape.h) is not 0, autograd
	 * casts the gradient from a block of that many bytes, which still exists during this call. */
	void (*gradient)(void *owner, uint64_t bytes);
	void *owner;
	/* blocks, indexed by value and by operation; 0: none */
	p4d_allocated value[P4D_TAPE_VALUES], kept[P4D_TAPE_OPERATIONS], copy[P4D_TAPE_OPERATIONS];
	unsigned short saved[P4D_TAPE_VALUES]; /* by storage: number of operations that saved it */
	short until[P4D_TAPE_VALUES]; /* by value: the last operation during which Python refers to it */
} p4d_torch_blocks;

/*
 * A list of allocated blocks that outlive one pass. overflow: the list would need more than P4D_TORCH_HELD
 * entries.
 */
enum { P4D_TORCH_HELD = 3072 };
typedef struct p4d_torch_held_blocks {
	p4d_allocated of[P4D_TORCH_HELD];
	unsigned count;
	bool overflow;
} p4d_torch_held_blocks;

void p4d_torch_blocks__hold(p4d_torch_held_blocks *held, p4d_allocated block);
/* Allocates a block and adds it to the list `into`. If `into` is NULL, the block is never freed. */
void p4d_torch_blocks__take(p4d_caching_allocator *allocator, p4d_torch_held_blocks *into, p4d_wide bytes);
/* Frees all blocks except the first `count`. */
void p4d_torch_blocks__release(p4d_caching_allocator *allocator, p4d_torch_held_blocks *held, unsigned count);

typedef enum p4d_torch_pass {
	P4D_TORCH_SAVES,      /* saves tensors for a backward pass */
	P4D_TORCH_SAVES_NONE, /* saves none: under checkpointing, or in evaluation */
	P4D_TORCH_AGAIN,      /* recomputation by checkpointing: stops after the last operation that saves a
			       * tensor */
} p4d_torch_pass;

/* Simulates the forward pass on the block `input` and returns the block of the result. */
p4d_allocated p4d_torch_blocks__forward(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_pass pass,
					p4d_allocated input, bool keep_input, p4d_torch_held_blocks *cached);
/* Appends the saved blocks of a pass to a list. */
void p4d_torch_blocks__put(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_held_blocks *saved);
/* Takes the saved blocks of a pass from the end of the list. */
void p4d_torch_blocks__get(p4d_torch_blocks *b, const p4d_tape *tape, p4d_torch_held_blocks *saved);

/*
 * Simulates the backward pass. Takes the block of the result's gradient, frees it, and returns the block of
 * the input's gradient.
 */
p4d_allocated p4d_torch_blocks__backward(p4d_torch_blocks *b, const p4d_tape *tape, p4d_allocated gradient,
					 bool keep_input);

/*
 * Bytes that PyTorch reserves for a model of `layers` layers: on a GPU with enough memory or, with is_short,
 * on the smallest GPU that suffices. Simulates at most `depth` layers; each further layer adds as much as the
 * last one. *played: layers that are simulated.
 */
uint64_t p4d_torch_blocks__reserved(p4d_allocator_play *play, void *of, uint32_t *played, uint64_t layers,
				    uint32_t depth, bool is_short);
