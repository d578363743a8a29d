/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_MEMORY_FORMS_H
#define P4D_MEMORY_FORMS_H

#include "memory.h"

/*
 * What the three closed forms share. Inputs are bounded by options.def (at most 2^27 tokens, 2^24 sequences,
 * 2^23 wide), so products of a handful of them fit 128 bits; only the narrowing to 64 bits at the end can
 * fail.
 */
__extension__ typedef unsigned __int128 p4d_wide;

/* A stage's items before they are narrowed. */
typedef struct p4d_stage_items {
	p4d_wide part[P4D_PART_COUNT];
	p4d_wide phase[P4D_PHASES];
	bool modelled[P4D_PHASES];
} p4d_stage_items;

static inline p4d_wide p4d_div_up(p4d_wide a, p4d_wide b)
{
	return (a + b - 1) / b;
}

/* Layer chunks (of stage_layers / vpp layers) whose activations a stage holds at its peak; see MEMORY in
 * p4d.1. */
uint64_t p4d_chunks_in_flight(const p4d_layout *layout, uint32_t stage);

/* Elements of the parameters of one layer that a rank holds, without the norms that are the same in all
 * frameworks. */
p4d_wide p4d_layer_parameters(const p4d_layout *layout);

/* Elements of all parameters of a stage on one rank. */
p4d_wide p4d_stage_parameters(const p4d_layout *layout, uint32_t stage);

/* Bytes reserved by NCCL for the communicators of a rank (groups of more than one rank). */
uint64_t p4d_communicator_bytes(const p4d_layout *layout);

enum { P4D_GIB_SHIFT = 30 };
/* CUDA context with lazy module loading: 0.3 to 0.5 GiB were seen. */
#define P4D_CONTEXT_BYTES ((uint64_t)1 << 29)

void p4d_memory_paper(const p4d_layout *layout, p4d_stage_items *items);
void p4d_memory_megatron(const p4d_layout *layout, uint32_t stage, p4d_stage_items *items);
void p4d_memory_p4d(const p4d_layout *layout, uint32_t stage, p4d_stage_items *items);

/* Host memory that the ranks of one node need in framework p4d, from the bytes a rank holds on its device. */
p4d_wide p4d_memory_p4d_host(const p4d_layout *layout, const p4d_stage *fullest);

#endif
