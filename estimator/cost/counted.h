/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "gpu/gpu.h"

/* What one rank does in a step, as a rehearsal counts it. Doubles throughout: FLOPs, bytes, numbers. */

/* What goes to other ranks of one group. */
typedef struct p4d_counted_wire {
	double ranks, in_node; /* of the group; of these, in this rank's node */
	double calls;
	double gathered;    /* bytes of what every rank has after an all-gather, or before a reduce-scatter */
	double exchanged;   /* of what a rank gives to an all-to-all */
	double transferred; /* from one rank to another */
} p4d_counted_wire;

enum { P4D_COUNTED_WIRES = 16 };

typedef struct p4d_counted {
	double flops, flops_8, flops_tf32, flops_32;  /* of matrix products: all, and those not of 16 bits */
	double depth, product_bytes;                  /* of these: k, summed; operands and results */
	double attention_forward, attention_backward; /* FLOPs of fused attention; of a causal one, half */
	double convolutions;                          /* FLOPs */
	bool is_half;   /* most products take 16 bits, so convolutions do, too */
	double moved;   /* bytes that other kernels read and write */
	double lifted;  /* bytes between the host and the GPU */
	double kernels; /* launched, products included */
	double foreign; /* of these, with work that nobody counted */
	unsigned wires;
	p4d_counted_wire wire[P4D_COUNTED_WIRES];
} p4d_counted;

typedef struct p4d_seconds {
	double low, high;
} p4d_seconds;

/*
 * Seconds of the work. low: communication and copies hide behind computation as far as they can. high:
 * nothing hides. Returns NULL, or the key in gpus.json of a rate that the work needs and that is not known.
 */
const char *p4d_cost_counted(const p4d_counted *work, const p4d_gpu *gpu, p4d_seconds *out);
