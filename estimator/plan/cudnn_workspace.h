/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Device memory that fused attention (bf16, forward and backward without determinism, with or without the
 * causal mask) needs in addition to its operands, in bytes, for one rank.
 *
 * Source: the workspace of the plan that cuDNN 9.19.0 proposes first (heuristic mode A) for its pattern
 * graph: forward with the softmax statistics as output, backward with the two buffers below as caller-owned
 * tensors. tests/data/attention_workspace.csv has cuDNN's answers for plans that were built to the end; an
 * empty size in it means that cuDNN refused the graph. No device was needed: each was only described to
 * cuDNN. The formulas are exact for two queries or more: of 6,158 answers, mostly for proposed plans that
 * were not built, none is off by a byte. With one query (decoding, not training) cuDNN may split the keys:
 * the forward pass then needed up to 295 KiB more. Sizes depend neither on the mask nor on the number of
 * multiprocessors.
 *
 * Let align round up to 128 and
 *
 *   full = heads > kv_heads ? 2 * align(2 * batch * heads * keys * head_dim) : 0
 *   own  = 4 * batch * heads * (queries rounded up to 8) * head_dim
 *
 *   sm                  head size      forward  backward
 *   80 86 89 120 121    8, 16 .. 128   0        128 + own + full
 *   90                  8, 16 .. 256   256      256 + full
 *   100 103             8, 16 .. 128   0        full ? 128 + full : 0
 *   100 103, queries or keys <= 128    0        128 + own + full
 *
 * cuDNN refuses every other head size: in both directions a size that is not a multiple of 8, and in the
 * backward pass a larger one. p4d's own kernels then compute both directions, and need no workspace.
 *
 * full: bytes of bf16 dK and dV of every query head, before they are summed over the query heads of a group.
 * own: bytes of a second fp32 dQ. If the formula contains own, cuDNN also plans a graph whose dQ accumulator
 * is virtual, with the same workspace. On sm 90 and 100 a graph with a virtual accumulator has sm 80's
 * workspace and head sizes.
 */
typedef struct p4d_attention_bytes {
	uint64_t forward_workspace;
	uint64_t backward_workspace;
	uint64_t query_gradient; /* caller-owned fp32 accumulator of dQ, (batch, heads, queries, head size) */
	uint64_t row_sums;       /* caller-owned fp32 sum of dO*O, (batch, heads, queries) */
	bool fused;              /* cuDNN takes both graphs; false: p4d's own kernels */
} p4d_attention_bytes;

/*
 * sm: a compute capability of the table. For 0 or another one, each number is the largest of the table, and
 * `fused` is true only if it is true for the whole table. keys: number of keys of one call, which differs
 * from `queries` with context parallelism. heads is a multiple of kv_heads; both are the rank's. All sizes
 * are at least 1. Results saturate at UINT64_MAX.
 */
p4d_attention_bytes p4d_attention_workspace(int sm, uint64_t batch, uint64_t heads, uint64_t kv_heads,
					    uint64_t queries, uint64_t keys, uint64_t head_dim);

/*
 * Documents of packed sequences, none longer than `length`: cuDNN computes each as a sequence of its own
 * length (ragged tensors), several in a call. The number of documents in a call is a power of two. Source and
 * devices as above:
 *
 *   sm                         head size      forward                         backward
 *   90, length > 128           8, 16 .. 256   768 + 256 * max(documents, 64)  1152 + 448 * documents
 *   100 103, length > 128      8, 16 .. 128   as sm 90
 *
 * p4d uses cuDNN for documents on no other GPUs: sm 80 needs a second fp32 dQ for as many tokens as all
 * documents could have, and cuDNN has no gradient for sm 120. For sm 0 or another one the function returns
 * false.
 */
bool p4d_attention_takes_documents(int sm, uint64_t length, uint64_t head_dim);
uint64_t p4d_attention_documents_workspace(uint64_t documents, bool backward);

/* One call of fused attention on a block of queries and keys; the sizes are those above. */
typedef struct p4d_attention_call {
	uint64_t batch, heads, kv_heads, queries, keys, head_dim;
	bool backward;
	bool staged; /* gradients of several calls are summed, so each call first writes its gradients in bf16
		      */
	/*
	 * Number of documents of a call; 0: the batch has whole sequences. The call gets queries, keys and
	 * values of all sequences in rows of (heads + 2 * kv_heads) * head_dim elements.
	 */
	uint64_t documents;
} p4d_attention_call;

/*
 * The workspace of a call: cuDNN's own part, then these buffers at the given offsets. Unused buffers take no
 * bytes.
 */
typedef struct p4d_attention_workspaces {
	uint64_t query_gradient, row_sums; /* as in p4d_attention_bytes */
	uint64_t dq, dk, dv;               /* bf16 (batch, queries or keys, their heads * head_dim) */
	/*
	 * Only for documents with grouped queries: dK and dV of all query heads, in bf16. A row is heads /
	 * kv_heads times as wide as a row of queries, keys and values, because cuDNN requires all strides of
	 * dK to be the same multiple. Rows of the query gradient are as wide as those of queries, keys and
	 * values.
	 */
	uint64_t key_heads;
	uint64_t bytes;   /* bytes of all buffers */
	uint64_t library; /* bytes of cuDNN's own part */
	bool fused;       /* false: p4d's own kernels, which need no workspace */
} p4d_attention_workspaces;
p4d_attention_workspaces p4d_attention_workspace_of(int sm, const p4d_attention_call *call);

/*
 * The calls of a rank whose sequences of seq_len tokens are split over cp ranks. Without cp there is one
 * call, with all queries and keys. In a ring there are three kinds: with the rank's own keys; with the first
 * half of an earlier rank's keys; with a later rank's keys, for the second half of the queries. gathered: one
 * call per half of the queries, with all keys up to the end of that half. documents: as in
 * p4d_attention_call; 0 with cp. If it is not 0, there are calls with documents and calls without. The plan's
 * rows attention.forward_workspace and attention.backward_workspace are the maxima of these calls over all
 * ranks.
 */
typedef struct p4d_attention_split {
	uint64_t batch, heads, kv_heads, head_dim, seq_len, cp, documents;
	bool gathered;
} p4d_attention_split;
uint64_t p4d_attention_workspace_most(int sm, const p4d_attention_split *split, bool backward);
