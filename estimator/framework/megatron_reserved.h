/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_memory.h"
#include "plan/caching_allocator.h"

/*
 * Two steps of a rank of Megatron-LM while they are simulated on PyTorch's allocator, tensor by tensor:
 * both steps (megatron_reserved_steps.c), parameters and states (megatron_reserved_states.c), the schedule,
 * embedding and head (megatron_reserved_passes.c), layers (megatron_reserved_layers.c), attention
 * (megatron_reserved_attention.c) and experts (megatron_reserved_experts.c). The order of blocks is that of
 * Megatron-Core 0.16.1 with Transformer Engine 2.11, compared with what the allocator records in rehearsals;
 * test_megatron_memory.c compares the totals.
 */
enum {
	P4D_MEGATRON_PLAYED_SLOTS = 24,
	P4D_MEGATRON_ONCE = 32,
	P4D_MEGATRON_DEPTH = 24,
	P4D_MEGATRON_CHUNKS = 16,
	P4D_MEGATRON_RING = 64 /* largest number of context-parallel ranks that is simulated */
};

/* Indices of the blocks that a layer keeps for its backward pass. */
typedef enum p4d_megatron_kept {
	KEPT_INPUT,
	KEPT_NORM,
	KEPT_PRODUCT,
	KEPT_QUERY_BEFORE_NORM,
	KEPT_KEY_BEFORE_NORM,
	KEPT_QUERY,
	KEPT_KEY,
	KEPT_VALUE,
	KEPT_OUTPUT,
	KEPT_STATISTICS,
	/* with context parallelism: keys and values of the ring; outputs of both halves of the sequence;
	 * query, key, value and output with other heads */
	KEPT_RING,
	KEPT_FIRST_HALF,
	KEPT_SECOND_HALF,
	KEPT_OTHER_QUERY,
	KEPT_OTHER_KEY,
	KEPT_OTHER_VALUE,
	KEPT_OTHER_OUTPUT,
	KEPT_MIDDLE,
	KEPT_MASKS, /* dropout's masks */
	KEPT_SECOND_NORM,
	KEPT_EXPERT_INPUT,
	KEPT_UP,
	KEPT_GATE, /* the activated gate, if the activation is not fused with the multiplication */
	KEPT_OTHER_HALF,
	KEPT_ACTIVATION,
	KEPT_SHARED_UP,
	KEPT_SHARED_ACTIVATION,
	P4D_MEGATRON_KEPT
} p4d_megatron_kept;

/* Hidden states that stages send each other, and their gradients: numbers of entries; 0: none. */
enum { P4D_MEGATRON_STATES = 128 };
typedef struct p4d_megatron_state {
	p4d_allocated block;
	unsigned references;
	unsigned gradient; /* lives as long as its state */
} p4d_megatron_state;

typedef struct p4d_megatron_queue {
	unsigned of[P4D_MEGATRON_STATES], first, count;
} p4d_megatron_queue;

/* The variables of a stage's simulated schedule: hidden states, their gradients, and slots. */
typedef struct p4d_megatron_stage {
	p4d_megatron_state state[P4D_MEGATRON_STATES];
	uint32_t used;                                /* a mask of slots */
	unsigned input_of[P4D_MEGATRON_PLAYED_SLOTS]; /* by slot */
	p4d_allocated mask_of[P4D_MEGATRON_PLAYED_SLOTS];
	/*
	 * By chunk: states and gradients that were received and not yet used; slots in flight; the input of
	 * the last forward pass, to which the model refers until the next one (set_input_tensor).
	 */
	p4d_megatron_queue inputs[P4D_MEGATRON_CHUNKS], gradients[P4D_MEGATRON_CHUNKS],
	    slots[P4D_MEGATRON_CHUNKS];
	unsigned last_input[P4D_MEGATRON_CHUNKS];
	bool has_angles[P4D_MEGATRON_CHUNKS];
	p4d_allocated output; /* result of a forward pass that is being sent */
	/* variables of the schedule: the state that was received last, its gradient, and the gradient that is
	 * being sent or was sent */
	unsigned input, of_output, of_input, waited_for;
} p4d_megatron_stage;

typedef struct p4d_megatron_step {
	/*
	 * Blocks of `side` belong to the stream on which every other step of context-parallel attention runs.
	 * Their numbers are above P4D_ALLOCATOR_BLOCKS.
	 */
	p4d_caching_allocator main, side;
	p4d_allocator_streams streams; /* both */
	const p4d_layout *l;
	const p4d_plan *plan;
	p4d_megatron_sizes z;
	uint32_t layers, all_layers; /* layers of a chunk: those that are simulated, and all */
	uint32_t chunks, stage;
	unsigned slots; /* micro-batches in flight */
	bool first, last;
	bool routed[P4D_MEGATRON_CHUNKS][P4D_MEGATRON_DEPTH]; /* layers with experts */
	unsigned element;                                     /* bytes of an activation */
	bool exists[P4D_TENSORS];            /* rows of the plan that are already allocated */
	const char *once[P4D_MEGATRON_ONCE]; /* names of such rows */
	unsigned once_count;
	bool has_workspaces; /* the experts' workspaces are allocated */
	p4d_allocated kept[P4D_MEGATRON_PLAYED_SLOTS][P4D_MEGATRON_DEPTH][P4D_MEGATRON_KEPT];
	/* tensors of the head, whose backward pass follows immediately */
	p4d_allocated head_input, head_norm, logits;
	p4d_megatron_stage passes;
	/* parameters before they move into their buffers, and fp32 copies of gradients */
	p4d_allocated block[P4D_ALLOCATOR_BLOCKS];
	unsigned blocks;
} p4d_megatron_step;

/*
 * take_bytes and take allocate bytes or elements on the main stream, take_aside elements on the side stream.
 * They return 0 (no block) if the size is 0 or too large.
 */
static inline p4d_allocated take_bytes(p4d_megatron_step *p, p4d_wide bytes)
{
	return p4d_caching_allocator_take(&p->main, bytes);
}

static inline p4d_allocated take(p4d_megatron_step *p, p4d_wide elements)
{
	return elements >> 60 ? 0 : take_bytes(p, elements * p->element);
}

static inline p4d_allocated take_aside(p4d_megatron_step *p, p4d_wide elements)
{
	const p4d_allocated block =
	    elements >> 60 ? 0 : p4d_caching_allocator_take(&p->side, elements * p->element);

	if (block >= 0)
		return block ? block + P4D_ALLOCATOR_BLOCKS : 0;
	p4d_caching_allocator_give(&p->side, block); /* a small block has no number */
	return take(p, elements);
}

/* Frees a block of either stream and forgets it. */
static inline void give(p4d_megatron_step *p, p4d_allocated *block)
{
	if (*block > P4D_ALLOCATOR_BLOCKS)
		p4d_caching_allocator_give(&p->side, *block - P4D_ALLOCATOR_BLOCKS);
	else
		p4d_caching_allocator_give(&p->main, *block);
	*block = 0;
}

/* Allocates a block and then frees the old one, which the new one replaces. */
static inline void replace(p4d_megatron_step *p, p4d_allocated *block, p4d_wide elements)
{
	const p4d_allocated next = take(p, elements);

	give(p, block);
	*block = next;
}

/* Whether the simulation ends early: it has no more records, or memory is exhausted. */
bool p4d_megatron__ends(const p4d_megatron_step *step);
/* Bytes of a row of the plan; 0: it has no such row. */
uint64_t p4d_megatron__named(const p4d_megatron_step *step, const char *name);
/* Allocates a row of the plan at its first use. p4d never frees the block. */
void p4d_megatron__once(p4d_megatron_step *step, const char *name);
/* Allocates the result of a matmul. */
p4d_allocated p4d_megatron__matmul(p4d_megatron_step *step, p4d_wide elements);
/*
 * Allocates the gradient of a weight; the caller frees it. Returns 0 if Transformer Engine adds to the main
 * gradient: it then needs only a dummy gradient, which the first backward pass allocates.
 */
p4d_allocated p4d_megatron__weight_gradient(p4d_megatron_step *step, const char *dummy, p4d_wide elements);

/*
 * Elements of the hidden states of this rank's tokens. With sequence parallelism these are a part of the
 * tokens.
 */
static inline p4d_wide p4d_megatron__narrow(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.own * p->z.h;
}
static inline p4d_wide p4d_megatron__wide(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * p->z.h;
}
/* Allocates gathered hidden states. Returns 0 without sequence parallelism, which gathers nothing. */
p4d_allocated p4d_megatron__gathered(p4d_megatron_step *step);
/* Allocates the result of a matmul that is summed over tensor-parallel ranks. */
p4d_allocated p4d_megatron__summed(p4d_megatron_step *step);
