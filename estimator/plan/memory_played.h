/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/stage_memory.h"

/* The memory that PyTorch's allocator reserves, where p4d simulates it block by block. */

/*
 * Memory that the framework's allocator reserves on the GPU of a stage; 0: unknown. If a GPU has less, the
 * allocator frees unused segments. is_short: returns the memory that it reserves on the smallest GPU on which
 * the job then runs. Without context and communicators.
 */
uint64_t p4d_memory_reserved(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, bool is_short);

/*
 * If the GPU is nearly full, simulates the allocator in the fullest stages, and replaces their constant share
 * for fragmentation by the memory that the allocator needs at least. The constant share remains where it is
 * larger, if the site measured margins, or if sizes differ from step to step because tokens choose experts.
 * Takes milliseconds per stage. Does nothing if p4d does not know the order of allocations, or if batches
 * have other lengths in each step.
 */
void p4d_memory_play(const p4d_layout *layout, const p4d_capacity *capacity, p4d_estimate *estimate);

/* Memory of one stage of an estimate, simulated if that of the fullest stage is. For the fullest stage it is
 * estimate->peak. */
int p4d_memory_of_estimate(const p4d_layout *layout, const p4d_estimate *estimate, uint32_t stage,
			   p4d_stage *out, p4d_error *err);

/* Bytes on the device of the stage with the least memory: the stage with the least memory while fragmentation
 * is a constant share. Only this stage is simulated, like p4d_memory_of_estimate. */
int p4d_memory_least_of_estimate(const p4d_layout *layout, const p4d_estimate *estimate, uint64_t *bytes,
				 p4d_error *err);

/*
 * For a layout above the fraction: a reason, for messages, why it may need less and then stay below. Reasons
 * are that newer releases of its program allocate less (if nobody named the release), and that experts drop
 * tokens. NULL: no reason.
 */
const char *p4d_memory_of_newer(const p4d_layout *layout, int method, const p4d_capacity *capacity,
				double fraction);
