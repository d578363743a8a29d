/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges attention outputs. Groups of `lanes` neighbouring threads (a power of two) each process one head of
 * a token.
 */
#include <math.h>

#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/*
 * The index of the head and token that this thread processes. It may be beyond the last one; the thread then
 * stores nothing.
 */
__device__ static inline uint64_t own_unit(unsigned lanes)
{
	return ((uint64_t)blockIdx.x * P4D_THREADS + threadIdx.x) / lanes;
}

template <typename E, int W>
__global__ void multiply_rows(float *row_sums, const E *d_o, const E *o, uint64_t n, uint64_t heads,
			      unsigned d, unsigned lanes)
{
	const uint64_t unit = own_unit(lanes), token = unit / heads, head = unit % heads;
	const unsigned lane = threadIdx.x % lanes;
	float sum = 0;

	for (unsigned j = lane * W; token < n && j < d; j += lanes * W) {
		const p4d_run<E, W> a = p4d_load<W>(d_o + unit * d + j), b = p4d_load<W>(o + unit * d + j);
		for (int k = 0; k < W; k++)
			sum += p4d_value(a.x[k]) * p4d_value(b.x[k]);
	}
	sum = p4d_group_sum(sum, lanes);
	if (token < n && lane == 0)
		row_sums[head * n + token] = sum;
}

template <typename E, int W>
__global__ void merge_rows(float *total, float *total_lse, const E *o, const float *lse, uint64_t n,
			   uint64_t heads, unsigned d, unsigned lanes, bool first)
{
	const uint64_t unit = own_unit(lanes), token = unit / heads, at = unit % heads * n + token;
	const unsigned lane = threadIdx.x % lanes;
	const bool exists = token < n;
	const float before = first || !exists ? -INFINITY : total_lse[at], now = exists ? lse[at] : 0;
	const float most = fmaxf(before, now);
	/* an output that neither block contributed to stays 0 */
	const float shift = most == -INFINITY ? 0 : most;
	const float old_part = expf(before - shift), new_part = expf(now - shift), sum = old_part + new_part;
	const float inverse = sum > 0 ? 1 / sum : sum;

	for (unsigned j = lane * W; exists && j < d; j += lanes * W) {
		const p4d_run<E, W> more = p4d_load<W>(o + unit * d + j);
		p4d_run<float, W> to = {};
		if (!first)
			to = p4d_load<W>(total + unit * d + j);
		for (int k = 0; k < W; k++)
			to.x[k] = (to.x[k] * old_part + p4d_value(more.x[k]) * new_part) * inverse;
		p4d_store(total + unit * d + j, to);
	}
	__syncwarp(); /* all lanes have read the old value */
	if (exists && lane == 0)
		total_lse[at] = most + logf(sum);
}

static p4d_grid grid_of(uint64_t units, unsigned lanes)
{
	return {(units * lanes + P4D_THREADS - 1) / P4D_THREADS, 1, P4D_THREADS, 0};
}

void p4d_kernel_attention_row_sums(cudaStream_t stream, p4d_dtype type, float *row_sums, const void *d_o,
				   const void *o, uint64_t n, uint64_t heads, uint64_t head_dim)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(head_dim, d_o, o), E, W, {
			const unsigned lanes = p4d_lanes_for(head_dim / W);
			p4d_launch<multiply_rows<E, W>>(stream, grid_of(n * heads, lanes), row_sums,
							(const E *)d_o, (const E *)o, n, heads,
							(unsigned)head_dim, lanes);
		});
	});
}

void p4d_kernel_attention_merge(cudaStream_t stream, p4d_dtype type, float *total, float *total_lse,
				const void *o, const float *lse, uint64_t n, uint64_t heads,
				uint64_t head_dim, bool first)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(head_dim, total, o), E, W, {
			const unsigned lanes = p4d_lanes_for(head_dim / W);
			p4d_launch<merge_rows<E, W>>(stream, grid_of(n * heads, lanes), total, total_lse,
						     (const E *)o, lse, n, heads, (unsigned)head_dim, lanes,
						     first);
		});
	});
}
