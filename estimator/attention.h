/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_ATTENTION_H
#define P4D_ATTENTION_H

#include <stdint.h>

/*
 * Device memory that fused attention (cuDNN 9, causal, bf16) needs beside its operands, exactly as cuDNN's
 * plans ask for it, per compute capability. tests/data/attention_workspace.csv holds what cuDNN answered.
 */
typedef struct p4d_attention_bytes {
	uint64_t forward_workspace;
	uint64_t backward_workspace;
	uint64_t query_gradient; /* fp32 accumulator of dQ, (batch, heads, queries, head size) */
	uint64_t row_sums;       /* fp32 sum of dO*O, (batch, heads, queries) */
} p4d_attention_bytes;

/* sm: 80, 90, 100, 120; 0 or another: the largest of these. Sizes are of one rank. */
p4d_attention_bytes p4d_attention_workspace(int sm, uint64_t batch, uint64_t heads, uint64_t kv_heads,
					    uint64_t queries, uint64_t keys, uint64_t head_dim);

#endif
