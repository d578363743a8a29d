/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm over rows of hidden states. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* Each block processes one row. It reads the row three times, the second and third time from the cache. */
template <typename E, int W>
__global__ void layer_norm_rows(E *y, float *mean, float *rstd, const E *x, const E *weight, const E *bias,
				unsigned h, float epsilon)
{
	const size_t at = (size_t)blockIdx.x * h;
	float sum = 0, squares = 0;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> a = p4d_load<W>(x + at + j);
		for (int k = 0; k < W; k++)
			sum += p4d_value(a.x[k]);
	}
	const float middle = p4d_block_sum(sum) / (float)h;
	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> a = p4d_load<W>(x + at + j);
		for (int k = 0; k < W; k++)
			squares += (p4d_value(a.x[k]) - middle) * (p4d_value(a.x[k]) - middle);
	}
	const float scale = 1 / sqrtf(p4d_block_sum(squares) / (float)h + epsilon);
	if (threadIdx.x == 0) {
		mean[blockIdx.x] = middle;
		rstd[blockIdx.x] = scale;
	}
	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> a = p4d_load<W>(x + at + j), w = p4d_load<W>(weight + j),
				    b = p4d_load<W>(bias + j);
		p4d_run<E, W> to;
		for (int k = 0; k < W; k++)
			p4d_round(&to.x[k], (p4d_value(a.x[k]) - middle) * scale * p4d_value(w.x[k]) +
						p4d_value(b.x[k]));
		p4d_store(y + at + j, to);
	}
}

/*
 * With z = (x - mean) * rstd and g = dy * weight: dx += rstd * (g - mean(g) - z * mean(g * z)). Each block
 * processes one row. It reads the row twice, the second time from the cache.
 */
template <typename E, int W>
__global__ void layer_norm_rows_backward(E *dx, const E *dy, const E *x, const E *weight, const float *mean,
					 const float *rstd, unsigned h)
{
	const size_t at = (size_t)blockIdx.x * h;
	const float middle = mean[blockIdx.x], scale = rstd[blockIdx.x];
	float sum = 0, dot = 0;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> d = p4d_load<W>(dy + at + j), a = p4d_load<W>(x + at + j),
				    w = p4d_load<W>(weight + j);
		for (int k = 0; k < W; k++) {
			const float g = p4d_value(d.x[k]) * p4d_value(w.x[k]);
			sum += g;
			dot += g * (p4d_value(a.x[k]) - middle);
		}
	}
	sum = p4d_block_sum(sum) / (float)h;
	dot = p4d_block_sum(dot) * scale / (float)h;
	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> d = p4d_load<W>(dy + at + j), a = p4d_load<W>(x + at + j),
				    w = p4d_load<W>(weight + j);
		p4d_run<E, W> to = p4d_load<W>(dx + at + j);
		for (int k = 0; k < W; k++) {
			const float z = (p4d_value(a.x[k]) - middle) * scale,
				    g = p4d_value(d.x[k]) * p4d_value(w.x[k]);
			p4d_round(&to.x[k], p4d_value(to.x[k]) + scale * (g - sum - z * dot));
		}
		p4d_store(dx + at + j, to);
	}
}

/*
 * dweight = sum of dy * z, dbias = sum of dy. A block has some columns of every gridDim.x-th row, and a
 * thread the same W columns in all rows.
 */
template <typename E, int W>
__global__ void layer_norm_columns(float *weights, float *biases, const E *dy, const E *x, const float *mean,
				   const float *rstd, uint64_t n, unsigned h)
{
	const unsigned j = (blockIdx.y * blockDim.x + threadIdx.x) * W;
	p4d_run<float, W> of_weight = {}, of_bias = {};

	if (j >= h)
		return;
	for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
		const p4d_run<E, W> d = p4d_load<W>(dy + (size_t)i * h + j),
				    a = p4d_load<W>(x + (size_t)i * h + j);
		const float middle = mean[i], scale = rstd[i];
		for (int k = 0; k < W; k++) {
			of_weight.x[k] += p4d_value(d.x[k]) * ((p4d_value(a.x[k]) - middle) * scale);
			of_bias.x[k] += p4d_value(d.x[k]);
		}
	}
	p4d_store(weights + (size_t)blockIdx.x * h + j, of_weight);
	p4d_store(biases + (size_t)blockIdx.x * h + j, of_bias);
}

void p4d_kernel_layer_norm(cudaStream_t stream, p4d_dtype type, void *y, float *statistics, const void *x,
			   const void *weight, const void *bias, uint64_t n, uint64_t h, float epsilon)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, y, x, weight, bias), E, W, {
			p4d_launch<layer_norm_rows<E, W>>(
			    stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)y, statistics, statistics + n,
			    (const E *)x, (const E *)weight, (const E *)bias, (unsigned)h, epsilon);
		});
	});
}

/* The memory for P4D_NORM_SUMS rows of partial sums is shared: one half for dweight, one for dbias. */
static void sum_columns(cudaStream_t stream, float *sums, p4d_dtype type, float *dweight, float *dbias,
			const void *dy, const void *x, const float *statistics, uint64_t n, uint64_t h)
{
	const unsigned blocks = p4d_least(n, P4D_NORM_SUMS / 2);
	float *const biases = sums + (size_t)blocks * h;

	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, dy, x, sums), E, W, {
			const unsigned threads = p4d_threads_for(h / W);
			const uint64_t across = (h / W + threads - 1) / threads;
			p4d_launch<layer_norm_columns<E, W>>(stream, {blocks, across, threads, 0}, sums,
							     biases, (const E *)dy, (const E *)x, statistics,
							     statistics + n, n, (unsigned)h);
		});
	});
	if (dweight)
		p4d_reduce_columns(stream, dweight, sums, blocks, h);
	if (dbias)
		p4d_reduce_columns(stream, dbias, biases, blocks, h);
}

void p4d_kernel_layer_norm_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dx,
				    float *dweight, float *dbias, const void *dy, const void *x,
				    const void *weight, const float *statistics, uint64_t n, uint64_t h)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, dx, dy, x, weight), E, W, {
			p4d_launch<layer_norm_rows_backward<E, W>>(
			    stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)dx, (const E *)dy, (const E *)x,
			    (const E *)weight, statistics, statistics + n, (unsigned)h);
		});
	});
	if (dweight || dbias)
		sum_columns(stream, sums, type, dweight, dbias, dy, x, statistics, n, h);
}
