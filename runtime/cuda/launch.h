/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_CUDA_LAUNCH_H
#define P4D_CUDA_LAUNCH_H

/*
 * How a kernel is started; C++, for .cu files only. They are compiled twice: by nvcc for GPUs, and by the C++
 * compiler of the host for tests, where shim/shim.h plays the threads of a block.
 *
 * Blocks have a multiple of 32 threads. What a barrier or a shuffle is in is reached by all of them. Dynamic
 * shared memory is declared by P4D_SHARED. A failed launch is the runtime's last error: who queues an
 * operation asks for it.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define P4D_SHARED(type, name) \
	extern __shared__ __align__(16) unsigned char p4d_shared_memory[]; \
	type *const name = reinterpret_cast<type *>(p4d_shared_memory)
#define P4D_UNROLL _Pragma("unroll 4")
#else
#include "shim/shim.h"
#define P4D_UNROLL
#endif

constexpr unsigned P4D_WARP = 32, P4D_THREADS = 256; /* of a usual block */
constexpr size_t P4D_SHARED_FREELY = 48 << 10;

typedef struct p4d_grid {
	uint64_t blocks, rows; /* gridDim.x, gridDim.y */
	unsigned threads;
	size_t shared; /* bytes */
} p4d_grid;

/* Nothing is started for an empty grid. */
template <typename... P, typename... A>
static void p4d_launch(cudaStream_t stream, const p4d_grid &grid, void (*kernel)(P...), A... arguments)
{
	if (grid.blocks == 0 || grid.rows == 0)
		return;
	const dim3 blocks((unsigned)grid.blocks, (unsigned)grid.rows);
#ifdef __CUDACC__
	/* more than that has to be asked for; asking again costs nothing */
	if (grid.shared > P4D_SHARED_FREELY &&
	    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)grid.shared) !=
		cudaSuccess)
		return;
	kernel<<<blocks, grid.threads, grid.shared, stream>>>(static_cast<P>(arguments)...);
#else
	(void)stream;
	p4d_shim_run(blocks, grid.threads, grid.shared, [&] { kernel(static_cast<P>(arguments)...); });
#endif
}

static inline unsigned p4d_least(uint64_t a, unsigned b)
{
	return a < b ? (unsigned)a : b;
}

/* Threads that share so many pieces of a row: whole warps, at most P4D_THREADS. */
static inline unsigned p4d_threads_for(uint64_t pieces)
{
	const uint64_t warps = (pieces + P4D_WARP - 1) / P4D_WARP;

	return p4d_least(warps ? warps * P4D_WARP : P4D_WARP, P4D_THREADS);
}

#endif
