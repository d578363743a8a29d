/* SPDX-License-Identifier: Apache-2.0 */
/* Biases of matmuls, except those of queries, keys and values, which are in rope.cu. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* Each block adds the bias to one row. */
template <typename E, int W> __global__ void bias_rows(E *y, const E *bias, unsigned h)
{
	E *row = y + (size_t)blockIdx.x * h;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> b = p4d_load<W>(bias + j);
		p4d_run<E, W> x = p4d_load<W>(row + j);
		for (int k = 0; k < W; k++)
			p4d_round(&x.x[k], p4d_value(x.x[k]) + p4d_value(b.x[k]));
		p4d_store(row + j, x);
	}
}

/* A thread has W columns of every gridDim.x-th row. */
template <typename E, int W> __global__ void bias_columns(float *partial, const E *dy, uint64_t n, unsigned h)
{
	const unsigned j = (blockIdx.y * blockDim.x + threadIdx.x) * W;
	p4d_run<float, W> sum = {};

	if (j >= h)
		return;
	for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
		const p4d_run<E, W> g = p4d_load<W>(dy + (size_t)i * h + j);
		for (int k = 0; k < W; k++)
			sum.x[k] += p4d_value(g.x[k]);
	}
	p4d_store(partial + (size_t)blockIdx.x * h + j, sum);
}

void p4d_kernel_add_bias(cudaStream_t stream, p4d_dtype type, void *y, const void *bias, uint64_t n,
			 uint64_t h)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, y, bias), E, W, {
			p4d_launch<bias_rows<E, W>>(stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)y,
						    (const E *)bias, (unsigned)h);
		});
	});
}

void p4d_kernel_bias_backward(cudaStream_t stream, float *sums, p4d_dtype type, float *dbias, const void *dy,
			      uint64_t n, uint64_t h)
{
	const unsigned blocks = p4d_least(n, P4D_NORM_SUMS);

	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, dy, sums), E, W, {
			const unsigned threads = p4d_threads_for(h / W);
			const uint64_t across = (h / W + threads - 1) / threads;
			p4d_launch<bias_columns<E, W>>(stream, {blocks, across, threads, 0}, sums,
						       (const E *)dy, n, (unsigned)h);
		});
	});
	p4d_reduce_columns(stream, dbias, sums, blocks, h);
}
