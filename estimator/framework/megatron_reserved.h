/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_memory.h"
#include "plan/caching_allocator.h"

/*
 * Two steps of a rank of Megatron-LM while they are simulated on PyTorch's allocator. megatron_reserved.c
 * simulates layers without experts from the rows of the plan, megatron_reserved_experts.c simulates layers
 * with experts tensor by tensor.
 */
enum {
	P4D_MEGATRON_TAKEN = 512,
	P4D_MEGATRON_PLAYED_SLOTS = 24,
	P4D_MEGATRON_DEPTH = 24,
	P4D_MEGATRON_KEPT = 18,
	P4D_MEGATRON_CHUNKS = 16
};

typedef struct p4d_megatron_blocks {
	p4d_allocated of[P4D_MEGATRON_TAKEN];
	unsigned count;
} p4d_megatron_blocks;

typedef enum p4d_megatron_cut { WHOLE, INTO_HALVES, INTO_HIDDEN, INTO_COLUMNS } p4d_megatron_cut;

typedef struct p4d_megatron_step {
	p4d_caching_allocator a;
	const p4d_layout *l;
	const p4d_plan *plan;
	p4d_megatron_sizes z;
	uint32_t layers, all_layers; /* layers of a chunk: those that are simulated, and all */
	uint32_t chunks, stage;
	unsigned slots;                   /* micro-batches in flight */
	unsigned tables;                  /* vocabulary tables */
	bool last, sharded;               /* sharded: each rank updates a part of the parameters */
	unsigned element;                 /* bytes of an activation */
	p4d_megatron_cut as[P4D_TENSORS]; /* rows of the plan */
	bool exists[P4D_TENSORS]; /* the rows of dummy gradients that a backward pass has already made */
	p4d_megatron_blocks some, gradients, saved[P4D_MEGATRON_PLAYED_SLOTS];
	/* With experts: `kept` has the blocks that a layer keeps for its backward pass; the next member has
	 * parameters before they move into their buffers. */
	p4d_allocated kept[P4D_MEGATRON_PLAYED_SLOTS][P4D_MEGATRON_DEPTH][P4D_MEGATRON_KEPT];
	p4d_allocated parameter[P4D_ALLOCATOR_BLOCKS];
	unsigned parameters;
} p4d_megatron_step;

/* Allocates `bytes` bytes and adds the block to `into`; NULL: the block is never freed. */
void p4d_megatron__take(p4d_megatron_step *step, p4d_megatron_blocks *into, uint64_t bytes);
/* Allocates `bytes` bytes and adds the block to `into`. If `into` is NULL, the block is never freed. */
void p4d_megatron__give(p4d_megatron_step *step, p4d_megatron_blocks *from, unsigned count);
/* Transformer Engine makes a dummy gradient in the first backward pass of a weight, and keeps it: "dummy.up".
 */
void p4d_megatron__make_dummy(p4d_megatron_step *step, const char *name);

/*
 * Layers with experts (megatron_reserved_experts.c). In this order: whether p4d simulates them; elements of a
 * layer's matrices; the largest number of layers for whose matrices the allocator has records.
 * p4d_megatron__load_experts allocates parameters, gradients and master weights, p4d_megatron__expert_states
 * a number of states of `element` bytes per parameter.
 */
bool p4d_megatron__plays_experts(const p4d_layout *layout);
uint64_t p4d_megatron__expert_layer(const p4d_megatron_step *step);
uint32_t p4d_megatron__expert_depth(const p4d_layout *layout);
void p4d_megatron__load_experts(p4d_megatron_step *step);
void p4d_megatron__expert_states(p4d_megatron_step *step, p4d_megatron_blocks *into, unsigned element,
				 unsigned copies);
void p4d_megatron__expert_forward(p4d_megatron_step *step, unsigned slot);
void p4d_megatron__expert_backward(p4d_megatron_step *step, unsigned slot);
