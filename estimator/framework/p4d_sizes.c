/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/p4d_sizes.h"

#include "plan/cudnn_workspace.h"
#include "plan/packed_documents.h"

uint64_t p4d_framework__largest_matrix(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const uint64_t features[] = {z->columns, z->q, z->up, z->f};
	uint64_t most = 0;

	for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++)
		most = features[i] > most ? features[i] : most;
	return p4d_times(rows, z->h, most);
}

uint64_t p4d_framework__widest_adapter(const p4d_layout *l)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const uint64_t in = p4d_is_adapted(l, i) ? p4d_adapted_of(l, i).in : 0;
		most = in > most ? in : most;
	}
	return most;
}

uint64_t p4d_framework__attention_workspace(const p4d_rows *rows, const p4d_rank_sizes *z, bool backward)
{
	const p4d_layout *l = rows->layout;
	p4d_attention_split split = {.batch = z->batch,
				     .heads = z->heads,
				     .kv_heads = z->kv_heads,
				     .head_dim = l->head_dim,
				     .seq_len = l->seq_len,
				     .cp = l->cp,
				     .documents = p4d_packed_documents(l, rows->gpu),
				     .gathered = l->cp_comm == P4D_CP_ALL_GATHER};
	uint64_t most = 0;

	if (!p4d_on_gpu(l->device))
		return p4d_cpu_attention_bytes(l->head_dim, backward);
	if (z->dtype == P4D_DT_FP32) /* fused attention supports 16-bit types only */
		return 0;
	const int sm = rows->gpu ? rows->gpu->sm : 0;
	if (l->slices == 1)
		return p4d_attention_workspace_most(sm, &split, backward);
	/* sequence by sequence: a slice of queries and all keys up to its end */
	uint64_t keys = 0;
	for (uint64_t i = 0; i < l->slices; i++) {
		keys += l->slice_tokens[i];
		const p4d_attention_call call = {.batch = 1,
						 .heads = z->heads,
						 .kv_heads = z->kv_heads,
						 .queries = l->slice_tokens[i],
						 .keys = keys,
						 .head_dim = l->head_dim,
						 .backward = backward,
						 .staged = true};
		const uint64_t bytes = p4d_attention_workspace_of(sm, &call).bytes;
		most = bytes > most ? bytes : most;
	}
	return most;
}
