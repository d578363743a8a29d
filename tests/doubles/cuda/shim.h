/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compiles the kernels for the host, for tests on machines without a GPU: the threads of a block are
 * fibers of one thread. A warp runs to the next barrier before another warp runs. Without a needed
 * barrier, the result is therefore wrong in one of two orders of warps. The program ends with a message if
 * some threads do not reach a barrier or shuffle, or if blocks or shared memory exceed the limits of every
 * GPU. Shared memory has exactly the requested size and is initialized to NaN, so that sanitizers and
 * results show errors. Speed and memory model are those of the host.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>

#include <cuda_runtime_api.h>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
	unsigned x, y, z;

	dim3(unsigned xs = 1, unsigned ys = 1, unsigned zs = 1) : x(xs), y(ys), z(zs)
	{
	}
};

/* Coordinates of the running thread. */
struct p4d_shim_thread {
	dim3 thread, block, threads, blocks;
	unsigned char *shared;
};
extern p4d_shim_thread p4d_shim;

#define threadIdx (p4d_shim.thread)
#define blockIdx (p4d_shim.block)
#define blockDim (p4d_shim.threads)
#define gridDim (p4d_shim.blocks)
#define P4D_SHARED(type, name) type *const name = reinterpret_cast<type *>(p4d_shim.shared)

extern const char *p4d_shim_kernel; /* the signature of the p4d_launch instance, which contains the
				     * kernel's name */
void p4d_shim_run(dim3 blocks, unsigned threads, size_t shared, const std::function<void()> &kernel);

struct cudaFuncAttributes {
};

static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *)
{
	return p4d_shim_gpu.sm >= 80 ? cudaSuccess : cudaErrorNoKernelImageForDevice;
}

/* The order in which threads, warps and blocks run. A result that depends on it is wrong. */
enum p4d_shim_order { P4D_SHIM_FORWARD, P4D_SHIM_BACKWARD };
extern "C" void p4d_shim_set_order(enum p4d_shim_order order);

/* All threads must reach the call at the same line. p4d_shim_barrier returns whether any thread voted.
 * p4d_shim_exchange returns the value that lane `from` of the warp posted. */
bool p4d_shim_barrier(int line, bool vote);
uint64_t p4d_shim_exchange(int line, uint64_t post, unsigned from);
unsigned p4d_shim_ballot(int line, bool vote);
void p4d_shim_all(int line, unsigned mask); /* the mask must have all lanes */

static inline void __syncthreads(int line = __builtin_LINE())
{
	p4d_shim_barrier(line, false);
}

static inline int __syncthreads_or(int vote, int line = __builtin_LINE())
{
	return p4d_shim_barrier(line, vote != 0);
}

static inline void __syncwarp(int line = __builtin_LINE())
{
	p4d_shim_exchange(line, 0, 0);
}

static inline unsigned __ballot_sync(unsigned mask, int vote, int line = __builtin_LINE())
{
	p4d_shim_all(line, mask);
	return p4d_shim_ballot(line, vote != 0);
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T x, unsigned apart, int line = __builtin_LINE())
{
	uint64_t bits = 0;

	p4d_shim_all(line, mask);
	static_assert(sizeof(T) <= sizeof(bits), "a shuffle moves 8 bytes at most");
	memcpy(&bits, &x, sizeof(x));
	bits = p4d_shim_exchange(line, bits, (p4d_shim.thread.x ^ apart) % 32);
	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}
