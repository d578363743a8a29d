/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "gpu/gpu.h"
#include "request/layout.h"

/*
 * What plans of several stages and layouts have in common, worked out once: a framework's numbers of a layer,
 * which do not depend on the members that p4d_plan_memo_numbers leaves out (degrees of data and pipeline
 * parallelism, the schedule, the batch). The caller owns it: one for each thread, all 0 at first.
 */
enum { P4D_PLAN_MEMO_BYTES = 144 };

typedef struct p4d_plan_memo_entry {
	unsigned char layout[offsetof(p4d_layout, stage_layers)]; /* without those members */
	const p4d_gpu *gpu;
	unsigned char numbers[P4D_PLAN_MEMO_BYTES]
	    __attribute__((aligned(16))); /* CUDA's compiler also reads this file */
	bool known;
} p4d_plan_memo_entry;

typedef struct p4d_plan_memo {
	size_t entries; /* a power of two */
	p4d_plan_memo_entry *entry;
	/* Nobody asks by how much a plan has more bytes: it may have any number between these and its own. 0:
	 * all are asked for. */
	uint64_t enough;
} p4d_plan_memo;

/* A memo with this many entries, a power of two. The caller frees it. It has no entries if host memory runs
 * out. */
p4d_plan_memo p4d_plan_memo_of(size_t entries);

/*
 * The numbers of the layout on a GPU, which may be NULL. *known: they are there; else the caller fills them
 * in. NULL without a memo.
 */
void *p4d_plan_memo_numbers(const p4d_plan_memo *memo, const p4d_layout *layout, const p4d_gpu *gpu,
			    bool *known);
