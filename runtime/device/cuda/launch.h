/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts kernels. C++, only for .cu files. nvcc compiles .cu files for GPUs, and the host's C++ compiler
 * compiles them for tests. In tests, shim.h, which is then included first, runs the threads of a block.
 *
 * Blocks have a multiple of 32 threads. All threads of a block must reach a barrier, and all threads of a
 * warp must reach a shuffle. P4D_SHARED declares dynamic shared memory. A failed launch is the runtime's last
 * error, which the caller that queues an operation must check.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define P4D_SHARED(type, name) \
	extern __shared__ __align__(16) unsigned char p4d_shared_memory[]; \
	type *const name = reinterpret_cast<type *>(p4d_shared_memory)
#define P4D_UNROLL _Pragma("unroll 4")
#define P4D_UNROLL_ALL _Pragma("unroll")
#else
#define P4D_UNROLL
#define P4D_UNROLL_ALL
#endif

constexpr unsigned P4D_WARP = 32, P4D_THREADS = 256; /* threads of a usual block */
constexpr size_t P4D_SHARED_FREELY = 48 << 10;

typedef struct p4d_grid {
	uint64_t blocks, rows; /* gridDim.x, gridDim.y */
	unsigned threads;
	size_t shared; /* bytes */
} p4d_grid;

/*
 * All kernels that p4d ever launches, so that their code can be loaded before the first launch. Loading may
 * need an idle GPU. Later there may be no idle moment, because queued operations may wait for other ranks.
 */
typedef struct p4d_kernel {
	const void *function;
	const struct p4d_kernel *next;
} p4d_kernel;
extern const p4d_kernel *p4d_all_kernels; /* reduce.cu */

struct p4d_registered : p4d_kernel {
	explicit p4d_registered(const void *kernel) : p4d_kernel{kernel, p4d_all_kernels}
	{
		p4d_all_kernels = this;
	}
};

template <auto KERNEL> struct p4d_launched {
	static p4d_registered entry;
};
template <auto KERNEL> p4d_registered p4d_launched<KERNEL>::entry{reinterpret_cast<const void *>(KERNEL)};

static inline unsigned p4d_least(uint64_t a, unsigned b)
{
	return a < b ? (unsigned)a : b;
}

template <typename... P, typename... A>
static void p4d_start(cudaStream_t stream, const p4d_grid &grid, void (*kernel)(P...), A... arguments)
{
	/* clamped, because truncation might give a valid value; CUDA refuses the clamped value */
	const dim3 blocks(p4d_least(grid.blocks, UINT32_MAX), p4d_least(grid.rows, UINT32_MAX));
#ifdef __CUDACC__
	/* more shared memory than P4D_SHARED_FREELY must be requested; repeating the request is cheap */
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

/* Starts a kernel. An empty grid starts nothing. */
template <auto KERNEL, typename... A>
static void p4d_launch(cudaStream_t stream, const p4d_grid &grid, A... arguments)
{
	(void)&p4d_launched<KERNEL>::entry;
#ifndef __CUDACC__
	p4d_shim_kernel = __PRETTY_FUNCTION__;
#endif
	if (grid.blocks > 0 && grid.rows > 0)
		p4d_start(stream, grid, KERNEL, arguments...);
}

/* Number of threads for a row of this many vectors: whole warps, at most `most`. */
static inline unsigned p4d_threads_for(uint64_t vectors, unsigned most = P4D_THREADS)
{
	const uint64_t warps = (vectors + P4D_WARP - 1) / P4D_WARP;

	return p4d_least(warps ? warps * P4D_WARP : P4D_WARP, most);
}

/* Number of neighbouring threads of a warp for a row of this many vectors: a power of two. */
static inline unsigned p4d_lanes_for(uint64_t vectors)
{
	unsigned lanes = 1;

	while (lanes < P4D_WARP && lanes < vectors)
		lanes *= 2;
	return lanes;
}
