/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Elements of activations and parameters in kernels. There are two types, and vectorized accesses. A kernel
 * is compiled for W elements per access. An access has 16 bytes if all addresses and row lengths of the call
 * are multiples of 16 bytes, else one element. Arithmetic is fp32.
 */
#include "device/cuda/launch.h"
#ifndef __CUDACC__
#include "base/vector.h"
#endif

typedef struct p4d_bf16 {
	uint16_t bits;
} p4d_bf16;

__device__ static inline float p4d_value(float x)
{
	return x;
}

__device__ static inline float p4d_value(p4d_bf16 x)
{
#ifdef __CUDACC__
	return __uint_as_float((unsigned)x.bits << 16);
#else
	return p4d_from_bf16(x.bits);
#endif
}

__device__ static inline void p4d_round(float *to, float x)
{
	*to = x;
}

__device__ static inline void p4d_round(p4d_bf16 *to, float x)
{
#ifdef __CUDACC__
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
	to->bits = p4d_to_bf16(x);
#endif
}

__device__ static inline uint32_t p4d_bits_of(float x)
{
#ifdef __CUDACC__
	return __float_as_uint(x);
#else
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
#endif
}

/* W adjacent elements, which one access loads or stores. */
template <typename E, int W> struct alignas(sizeof(E) * W < 16 ? sizeof(E) * W : 16) p4d_run {
	E x[W];
};

template <int W, typename E> __device__ static inline p4d_run<E, W> p4d_load(const E *from)
{
	return *reinterpret_cast<const p4d_run<E, W> *>(from);
}

template <typename E, int W> __device__ static inline void p4d_store(E *to, const p4d_run<E, W> &run)
{
	*reinterpret_cast<p4d_run<E, W> *>(to) = run;
}

/* The number of elements of type E in 16 bytes. */
template <typename E> struct p4d_widest {
	static const int width = 16 / sizeof(E);
};

/*
 * Whether all rows can be accessed 16 bytes at a time. row: number of elements in a row. addresses: where the
 * matrices begin; NULL addresses do not matter.
 */
template <typename E> static bool p4d_is_wide(uint64_t row)
{
	return row % p4d_widest<E>::width == 0;
}

template <typename E, typename... More>
static bool p4d_is_wide(uint64_t row, const void *address, More... addresses)
{
	return reinterpret_cast<uintptr_t>(address) % 16 == 0 && p4d_is_wide<E>(row, addresses...);
}

/* Run the statement with E as the element type, or with W as the number of elements per access. */
#define P4D_WITH_TYPE(type, E, ...) \
	do { \
		if ((type) == P4D_DT_BF16) { \
			using E = p4d_bf16; \
			__VA_ARGS__; \
		} else { \
			using E = float; \
			__VA_ARGS__; \
		} \
	} while (0)
#define P4D_WITH_WIDTH(wide, E, W, ...) \
	do { \
		if (wide) { \
			constexpr int W = p4d_widest<E>::width; \
			__VA_ARGS__; \
		} else { \
			constexpr int W = 1; \
			__VA_ARGS__; \
		} \
	} while (0)

/*
 * A kernel for arrays without rows. f is a struct with the addresses; f.at<W>(i) processes elements i ..
 * i+W-1. The last count % W elements are processed one by one.
 */
template <int W, typename F> __global__ void p4d_each(F f, uint64_t count)
{
	const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
	const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, runs = count / W;

	for (uint64_t i = first; i < runs; i += step)
		f.template at<W>(i * W);
	for (uint64_t i = runs * W + first; i < count; i += step)
		f.template at<1>(i);
}

constexpr unsigned P4D_EACH_BLOCKS = 2048; /* enough to fill any GPU */

template <int W, typename F> static void p4d_for_each(cudaStream_t stream, const F &f, uint64_t count)
{
	const unsigned blocks = p4d_least((count / W + P4D_THREADS) / P4D_THREADS, P4D_EACH_BLOCKS);

	if (count)
		p4d_launch<p4d_each<W, F>>(stream, {blocks, 1, P4D_THREADS, 0}, f, count);
}
