/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "gpu/gpu.h"

/* The work of one rank in a step, as a rehearsal counts it. Doubles throughout: FLOPs, bytes, counts. */

/* Communication of a rank with the other ranks of one group. */
typedef struct p4d_counted_wire {
	double ranks, in_node; /* ranks of the group; of these, the ranks in this rank's node */
	double calls;
	double gathered;    /* bytes that every rank has after an all-gather, or before a reduce-scatter */
	double exchanged;   /* bytes that a rank passes to an all-to-all */
	double transferred; /* bytes from one rank to another */
} p4d_counted_wire;

enum { P4D_COUNTED_WIRES = 16 };

typedef struct p4d_counted {
	double flops, flops_8, flops_tf32,
	    flops_32;                /* FLOPs of matmuls: all; in 8-bit types; in TF32; in FP32 */
	double depth, product_bytes; /* sums over the matmuls: depth: of k, the summed dimension;
					product_bytes: of the bytes of operands and results */
	double attention_forward, attention_backward; /* FLOPs of fused attention; causal attention counts
						       * half */
	double cudnn_forward, cudnn_backward;         /* the part of the FLOPs above that cuDNN computes;
							 FlashAttention 2 computes the rest */
	double convolutions;                          /* FLOPs */
	bool is_half;   /* most matmuls are in 16 bits, so convolutions count as such */
	double moved;   /* bytes that other kernels read and write */
	double lifted;  /* bytes between the host and the GPU */
	double kernels; /* kernels launched, including matmuls */
	double foreign; /* launched kernels whose work the rehearsal could not count */
	unsigned wires;
	p4d_counted_wire wire[P4D_COUNTED_WIRES];
} p4d_counted;

typedef struct p4d_seconds {
	double low, high;
} p4d_seconds;

/*
 * Seconds of the work. low: communication and copies overlap with computation as far as possible. high:
 * nothing overlaps. Returns NULL, or the gpus.json key of a rate that the work needs and gpus.json lacks.
 */
const char *p4d_cost_counted(const p4d_counted *work, const p4d_gpu *gpu, p4d_seconds *out);
