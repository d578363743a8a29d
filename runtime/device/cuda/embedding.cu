/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up rows of the embedding table on this rank, and computes the table's gradient. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"

/* The row of a token; `rows`: another rank has it. */
__device__ static inline uint64_t row_of(int32_t token, uint64_t first, uint64_t rows)
{
	const uint64_t row = (uint64_t)(int64_t)token - first;

	return token >= 0 && (uint64_t)token >= first && row < rows ? row : rows;
}

template <typename E, int W>
__global__ void embed_rows(E *out, const E *table, const int32_t *tokens, unsigned h, uint64_t first,
			   uint64_t rows)
{
	const uint64_t row = row_of(tokens[blockIdx.x], first, rows);
	E *to = out + (size_t)blockIdx.x * h;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		p4d_run<E, W> x = {};
		if (row < rows)
			x = p4d_load<W>(table + row * h + j);
		p4d_store(to + j, x);
	}
}

/*
 * The gradient, without atomics and in the order of tokens. There is a block for each occurrence of a token.
 * The block of a token's first occurrence adds the gradients of all its occurrences; the other blocks end at
 * once. It examines P4D_THREADS tokens at a time, and a thread has W columns. One token may be a sixth of all
 * tokens. So the block loads several rows together instead of waiting for each.
 */
template <typename E, int W>
__global__ void embed_rows_backward(float *dtable, const E *dy, const int32_t *tokens, uint64_t n, unsigned h,
				    uint64_t first, uint64_t rows)
{
	constexpr unsigned WARPS = P4D_THREADS / P4D_WARP, AT_ONCE = 8;
	__shared__ unsigned found[WARPS];
	__shared__ uint16_t same[P4D_THREADS]; /* occurrences of this token among those that the block
						* examines */
	const int32_t token = tokens[blockIdx.x];
	const uint64_t row = row_of(token, first, rows);
	const unsigned column = (blockIdx.y * P4D_THREADS + threadIdx.x) * W;
	const unsigned warp = threadIdx.x / P4D_WARP, lane = threadIdx.x % P4D_WARP;
	p4d_run<float, W> sums = {};
	int seen = 0;

	if (row == rows)
		return;
	for (uint64_t i = threadIdx.x; i < blockIdx.x; i += P4D_THREADS)
		seen |= tokens[i] == token;
	if (__syncthreads_or(seen))
		return;
	for (uint64_t from = blockIdx.x; from < n; from += P4D_THREADS) {
		const uint64_t i = from + threadIdx.x;
		const bool is = i < n && tokens[i] == token;
		const unsigned bits = __ballot_sync(0xffffffffu, is);
		if (lane == 0)
			found[warp] = (unsigned)__popc(bits);
		__syncthreads();
		unsigned count = 0, before = 0;
		for (unsigned k = 0; k < WARPS; k++) {
			before += k < warp ? found[k] : 0;
			count += found[k];
		}
		if (is)
			same[before + __popc(bits & ((1u << lane) - 1))] = (uint16_t)threadIdx.x;
		__syncthreads();
		for (unsigned k = 0; column < h && k < count; k += AT_ONCE) {
			p4d_run<E, W> x[AT_ONCE] = {};
			for (unsigned r = 0; r < AT_ONCE; r++)
				if (k + r < count)
					x[r] = p4d_load<W>(dy + (from + same[k + r]) * h + column);
			for (unsigned r = 0; r < AT_ONCE; r++)
				for (int c = 0; k + r < count && c < W; c++)
					sums.x[c] += p4d_value(x[r].x[c]);
		}
		__syncthreads();
	}
	if (column >= h)
		return;
	p4d_run<float, W> to = p4d_load<W>(dtable + row * h + column);
	for (int k = 0; k < W; k++)
		to.x[k] += sums.x[k];
	p4d_store(dtable + row * h + column, to);
}

void p4d_kernel_embed(cudaStream_t stream, p4d_dtype type, void *out, const void *table,
		      const int32_t *tokens, uint64_t n, uint64_t h, uint64_t first, uint64_t rows)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, out, table), E, W, {
			p4d_launch<embed_rows<E, W>>(stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)out,
						     (const E *)table, tokens, (unsigned)h, first, rows);
		});
	});
}

void p4d_kernel_embed_backward(cudaStream_t stream, p4d_dtype type, float *dtable, const void *dy,
			       const int32_t *tokens, uint64_t n, uint64_t h, uint64_t first, uint64_t rows)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, dtable, dy), E, W, {
			const uint64_t columns = (uint64_t)P4D_THREADS * W;
			p4d_launch<embed_rows_backward<E, W>>(
			    stream, {n, (h + columns - 1) / columns, P4D_THREADS, 0}, dtable, (const E *)dy,
			    tokens, n, (unsigned)h, first, rows);
		});
	});
}
