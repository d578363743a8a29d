/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMSNorm of rows whose features are on several ranks. row_dots computes sums over this rank's part of a row.
 * The other kernels compute results from the sums of all parts.
 */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* Each block processes one row. WEIGHTED: the row is multiplied by the weights. */
template <typename E, int W, bool WEIGHTED>
__global__ void row_dots(float *sums, const E *a, const E *b, const E *weight, unsigned h, float plus)
{
	const size_t at = (size_t)blockIdx.x * h;
	float dot = 0;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> left = p4d_load<W>(a + at + j), right = p4d_load<W>(b + at + j);
		p4d_run<E, W> w = {};
		if (WEIGHTED)
			w = p4d_load<W>(weight + j);
		for (int k = 0; k < W; k++)
			dot += p4d_value(left.x[k]) * (WEIGHTED ? p4d_value(w.x[k]) + plus : 1) *
			       p4d_value(right.x[k]);
	}
	dot = p4d_block_sum(dot);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = dot;
}

template <typename E, int W>
__global__ void split_norm_rows(E *y, float *rstd, const E *x, const E *weight, unsigned h, float width,
				float epsilon, float plus)
{
	const size_t at = (size_t)blockIdx.x * h;
	const float scale = 1 / sqrtf(rstd[blockIdx.x] / width + epsilon);

	__syncthreads(); /* all threads have read the sum */
	if (threadIdx.x == 0)
		rstd[blockIdx.x] = scale;
	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> a = p4d_load<W>(x + at + j), w = p4d_load<W>(weight + j);
		p4d_run<E, W> to;
		for (int k = 0; k < W; k++)
			p4d_round(&to.x[k], p4d_value(a.x[k]) * scale * (p4d_value(w.x[k]) + plus));
		p4d_store(y + at + j, to);
	}
}

/*
 * A block has some columns of every gridDim.x-th row, and a thread the same W columns in all rows. Nothing is
 * summed within a row, so threads do not wait for each other between rows.
 */
template <typename E, int W>
__global__ void split_norm_columns_backward(E *dx, float *partial, const E *dy, const E *x, const E *weight,
					    const float *rstd, const float *dots, uint64_t n, unsigned h,
					    float width, float plus)
{
	const unsigned j = (blockIdx.y * blockDim.x + threadIdx.x) * W;
	p4d_run<float, W> sum = {};

	if (j >= h)
		return;
	const p4d_run<E, W> w = p4d_load<W>(weight + j);
	for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
		const size_t at = (size_t)i * h + j;
		const float scale = rstd[i], mean = dots[i] * scale / width;
		const p4d_run<E, W> g = p4d_load<W>(dy + at), a = p4d_load<W>(x + at);
		p4d_run<E, W> to = p4d_load<W>(dx + at);
		for (int k = 0; k < W; k++) {
			const float z = p4d_value(a.x[k]) * scale, gradient = p4d_value(g.x[k]);
			sum.x[k] += gradient * z;
			p4d_round(&to.x[k], p4d_value(to.x[k]) +
						scale * (gradient * (p4d_value(w.x[k]) + plus) - z * mean));
		}
		p4d_store(dx + at, to);
	}
	p4d_store(partial + (size_t)blockIdx.x * h + j, sum);
}

void p4d_kernel_row_dots(cudaStream_t stream, p4d_dtype type, float *sums, const void *a, const void *b,
			 const void *weight, uint64_t n, uint64_t h, float plus)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, a, b, weight), E, W, {
			const p4d_grid rows = {n, 1, p4d_threads_for(h / W), 0};
			if (weight)
				p4d_launch<row_dots<E, W, true>>(stream, rows, sums, (const E *)a,
								 (const E *)b, (const E *)weight, (unsigned)h,
								 plus);
			else
				p4d_launch<row_dots<E, W, false>>(stream, rows, sums, (const E *)a,
								  (const E *)b, (const E *)weight,
								  (unsigned)h, plus);
		});
	});
}

void p4d_kernel_split_norm(cudaStream_t stream, p4d_dtype type, void *y, float *rstd, const void *x,
			   const void *weight, uint64_t n, uint64_t h, uint64_t width, float epsilon,
			   float plus)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, y, x, weight), E, W, {
			p4d_launch<split_norm_rows<E, W>>(stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)y,
							  rstd, (const E *)x, (const E *)weight, (unsigned)h,
							  (float)width, epsilon, plus);
		});
	});
}

void p4d_kernel_split_norm_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dx,
				    float *dweight, const void *dy, const void *x, const void *weight,
				    const float *rstd, const float *dots, uint64_t n, uint64_t h,
				    uint64_t width, float plus)
{
	const unsigned blocks = p4d_least(n, P4D_NORM_SUMS);

	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, dx, dy, x, weight, sums), E, W, {
			const unsigned threads = p4d_threads_for(h / W);
			const uint64_t across = (h / W + threads - 1) / threads;
			p4d_launch<split_norm_columns_backward<E, W>>(
			    stream, {blocks, across, threads, 0}, (E *)dx, sums, (const E *)dy, (const E *)x,
			    (const E *)weight, rstd, dots, n, (unsigned)h, (float)width, plus);
		});
	});
	if (dweight)
		p4d_reduce_columns(stream, dweight, sums, blocks, h);
}
