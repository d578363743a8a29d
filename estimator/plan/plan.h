/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "plan/buffers.h"
#include "plan/plan_memo.h"
#include "plan/shared_sizes.h"
#include "plan/stage_memory.h"
#include "request/layout.h"
#include "schedule/schedule.h"

/*
 * A plan is the table of all buffers of one rank of a pipeline stage: name, memory class, shape, type,
 * lifetime and offset. The guard sums it, the simulator draws it, and p4d-train allocates exactly that arena.
 * Each framework writes its own (see request/framework.h).
 */

/* How long a buffer lives. */
typedef enum p4d_lifetime {
	P4D_LIVES_ALWAYS,             /* from start to end of the program */
	P4D_LIVES_IN_SLOT,            /* one per activation slot, from a chunk's forward to its backward
				       * pass */
	P4D_LIVES_IN_VOCABULARY_SLOT, /* one per vocabulary slot */
	P4D_LIVES_IN_RANGE, /* at the live points of its mask; at other points its content is undefined */
	P4D_LIVES_ON_HOST,  /* from start to end of the program, in the arena of the host */
} p4d_lifetime;

/* Live points: what a rank may be doing. Transient buffers with disjoint live ranges share memory. */
typedef enum p4d_live_point {
	P4D_AT_EMBED,
	P4D_AT_FORWARD,
	P4D_AT_RECOMPUTE,          /* recomputation of a layer's forward pass, inside its backward pass */
	P4D_AT_HEAD,               /* final norm, logits, cross-entropy and their gradients */
	P4D_AT_LOSS,               /* the loss in Megatron-LM, before the head's backward pass */
	P4D_AT_HEAD_SUM,           /* the hidden state's gradient, summed over the stages */
	P4D_AT_BACKWARD_FFN,       /* the first half of a layer's backward pass: from its output to its
				    * second norm */
	P4D_AT_BACKWARD_ATTENTION, /* the second half: from its second norm to its input */
	P4D_AT_WEIGHT,             /* weight gradients, in schedules that split the backward pass */
	/* Evaluation without a following backward pass, and the update. Activation slots are free then, so
	 * these points use their memory. */
	P4D_AT_EVALUATION_LAYER,
	P4D_AT_EVALUATION_HEAD,
	P4D_AT_OPTIMIZER, /* the update, after the last backward pass */
	/* Before a forward pass, while the micro-batch is copied to the GPU: in training, in evaluation. */
	P4D_AT_BATCH,
	P4D_AT_EVALUATION_BATCH,
	P4D_LIVE_POINTS
} p4d_live_point;

#define P4D_FREE_OF_SLOTS \
	(1u << P4D_AT_EVALUATION_LAYER | 1u << P4D_AT_EVALUATION_HEAD | 1u << P4D_AT_OPTIMIZER | \
	 1u << P4D_AT_EVALUATION_BATCH)

/* A row of the plan: a buffer, or several equal copies of one. Sizes are those of one copy on this rank. */
typedef struct p4d_tensor {
	const char *name;  /* "layer.attention.qkv"; static */
	const char *shard; /* parallel degrees that shard it: "tp", "sp cp", ""; static */
	p4d_memory_class part;
	p4d_dtype dtype;
	p4d_lifetime lifetime;
	unsigned live_range; /* mask of 1 << p4d_live_point; only for P4D_LIVES_IN_RANGE */
	unsigned dims;
	bool at_first_step; /* allocated at the first step, not at the start */
	p4d_buffer id;
	uint64_t shape[3]; /* in elements; bytes may be more, because of alignment or padding to whole
			    * shards */
	uint64_t bytes;    /* bytes of one copy, aligned */
	uint32_t layers; /* copies within a slot: one per layer of the chunk; 1 if the row is not per layer */
	uint32_t slots;  /* number of activation slots; 1 outside of slots */
	/* profile p4d: offset of the first copy in its arena; the copy of slot s and layer l lies at offset +
	 * s*slot_stride + l*layer_stride */
	uint64_t offset, slot_stride, layer_stride;
} p4d_tensor;

enum { P4D_TENSORS = 96 };

typedef struct p4d_plan {
	p4d_slots slots;
	unsigned count;
	p4d_tensor tensor[P4D_TENSORS];
	uint64_t persistent_bytes, transient_bytes; /* rows that always live; and rows that live for a part of
						     * a training step, packed */
	uint64_t arena_bytes; /* persistent + slots + packed transients; the maximum of training and
			       * evaluation */
	uint64_t live_bytes;  /* maximum of the bytes that are live at one point: a lower bound of the
			       * arena */
	uint64_t part[P4D_PART_COUNT]; /* bytes at the peak, by memory class of p4d_stage; only memory inside
					  the allocator */
	uint64_t phase_bytes[P4D_PHASES];
	/* By live point: memory that the allocator keeps for streams whose buffers are not live. A block
	 * serves only its own stream (CUDACachingAllocator.cpp). */
	uint64_t idle[P4D_LIVE_POINTS];
	uint64_t idle_bytes; /* the value of `idle` at the peak, in addition to the arena */
	uint64_t host_bytes; /* bytes of this rank's memory on the host (--offload); for p4d-train, the size
				of its arena on the host */
	p4d_host_beside host;
	p4d_phase phase;     /* phase of the peak */
	p4d_live_point peak; /* the live point with the most bytes */
} p4d_plan;

/*
 * The plan of one stage. Pure arithmetic, no allocation, time independent of the number of micro-batches.
 * gpu: may be NULL; decides the attention workspaces. Errors: P4D_E_OVERFLOW.
 */
int p4d_plan_build(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, p4d_plan *plan,
		   p4d_error *err);

/*
 * Computes only the size of a plan's arena, and its idle_bytes (may be NULL); for searches. memo: may be
 * NULL.
 */
int p4d_plan_bytes(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, const p4d_plan_memo *memo,
		   uint64_t *arena_bytes, uint64_t *idle_bytes, p4d_error *err);

/* The row of a buffer; NULL: this stage has none. */
const p4d_tensor *p4d_plan_find(const p4d_plan *plan, p4d_buffer id);

/*
 * A hash of the plans of all stages. It covers the plans of the first two stages and of the last stage, and
 * the layers and slots of all stages, which determine the other plans. Two machines with the same hash
 * compute the same plans.
 */
int p4d_plan_hash(const p4d_layout *layout, const p4d_gpu *gpu, uint64_t *hash, p4d_error *err);
