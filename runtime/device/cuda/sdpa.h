/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

/*
 * Fused attention of one block: queries and keys of sequences, bf16. By cuDNN (sdpa_cudnn.c); without it,
 * unavailable (sdpa_none.c); in tests, by plain C (shim_sdpa.c).
 */
typedef struct p4d_sdpa p4d_sdpa;

/* Elements from a token to the next, from a sequence to the next. A head follows the one before it. */
typedef struct p4d_sdpa_stride {
	uint64_t token, sequence;
} p4d_sdpa_stride;

/* All that a plan depends on; compared byte by byte. */
typedef struct p4d_sdpa_shape {
	uint64_t batch, queries, keys, heads, kv_heads, head_dim;
	uint64_t causal;          /* 1: the last query sees all keys, each one before it a key less */
	uint64_t backward;        /* 1: gradients; 0: o and lse */
	p4d_sdpa_stride q, kv, o; /* o: also of its gradient */
	p4d_sdpa_stride dq, dkv;  /* forward: 0 */
	uint64_t lse_head,
	    lse_sequence; /* elements of lse from a head to the next, from a sequence to the next */
} p4d_sdpa_shape;

/*
 * Forward: q, k, v become o and lse. Backward: with these, o and d_o, dq, dk and dv are set. What
 * backward works in, whatever it holds before: row_sums (batch, heads, queries), query_gradient (batch,
 * heads, queries, head_dim), and both ways the workspace of p4d_attention_workspace.
 */
typedef struct p4d_sdpa_call {
	float scale;
	const void *q, *k, *v;
	void *o;
	float *lse;
	const void *d_o;
	void *dq, *dk, *dv;
	float *row_sums, *query_gradient;
	void *workspace;
} p4d_sdpa_call;

/* sm: 90. Errors: DEVICE (not found, too old, cannot start), NO_MEMORY; then there is no fused attention. */
int p4d_sdpa_open(p4d_sdpa **fused, int sm, cudaStream_t stream, p4d_error *err);
void p4d_sdpa_close(p4d_sdpa *fused);
const char *p4d_sdpa_name(const p4d_sdpa *fused); /* "cuDNN 9.19.0" */
/*
 * Memory that nothing else on its stream keeps anything in from one operation to the next, that of matrix
 * products: for calls that need more workspace than the plan has, as of other versions. NULL: not any more.
 */
void p4d_sdpa_lend(p4d_sdpa *fused, void *workspace, uint64_t bytes);
/*
 * Whether such calls are supported. The first time of a shape it builds a plan, which takes about a second
 * and allocates on the host. False: *why says why not, in one line.
 */
bool p4d_sdpa_takes(p4d_sdpa *fused, const p4d_sdpa_shape *shape, const char **why);
/* Queues a call of a supported shape. Errors: DEVICE. */
int p4d_sdpa_run(p4d_sdpa *fused, const p4d_sdpa_shape *shape, const p4d_sdpa_call *call, p4d_error *err);
