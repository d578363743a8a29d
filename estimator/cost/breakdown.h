/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cost/cost.h"

/* Step-time breakdown: the time beyond what a GPU at its peak rate would need. LOSS(ID, name) */
#define P4D_LOSSES(LOSS) \
	LOSS(BUBBLE, "bubble") \
	LOSS(GEMM, "gemm") \
	LOSS(ATTENTION, "attention") \
	LOSS(MEMORY_BOUND, "memory-bound") \
	LOSS(TENSOR_COMM, "tensor-comm") \
	LOSS(CONTEXT_COMM, "context-comm") \
	LOSS(HOST, "host") \
	LOSS(PIPELINE_COMM, "pipeline-comm") \
	LOSS(DATA_COMM, "data-comm") \
	LOSS(RECOMPUTE, "recompute") \
	LOSS(OPTIMIZER, "optimizer")

typedef enum p4d_breakdown_part {
#define LOSS(id, name) P4D_LOSS_##id,
	P4D_LOSSES(LOSS)
#undef LOSS
	    P4D_LOSS_COUNT
} p4d_breakdown_part;

/* Fractions of the step, averaged over the GPUs. Together with the MFU they add up to 1. */
typedef struct p4d_breakdown {
	double fraction[P4D_LOSS_COUNT];
	p4d_breakdown_part largest, second;
} p4d_breakdown;

/*
 * Breaks down a predicted step. It adds the components of the passes of all stages (p4d_cost__pass),
 * multiplied by the number of micro-batches, and the events that occur once per step. gemm and attention
 * count the time beyond their model FLOPs at the dense peak. The passes of vocabulary parallelism count as
 * gemm, except its embedding passes, which count as memory-bound. The remainder is pipeline-comm: exposed
 * transfers. The GPU must have rates. Errors: NO_MEMORY.
 */
int p4d_breakdown_of(const p4d_layout *layout, const p4d_gpu *gpu, const p4d_step *step,
		     p4d_breakdown *losses, p4d_error *err);

const char *p4d_breakdown_name(p4d_breakdown_part loss); /* "tensor-comm" */
