/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm over rows of hidden states. plus: added to the weights; 1 for unit norms, else 0. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* Each block processes one row. It reads the row twice, the second time from the cache. */
template <typename E, int W>
__global__ void norm_rows(E *y, float *rstd, const E *x, const E *weight, unsigned h, float epsilon,
			  float plus)
{
	const size_t at = (size_t)blockIdx.x * h;
	float squares = 0;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		const p4d_run<E, W> a = p4d_load<W>(x + at + j);
		for (int k = 0; k < W; k++)
			squares += p4d_value(a.x[k]) * p4d_value(a.x[k]);
	}
	const float scale = 1 / sqrtf(p4d_block_sum(squares) / (float)h + epsilon);
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

/* A thread's part of a row: RUNS times W adjacent columns of each operand. */
template <typename E, int W, int RUNS> struct norm_row {
	p4d_run<E, W> g[RUNS], x[RUNS], to[RUNS];
};

template <typename E, int W, int RUNS>
__device__ static inline void take_row(norm_row<E, W, RUNS> *row, const E *dy, const E *x, const E *dx,
				       uint64_t i, unsigned h)
{
	for (int r = 0; r < RUNS; r++) {
		const unsigned j = (threadIdx.x + r * blockDim.x) * W;
		if (j >= h)
			continue;
		row->g[r] = p4d_load<W>(dy + i * h + j);
		row->x[r] = p4d_load<W>(x + i * h + j);
		row->to[r] = p4d_load<W>(dx + i * h + j);
	}
}

constexpr unsigned NORM_THREADS = 2 * P4D_THREADS;

/*
 * With z = x * rstd and g = dy * weight: dx += rstd * (g - z * mean(g * z)), dweight = sum of dy * z. A block
 * loops over every gridDim.x-th row. A thread has the same columns in all rows, and adds them to its block's
 * partial sum. There are too few blocks to hide the latency of loading a row, reducing it and then storing
 * it. So a thread loads its whole part of a row together. With RUNS == 1 it also loads its part of the next
 * row before it reduces.
 */
template <typename E, int W, int RUNS>
__global__ void __launch_bounds__(NORM_THREADS)
    norm_rows_backward(E *dx, float *partial, const E *dy, const E *x, const E *weight, const float *rstd,
		       uint64_t n, unsigned h, float plus)
{
	constexpr bool AHEAD = RUNS == 1;
	p4d_run<float, W> sums[RUNS] = {};
	p4d_run<E, W> w[RUNS] = {};
	norm_row<E, W, RUNS> next = {};

	for (int r = 0; r < RUNS; r++) {
		const unsigned j = (threadIdx.x + r * blockDim.x) * W;
		if (j < h)
			w[r] = p4d_load<W>(weight + j);
	}
	if (AHEAD)
		take_row(&next, dy, x, dx, blockIdx.x, h);
	for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
		norm_row<E, W, RUNS> row = next;
		const float scale = rstd[i];
		float dot = 0;
		if (!AHEAD)
			take_row(&row, dy, x, dx, i, h);
		else if (i + gridDim.x < n)
			take_row(&next, dy, x, dx, i + gridDim.x, h);
		for (int r = 0; r < RUNS; r++)
			for (int k = 0; k < W; k++)
				dot += p4d_value(row.g[r].x[k]) * (p4d_value(w[r].x[k]) + plus) *
				       p4d_value(row.x[r].x[k]);
		const float mean = p4d_block_sum(dot) * scale / (float)h;
		for (int r = 0; r < RUNS; r++) {
			const unsigned j = (threadIdx.x + r * blockDim.x) * W;
			for (int k = 0; k < W; k++) {
				const float z = p4d_value(row.x[r].x[k]) * scale,
					    g = p4d_value(row.g[r].x[k]);
				sums[r].x[k] += g * z;
				p4d_round(&row.to[r].x[k],
					  p4d_value(row.to[r].x[k]) +
					      scale * (g * (p4d_value(w[r].x[k]) + plus) - z * mean));
			}
			if (j < h)
				p4d_store(dx + i * h + j, row.to[r]);
		}
	}
	for (int r = 0; r < RUNS; r++) {
		const unsigned j = (threadIdx.x + r * blockDim.x) * W;
		if (j < h)
			p4d_store(partial + (size_t)blockIdx.x * h + j, sums[r]);
	}
}

/*
 * Like the kernel above, for rows that are too long for registers: they are read twice, and summed directly
 * in the partial sum.
 */
template <typename E, int W>
__global__ void long_norm_rows_backward(E *dx, float *partial, const E *dy, const E *x, const E *weight,
					const float *rstd, uint64_t n, unsigned h, float plus)
{
	float *const sums = partial + (size_t)blockIdx.x * h;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W)
		p4d_store(sums + j, p4d_run<float, W>{});
	for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
		const size_t at = (size_t)i * h;
		const float scale = rstd[i];
		float dot = 0;
		for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
			const p4d_run<E, W> g = p4d_load<W>(dy + at + j), a = p4d_load<W>(x + at + j),
					    w = p4d_load<W>(weight + j);
			for (int k = 0; k < W; k++)
				dot += p4d_value(g.x[k]) * (p4d_value(w.x[k]) + plus) * p4d_value(a.x[k]);
		}
		const float mean = p4d_block_sum(dot) * scale / (float)h;
		for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
			const p4d_run<E, W> g = p4d_load<W>(dy + at + j), a = p4d_load<W>(x + at + j),
					    w = p4d_load<W>(weight + j);
			p4d_run<E, W> to = p4d_load<W>(dx + at + j);
			p4d_run<float, W> sum = p4d_load<W>(sums + j);
			for (int k = 0; k < W; k++) {
				const float z = p4d_value(a.x[k]) * scale, gradient = p4d_value(g.x[k]);
				sum.x[k] += gradient * z;
				p4d_round(&to.x[k],
					  p4d_value(to.x[k]) +
					      scale * (gradient * (p4d_value(w.x[k]) + plus) - z * mean));
			}
			p4d_store(dx + at + j, to);
			p4d_store(sums + j, sum);
		}
	}
}

static void start_norm(cudaStream_t stream, p4d_dtype type, void *y, float *rstd, const void *x,
		       const void *weight, uint64_t n, uint64_t h, float epsilon, float plus)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, y, x, weight), E, W, {
			p4d_launch<norm_rows<E, W>>(stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)y, rstd,
						    (const E *)x, (const E *)weight, (unsigned)h, epsilon,
						    plus);
		});
	});
}

template <typename E, int W, typename... A>
static void norm_backward(cudaStream_t stream, const p4d_grid &grid, uint64_t runs, A... arguments)
{
	if (runs <= 1)
		p4d_launch<norm_rows_backward<E, W, 1>>(stream, grid, arguments...);
	else if (runs == 2)
		p4d_launch<norm_rows_backward<E, W, 2>>(stream, grid, arguments...);
	else
		p4d_launch<long_norm_rows_backward<E, W>>(stream, grid, arguments...);
}

static void start_norm_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dx, float *dweight,
				const void *dy, const void *x, const void *weight, const float *rstd,
				uint64_t n, uint64_t h, float plus)
{
	const unsigned blocks = p4d_least(n, P4D_NORM_SUMS);

	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, dx, dy, x, weight, sums), E, W, {
			norm_backward<E, W>(stream, {blocks, 1, p4d_threads_for(h / W, NORM_THREADS), 0},
					    (h / W + NORM_THREADS - 1) / NORM_THREADS, (E *)dx, sums,
					    (const E *)dy, (const E *)x, (const E *)weight, rstd, n,
					    (unsigned)h, plus);
		});
	});
	if (dweight)
		p4d_reduce_columns(stream, dweight, sums, blocks, h);
}

void p4d_kernel_norm(cudaStream_t stream, p4d_dtype type, void *y, float *rstd, const void *x,
		     const void *weight, uint64_t n, uint64_t h, float epsilon)
{
	start_norm(stream, type, y, rstd, x, weight, n, h, epsilon, 0);
}

void p4d_kernel_norm_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dx, float *dweight,
			      const void *dy, const void *x, const void *weight, const float *rstd,
			      uint64_t n, uint64_t h)
{
	start_norm_backward(stream, sums, type, dx, dweight, dy, x, weight, rstd, n, h, 0);
}

void p4d_kernel_unit_norm(cudaStream_t stream, p4d_dtype type, void *y, float *rstd, const void *x,
			  const void *weight, uint64_t n, uint64_t h, float epsilon)
{
	start_norm(stream, type, y, rstd, x, weight, n, h, epsilon, 1);
}

void p4d_kernel_unit_norm_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dx, float *dweight,
				   const void *dy, const void *x, const void *weight, const float *rstd,
				   uint64_t n, uint64_t h)
{
	start_norm_backward(stream, sums, type, dx, dweight, dy, x, weight, rstd, n, h, 1);
}
