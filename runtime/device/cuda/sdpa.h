/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

/*
 * Fused attention of one block, in bf16. A block consists of queries and keys of sequences. cuDNN computes it
 * (sdpa_cudnn.c). Builds without cuDNN do not have it (sdpa_none.c). In tests, plain C computes it
 * (shim_sdpa.c).
 */
typedef struct p4d_sdpa p4d_sdpa;

/* Elements from one token to the next, and from one sequence to the next. Heads are adjacent. */
typedef struct p4d_sdpa_stride {
	uint64_t token, sequence;
} p4d_sdpa_stride;

/*
 * Places where documents begin are counted in elements. The number of elements per token depends on the
 * tensor. QKV: q, k, v (rows of qkv) and their gradients. QUERY: o (all query heads). SUMS: lse and row_sums
 * (one element for each query head).
 */
typedef enum p4d_sdpa_unit {
	P4D_UNIT_QKV,
	P4D_UNIT_QUERY,
	P4D_UNIT_SUMS,
	P4D_UNITS,
	P4D_NO_UNIT = P4D_UNITS
} p4d_sdpa_unit;

/* Everything that a plan depends on; compared byte by byte. */
typedef struct p4d_sdpa_shape {
	uint64_t batch, queries, keys, heads, kv_heads, head_dim;
	uint64_t causal; /* 1: the last query sees all keys, and each query before it one key less */
	/*
	 * for causal blocks: a query sees only the last `window` of the keys that `causal` allows; 0: all of
	 * them
	 */
	uint64_t window;
	uint64_t backward;                          /* 1: gradients; 0: o and lse */
	p4d_sdpa_stride q, kv, o;                   /* o: also for its gradient */
	p4d_sdpa_stride dq, dkv;                    /* forward: 0 */
	uint64_t lse_head, lse_sequence, lse_token; /* elements of lse from one to the next */
	/*
	 * 1: the batch consists of documents of different lengths, one after the other; none is longer than
	 * `queries`. Their lengths and places are arguments of the call. row_sums has the strides of lse,
	 * query_gradient those of dq.
	 */
	uint64_t documents;
} p4d_sdpa_shape;

/*
 * Forward: computes o and lse from q, k, v. Backward: computes dq, dk and dv from these and d_o. Backward
 * also needs scratch memory: row_sums (batch, heads, queries) and query_gradient (batch, heads, queries,
 * head_dim). If there are documents and grouped queries, it also needs dk_heads and dv_heads in bf16; their
 * strides are those of dk times the number of query heads per key head. Both directions use a workspace of
 * p4d_attention_workspace bytes, or with documents of p4d_attention_documents_workspace bytes.
 *
 * With documents: lengths (batch), where 0 means that there is no further document; for each unit, offsets
 * (batch + 1) of the documents from the first token of the call.
 */
typedef struct p4d_sdpa_call {
	float scale;
	const void *q, *k, *v;
	void *o;
	float *lse;
	const void *d_o;
	void *dq, *dk, *dv;
	float *row_sums, *query_gradient;
	void *dk_heads, *dv_heads;
	const int32_t *lengths, *offsets[P4D_UNITS];
	void *workspace;
} p4d_sdpa_call;

/* sm: 90. Errors: DEVICE (not found, too old, cannot start), NO_MEMORY; there is then no fused attention. */
int p4d_sdpa_open(p4d_sdpa **fused, int sm, cudaStream_t stream, p4d_error *err);
void p4d_sdpa_close(p4d_sdpa *fused);
const char *p4d_sdpa_name(const p4d_sdpa *fused); /* "cuDNN 9.19.0" */
/*
 * Lends memory for calls that need more workspace than the plan has; other versions of cuDNN may. The memory
 * is the workspace of matmuls, in which no queued operation keeps data. NULL: ends the loan.
 */
void p4d_sdpa_lend(p4d_sdpa *fused, void *workspace, uint64_t bytes);
/*
 * Whether calls of this shape are supported. The first question about a shape builds its plan, which takes
 * about a second and allocates on the host. False: *why says why not, in one line.
 */
bool p4d_sdpa_takes(p4d_sdpa *fused, const p4d_sdpa_shape *shape, const char **why);
/* Queues a call of a supported shape. Errors: DEVICE. */
int p4d_sdpa_run(p4d_sdpa *fused, const p4d_sdpa_shape *shape, const p4d_sdpa_call *call, p4d_error *err);
