/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, casts and copies of whole arrays. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"

template <typename E> struct added {
	E *y;
	const E *a, *b;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> left = p4d_load<W>(a + i), right = p4d_load<W>(b + i);
		p4d_run<E, W> sum;
		for (int k = 0; k < W; k++)
			p4d_round(&sum.x[k], p4d_value(left.x[k]) + p4d_value(right.x[k]));
		p4d_store(y + i, sum);
	}
};

/* a may be NULL */
template <typename E> struct added_scaled {
	E *y;
	const E *a, *b;
	float factor;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> right = p4d_load<W>(b + i);
		p4d_run<E, W> left = {}, sum;
		if (a)
			left = p4d_load<W>(a + i);
		for (int k = 0; k < W; k++)
			p4d_round(&sum.x[k], p4d_value(left.x[k]) + factor * p4d_value(right.x[k]));
		p4d_store(y + i, sum);
	}
};

template <typename To, typename From> struct converted {
	To *y;
	const From *x;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<From, W> from = p4d_load<W>(x + i);
		p4d_run<To, W> to;
		for (int k = 0; k < W; k++)
			p4d_round(&to.x[k], p4d_value(from.x[k]));
		p4d_store(y + i, to);
	}
};

template <typename E> struct accumulated {
	float *y;
	const E *x;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> more = p4d_load<W>(x + i);
		p4d_run<float, W> sum = p4d_load<W>(y + i);
		for (int k = 0; k < W; k++)
			sum.x[k] += p4d_value(more.x[k]);
		p4d_store(y + i, sum);
	}
};

struct filled {
	uint32_t *to, word;

	template <int W> __device__ void at(uint64_t i) const
	{
		p4d_run<uint32_t, W> run;
		for (int k = 0; k < W; k++)
			run.x[k] = word;
		p4d_store(to + i, run);
	}
};

/* Each block processes one row. */
template <typename E, int W>
__global__ void accumulated_rows(float *y, uint64_t stride, const E *x, uint64_t columns)
{
	const accumulated<E> row{y + blockIdx.x * stride, x + blockIdx.x * columns};

	for (uint64_t j = (uint64_t)threadIdx.x * W; j < columns; j += (uint64_t)blockDim.x * W)
		row.template at<W>(j);
}

/* Copies rows of words, one row per block. */
template <typename Word>
__global__ void copied_rows(char *to, uint64_t to_stride, const char *from, uint64_t from_stride,
			    uint64_t words)
{
	Word *y = reinterpret_cast<Word *>(to + blockIdx.x * to_stride);
	const Word *x = reinterpret_cast<const Word *>(from + blockIdx.x * from_stride);

	for (uint64_t j = threadIdx.x; j < words; j += blockDim.x)
		y[j] = x[j];
}

void p4d_kernel_fill(cudaStream_t stream, void *to, uint32_t word, uint64_t words)
{
	P4D_WITH_WIDTH(p4d_is_wide<float>(0, to), float, W, {
		p4d_for_each<W>(stream, filled{(uint32_t *)to, word}, words);
	});
}

void p4d_kernel_add(cudaStream_t stream, p4d_dtype type, void *y, const void *a, const void *b,
		    uint64_t count)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, y, a, b), E, W, {
			p4d_for_each<W>(stream, added<E>{(E *)y, (const E *)a, (const E *)b}, count);
		});
	});
}

void p4d_kernel_add_scaled(cudaStream_t stream, p4d_dtype type, void *y, const void *a, const void *b,
			   float factor, uint64_t count)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, y, a, b), E, W, {
			p4d_for_each<W>(stream, added_scaled<E>{(E *)y, (const E *)a, (const E *)b, factor},
					count);
		});
	});
}

void p4d_kernel_scale(cudaStream_t stream, p4d_dtype type, void *y, float factor, uint64_t count)
{
	p4d_kernel_add_scaled(stream, type, y, NULL, y, factor, count);
}

template <typename To, typename From>
static void convert(cudaStream_t stream, void *y, const void *x, uint64_t count)
{
	P4D_WITH_WIDTH(p4d_is_wide<p4d_bf16>(0, y, x), p4d_bf16, W, {
		p4d_for_each<W>(stream, converted<To, From>{(To *)y, (const From *)x}, count);
	});
}

void p4d_kernel_cast(cudaStream_t stream, p4d_dtype to, void *y, const void *x, uint64_t count)
{
	if (to == P4D_DT_BF16)
		convert<p4d_bf16, float>(stream, y, x, count);
	else
		convert<float, p4d_bf16>(stream, y, x, count);
}

void p4d_kernel_accumulate(cudaStream_t stream, float *y, p4d_dtype type, const void *x, uint64_t count)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, y, x), E, W, {
			p4d_for_each<W>(stream, accumulated<E>{y, (const E *)x}, count);
		});
	});
}

void p4d_kernel_accumulate_rows(cudaStream_t stream, float *y, uint64_t stride, p4d_dtype type, const void *x,
				uint64_t columns, uint64_t rows)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<float>(stride) && p4d_is_wide<E>(columns, y, x), E, W, {
			p4d_launch<accumulated_rows<E, W>>(stream, {rows, 1, p4d_threads_for(columns / W), 0},
							   y, stride, (const E *)x, columns);
		});
	});
}

void p4d_kernel_copy_rows(cudaStream_t stream, void *to, uint64_t to_stride, const void *from,
			  uint64_t from_stride, uint64_t row_bytes, uint64_t rows)
{
	typedef p4d_run<uint32_t, 4> word;
	const uint64_t all = (uintptr_t)to | to_stride | (uintptr_t)from | from_stride | row_bytes;

	if (all % sizeof(word) == 0)
		p4d_launch<copied_rows<word>>(stream, {rows, 1, p4d_threads_for(row_bytes / sizeof(word)), 0},
					      (char *)to, to_stride, (const char *)from, from_stride,
					      row_bytes / sizeof(word));
	else if (all % sizeof(uint16_t) == 0)
		p4d_launch<copied_rows<uint16_t>>(stream, {rows, 1, P4D_THREADS, 0}, (char *)to, to_stride,
						  (const char *)from, from_stride,
						  row_bytes / sizeof(uint16_t));
	else
		p4d_launch<copied_rows<char>>(stream, {rows, 1, P4D_THREADS, 0}, (char *)to, to_stride,
					      (const char *)from, from_stride, row_bytes);
}
