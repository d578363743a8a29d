/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "gpu/gpu.h"
#include "request/layout.h"

/*
 * A cache of a framework's numbers for a layer, which plans of several stages and layouts share. The numbers
 * do not depend on the members that p4d_plan_memo_numbers ignores (degrees of data and pipeline parallelism,
 * the schedule, the batch). The caller owns the cache, zeroes it at first, and has one for each thread.
 */
enum { P4D_PLAN_MEMO_BYTES = 144 };

typedef struct p4d_plan_memo_entry {
	unsigned char layout[offsetof(p4d_layout, stage_layers)]; /* the layout without the ignored members */
	const p4d_gpu *gpu;
	unsigned char numbers[P4D_PLAN_MEMO_BYTES]
	    __attribute__((aligned(16))); /* CUDA's compiler also reads this file */
	bool known;
} p4d_plan_memo_entry;

typedef struct p4d_plan_memo {
	size_t entries; /* a power of two */
	p4d_plan_memo_entry *entry;
	/*
	 * The largest size that matters to the caller. If a plan needs more bytes than this, its result may
	 * be any number from this size to the bytes that it needs. 0: results are always exact.
	 */
	uint64_t enough;
} p4d_plan_memo;

/* A memo with this many entries, a power of two. The caller frees it. If host memory runs out, it has no
 * entries. */
p4d_plan_memo p4d_plan_memo_of(size_t entries);

/*
 * The framework's numbers for this layout and GPU (gpu may be NULL). *known: the memo already has them;
 * otherwise the caller fills them in. Returns NULL if there is no memo.
 */
void *p4d_plan_memo_numbers(const p4d_plan_memo *memo, const p4d_layout *layout, const p4d_gpu *gpu,
			    bool *known);
