/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by the device's own kernels, with heads of all widths, and with full and partial tiles. */
#include "support/support.h"

#include "plan/cudnn_workspace.h"
#include "support/kernel_cases.h"
#include "support/numbers.h"

int32_t *kernel_placed(kernel_run *run, const int32_t *host, uint64_t count)
{
	int32_t *at = run_memory(run, count * sizeof(*at));

	put(run->device, at, host, count * sizeof(*at));
	return at;
}

/* Positions of consecutive tokens. From token `half` on, positions are larger by `behind`. */
static int32_t *places_apart(kernel_run *run, uint64_t count, int32_t first, uint64_t half, int32_t behind)
{
	int32_t at[MOST_TOKENS];

	assert_true(count <= MOST_TOKENS);
	for (uint64_t i = 0; i < count; i++)
		at[i] = first + (int32_t)i + (i < half ? 0 : behind);
	return kernel_placed(run, at, count);
}

int32_t *kernel_places(kernel_run *run, uint64_t count, int32_t first)
{
	return places_apart(run, count, first, count, 0);
}

int32_t *kernel_documents(kernel_run *run, uint64_t batch, uint64_t count, uint64_t length)
{
	int32_t at[MOST_TOKENS];

	assert_true(batch * count <= MOST_TOKENS);
	for (uint64_t i = 0; i < batch * count; i++)
		at[i] = (int32_t)(i % count / length);
	return kernel_placed(run, at, batch * count);
}

void record_lse(kernel_run *run, const float *lse, uint64_t count)
{
	float *finite = run_memory(run, count * sizeof(*finite)), *host = malloc(count * sizeof(*host));

	assert_non_null(host);
	fetch(run->device, host, lse, count * sizeof(*host));
	for (uint64_t i = 0; i < count; i++) {
		assert_false(isnan(host[i]));
		host[i] = host[i] == -INFINITY ? -9 : host[i];
	}
	put(run->device, finite, host, count * sizeof(*host));
	free(host);
	record_result(run, "attention, lse", P4D_DT_FP32, finite, count);
}

uint64_t cpu_workspace_bytes(uint64_t head_dim)
{
	const uint64_t tile = P4D_ATTENTION_TILE;

	return tile * (2 * tile + 5 * head_dim) * sizeof(float);
}

/* window, cap: as in p4d_attention_shape */
static void limited(kernel_run *run, uint64_t queries, uint64_t keys, uint64_t d, uint64_t group,
		    bool documents, bool zigzag, uint64_t window, float cap)
{
	p4d_device *const device = run->device;
	const uint64_t batch = 2, kv = 2, a = kv * group, n = batch * queries, q_columns = (a + 2 * kv) * d;
	const bool same = queries == keys; /* queries and keys are columns of one matrix */
	const uint64_t key_columns = same ? q_columns : 2 * kv * d;
	char *qkv = run_elements(run, n * q_columns), *dqkv = run_elements(run, n * q_columns);
	char *kv_apart = run_elements(run, batch * keys * key_columns);
	char *k = same ? qkv + a * d * element_bytes(run->type) : kv_apart,
	     *v = k + kv * d * element_bytes(run->type);
	void *o = run_elements(run, n * a * d), *d_o = run_elements(run, n * a * d);
	float *lse = run_reals(run, a * n), *sums = run_reals(run, a * n), *total = run_reals(run, n * a * d),
	      *total_lse = run_reals(run, a * n);
	float *dq = run_reals(run, n * q_columns), *dkv = run_reals(run, batch * keys * key_columns);
	void *workspace = run_memory(run, cpu_workspace_bytes(d));
	float *gradient_sums = run_memory(run, n * q_columns * sizeof(float));
	p4d_attention_shape shape = {
	    .batch = batch,
	    .queries = queries,
	    .keys = keys,
	    .heads = a,
	    .kv_heads = kv,
	    .head_dim = d,
	    /* zigzag: the first half of the queries is before the keys, the second half far after them */
	    .query_position = places_apart(run, queries, 0, zigzag ? queries / 2 : queries, 1000),
	    .key_position = kernel_places(run, keys, (same ? 0 : 1) + (zigzag ? (int32_t)queries / 2 : 0)),
	    .query_document = documents ? kernel_documents(run, batch, queries, 37) : NULL,
	    .key_document = documents ? kernel_documents(run, batch, keys, 37) : NULL,
	    .query_stride = q_columns,
	    .key_stride = key_columns,
	    .scale = 0.5f,
	    .window = window,
	    .cap = cap};

	device->attention(device, run->type, o, lse, qkv, k, v, &shape, workspace);
	record_result(run, "attention", run->type, o, n * a * d);
	record_lse(run, lse, a * n);
	/* new operands, so that results do not depend on how the device rounded earlier results */
	o = run_elements(run, n * a * d);
	device->attention_row_sums(device, run->type, sums, d_o, o, n, a, d);
	record_result(run, "attention_row_sums", P4D_DT_FP32, sums, a * n);
	sums = run_reals(run, a * n);
	device->attention_backward(device, run->type, dq, dkv, dkv + kv * d, d_o, lse, sums, qkv, k, v,
				   &shape, workspace);
	record_result(run, "attention_backward, q", P4D_DT_FP32, dq, n * q_columns);
	record_result(run, "attention_backward, k v", P4D_DT_FP32, dkv, batch * keys * key_columns);
	if (same) {
		device->attention_gradient(device, run->type, dqkv, gradient_sums, d_o, lse, sums, qkv,
					   &shape, workspace);
		record_result(run, "attention_gradient", run->type, dqkv, n * q_columns);
	}
	device->attention_merge(device, run->type, total, total_lse, o, lse, n, a, d, true);
	device->attention_merge(device, run->type, total, total_lse, d_o, sums, n, a, d, false);
	record_result(run, "attention_merge", P4D_DT_FP32, total, n * a * d);
	record_result(run, "attention_merge, lse", P4D_DT_FP32, total_lse, a * n);
}

static void attentions(kernel_run *run, uint64_t queries, uint64_t keys, uint64_t d, uint64_t group,
		       bool documents, bool zigzag)
{
	limited(run, queries, keys, d, group, documents, zigzag, 0, 0);
}

void kernel_attention(kernel_run *run)
{
	/* windows wider than all keys, of one tile, of more than a tile, and of one token; and queries
	 * that see no key */
	limited(run, 70, 70, 18, 2, false, false, 100, 0);
	limited(run, 150, 150, 16, 2, false, false, 40, 0);
	limited(run, 150, 150, 16, 1, true, false, 40, 2);
	limited(run, 70, 70, 64, 1, false, false, 1, 0);
	limited(run, 40, 70, 40, 3, false, true, 30, 0);
	limited(run, 65, 65, 64, 2, false, false, 0, 1.5f);
	limited(run, 17, 17, 256, 2, false, false, 5, 3);
	attentions(run, 1, 1, 8, 1, false, false);
	attentions(run, 70, 70, 18, 2, true, false);
	attentions(run, 65, 65, 64, 1, false, false);
	attentions(run, 40, 70, 40, 3, false, true);
	attentions(run, 33, 33, 128, 2, false, false);
	attentions(run, 50, 20, 72, 1, true, false);
	attentions(run, 35, 35, 136, 1, false, false);
	attentions(run, 17, 17, 256, 2, true, false);
}
