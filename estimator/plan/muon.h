/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/wide.h"
#include "plan/shared_sizes.h"
#include "schedule/schedule.h"

/*
 * Muon, as torch.optim.Muon of PyTorch 2.15 computes it with Nesterov's momentum and
 * adjust_lr_fn="match_rms_adamw": momentum, then five Newton-Schulz iterations that orthogonalize the matrix.
 * It updates the matrices of the layers' linear layers (p4d_adapted_of), each as transformers stores it.
 * AdamW updates all other weights: embedding, head, norms, biases. Only these have second moments.
 *
 * An iteration multiplies the matrix X by a polynomial of its Gram matrix, which is X^T X or X X^T; both give
 * the same numbers. A tensor-parallel rank has some rows of X, or some columns. It takes the Gram matrix over
 * the side that is not cut, which is a sum over the ranks, so no rank needs all of X. Data-parallel ranks
 * that shard the optimizer have pieces of rows: they gather X (runtime/trainer/optimizer_muon.c).
 */
enum { P4D_MUON_STEPS = 5 };
#define P4D_MUON_MOMENTUM 0.95f

/* Whether the Gram matrix is X^T X: (in, in) elements. Otherwise X X^T, (out, out). */
static inline bool p4d_muon_by_columns(const p4d_layout *layout, const p4d_adapted *matrix)
{
	return layout->tp > 1 ? !matrix->split_in : matrix->in < matrix->out;
}

/* Buffers of a rank for Muon in addition to the momentum, in elements. */
typedef struct p4d_muon_room {
	p4d_wide
	    second; /* second moments of the elements that AdamW updates in a rank's shards; an upper bound */
	p4d_wide matrix; /* the largest matrix */
	p4d_wide side;   /* rows of the largest Gram matrix */
} p4d_muon_room;
p4d_muon_room p4d_muon_room_of(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage);
