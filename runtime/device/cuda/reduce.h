/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums and maxima over threads, always in the same order. Also sums over rows of partial sums. */
#include "device/cuda/launch.h"

#define P4D_ALL_LANES 0xffffffffu

/*
 * Sum over a group of neighbouring threads of a warp. lanes: size of the group, a power of two up to 32. All
 * threads of the group get the sum.
 */
template <typename T> __device__ static inline T p4d_group_sum(T x, unsigned lanes)
{
	for (unsigned apart = lanes / 2; apart > 0; apart /= 2)
		x += __shfl_xor_sync(P4D_ALL_LANES, x, apart);
	return x;
}

__device__ static inline float p4d_group_max(float x, unsigned lanes)
{
	for (unsigned apart = lanes / 2; apart > 0; apart /= 2)
		x = fmaxf(x, __shfl_xor_sync(P4D_ALL_LANES, x, apart));
	return x;
}

__device__ static inline uint32_t p4d_larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

__device__ static inline uint32_t p4d_group_max(uint32_t x, unsigned lanes)
{
	for (unsigned apart = lanes / 2; apart > 0; apart /= 2)
		x = p4d_larger(x, __shfl_xor_sync(P4D_ALL_LANES, x, apart));
	return x;
}

/* Sum over the block; all threads get it. */
template <typename T> __device__ static inline T p4d_block_sum(T x)
{
	__shared__ T warps[P4D_WARP];
	const unsigned lane = threadIdx.x % P4D_WARP;

	x = p4d_group_sum(x, P4D_WARP);
	if (lane == 0)
		warps[threadIdx.x / P4D_WARP] = x;
	__syncthreads();
	x = p4d_group_sum(lane < blockDim.x / P4D_WARP ? warps[lane] : T(0), P4D_WARP);
	__syncthreads(); /* before the next sum writes */
	return x;
}

/* The second stage of sums over tokens: to (columns) += the sum over the rows of partial (rows, columns). */
void p4d_reduce_columns(cudaStream_t stream, float *to, const float *partial, uint64_t rows,
			uint64_t columns);
