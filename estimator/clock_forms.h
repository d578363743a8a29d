/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_CLOCK_FORMS_H
#define P4D_CLOCK_FORMS_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* What the files of the clock share. Numbers are doubles throughout: seconds, bytes, elements, FLOPs. */

/* What a GPU sustains with the precision of a layout. */
typedef struct p4d_rates {
	double peak;                                  /* FLOP/s, dense */
	double gemm;                                  /* FLOP/s of a large matrix product */
	double attention_forward, attention_backward; /* FLOP/s of fused attention, long sequences */
	double hbm;                                   /* bytes/s of a kernel that only moves data */
	double link, net; /* bytes/s of one GPU in one direction: inside the node, to other nodes */
	double multiprocessors;
	double attention_rows, attention_rows_backward; /* queries that a multiprocessor works on at a time */
	double element;                                 /* bytes of an activation */
} p4d_rates;

p4d_rates p4d_rates_of(const p4d_layout *layout, const p4d_gpu *gpu);

/* Time between the end of a kernel and the start of the next on the device. */
#define P4D_LAUNCH_SECONDS 4e-6

/* Of a network interface's line rate, what NCCL gets across nodes. */
#define P4D_NET_EFFICIENCY 0.9

/*
 * A rows x columns = (rows x depth) * (depth x columns) product, `batch` times; output_bytes: written and,
 * where it accumulates, read per element of the result.
 */
double p4d_gemm_seconds(const p4d_rates *r, double batch, double rows, double columns, double depth,
			double output_bytes);

/* A kernel that moves so many bytes to and from device memory. */
double p4d_memory_seconds(const p4d_rates *r, double bytes);

/* Ranks that communicate: how many, and how many of them share a node. */
typedef struct p4d_ring {
	double ranks, in_node;
} p4d_ring;

/* Ranks of the layout at a distance of `stride`. Order: tp fastest, then cp, dp, pp. */
p4d_ring p4d_ring_of(const p4d_layout *layout, uint64_t ranks, uint64_t stride);

/* All-gather to, or reduce-scatter of, `bytes` on every rank. 0 for one rank. */
double p4d_gather_seconds(const p4d_rates *r, p4d_ring ring, double bytes);

/* From one rank to another. */
double p4d_transfer_seconds(const p4d_rates *r, bool in_node, double bytes);

/* Bytes/s between neighbours of a ring, per rank. */
double p4d_ring_bytes_per_s(const p4d_rates *r, p4d_ring ring);

/* What a pass is made of. Seconds. */
typedef struct p4d_share {
	double gemm, attention, memory_bound, tensor_comm, context_comm;
} p4d_share;

static inline double p4d_share_seconds(const p4d_share *s)
{
	return s->gemm + s->attention + s->memory_bound + s->tensor_comm + s->context_comm;
}

/* The passes of a part of the model for one micro-batch on one rank. */
typedef struct p4d_part_cost {
	p4d_share forward, backward_input, backward_weight;
	p4d_share recompute; /* inside backward_input, beside it */
} p4d_part_cost;

void p4d_layer_cost(const p4d_layout *layout, const p4d_rates *r, p4d_part_cost *out);
void p4d_embedding_cost(const p4d_layout *layout, const p4d_rates *r, p4d_part_cost *out);

/* Final norm, logits, cross-entropy and their gradients, where one stage has them all. */
void p4d_head_cost(const p4d_layout *layout, const p4d_rates *r, p4d_part_cost *out);

/* Vocabulary parallelism: passes S and T, those of the embedding, and the collective between. Seconds. */
typedef struct p4d_vocabulary_cost {
	double forward, backward, sync, embed_forward, embed_backward;
} p4d_vocabulary_cost;

void p4d_vocabulary_seconds(const p4d_layout *layout, const p4d_rates *r, p4d_vocabulary_cost *out);

/* Elements of the matrices of one layer, undivided. */
double p4d_layer_matrices(const p4d_layout *layout);

#endif
