/* SPDX-License-Identifier: Apache-2.0 */
/* Merging attention outputs; a head of a token per warp. */
#include <math.h>

#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

constexpr unsigned WARPS = P4D_THREADS / P4D_WARP;

/* The head of a token that this warp has; token n: none. */
__device__ static inline uint64_t own_unit()
{
	return (uint64_t)blockIdx.x * WARPS + threadIdx.x / P4D_WARP;
}

template <typename E>
__global__ void multiply_rows(float *row_sums, const E *d_o, const E *o, uint64_t n, uint64_t heads,
			      unsigned d)
{
	const uint64_t unit = own_unit(), token = unit / heads, head = unit % heads;
	const unsigned lane = threadIdx.x % P4D_WARP;
	float sum = 0;

	for (unsigned j = lane; token < n && j < d; j += P4D_WARP)
		sum += p4d_value(d_o[unit * d + j]) * p4d_value(o[unit * d + j]);
	sum = p4d_group_sum(sum, P4D_WARP);
	if (token < n && lane == 0)
		row_sums[head * n + token] = sum;
}

template <typename E>
__global__ void merge_rows(float *total, float *total_lse, const E *o, const float *lse, uint64_t n,
			   uint64_t heads, unsigned d, bool first)
{
	const uint64_t unit = own_unit(), token = unit / heads, at = unit % heads * n + token;
	const unsigned lane = threadIdx.x % P4D_WARP;
	const bool exists = token < n;
	const float before = first || !exists ? -INFINITY : total_lse[at], now = exists ? lse[at] : 0;
	const float most = fmaxf(before, now);
	/* what neither sees stays 0 */
	const float shift = most == -INFINITY ? 0 : most;
	const float old_part = expf(before - shift), new_part = expf(now - shift), sum = old_part + new_part;
	const float inverse = sum > 0 ? 1 / sum : sum;

	for (unsigned j = lane; exists && j < d; j += P4D_WARP) {
		const float old = first ? 0 : total[unit * d + j] * old_part;
		total[unit * d + j] = (old + p4d_value(o[unit * d + j]) * new_part) * inverse;
	}
	__syncwarp(); /* all have read the old value */
	if (exists && lane == 0)
		total_lse[at] = most + logf(sum);
}

void p4d_kernel_attention_row_sums(cudaStream_t stream, p4d_dtype type, float *row_sums, const void *d_o,
				   const void *o, uint64_t n, uint64_t heads, uint64_t head_dim)
{
	P4D_WITH_TYPE(type, E, {
		p4d_launch<multiply_rows<E>>(stream, {(n * heads + WARPS - 1) / WARPS, 1, P4D_THREADS, 0},
					     row_sums, (const E *)d_o, (const E *)o, n, heads,
					     (unsigned)head_dim);
	});
}

void p4d_kernel_attention_merge(cudaStream_t stream, p4d_dtype type, float *total, float *total_lse,
				const void *o, const float *lse, uint64_t n, uint64_t heads,
				uint64_t head_dim, bool first)
{
	P4D_WITH_TYPE(type, E, {
		p4d_launch<merge_rows<E>>(stream, {(n * heads + WARPS - 1) / WARPS, 1, P4D_THREADS, 0}, total,
					  total_lse, (const E *)o, lse, n, heads, (unsigned)head_dim, first);
	});
}
