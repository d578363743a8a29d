/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy over a shard of the vocabulary. Each block processes one token. */
#include <math.h>

#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* The column of a label; `vocab`: another rank has it, or there is no label. */
__device__ static inline uint64_t column_of(int32_t label, uint64_t first, uint64_t vocab)
{
	const uint64_t column = (uint64_t)(int64_t)label - first;

	return label >= 0 && (uint64_t)label >= first && column < vocab ? column : vocab;
}

/* The running maximum, and the sum of exp(logit - maximum). */
typedef struct softmax_sum {
	float maximum, sum;
} softmax_sum;

/*
 * Returns what is subtracted before exp. It is finite, because for an empty sum the difference would be
 * infinity minus infinity.
 */
__device__ static inline float shift_of(float maximum)
{
	return maximum == -INFINITY ? 0 : maximum;
}

__device__ static inline softmax_sum join(softmax_sum a, softmax_sum b)
{
	const float most = fmaxf(a.maximum, b.maximum), shift = shift_of(most);

	return {most, a.sum * expf(a.maximum - shift) + b.sum * expf(b.maximum - shift)};
}

__device__ static inline softmax_sum join_group(softmax_sum a)
{
	for (unsigned apart = P4D_WARP / 2; apart > 0; apart /= 2) {
		const softmax_sum b = {__shfl_xor_sync(P4D_ALL_LANES, a.maximum, apart),
				       __shfl_xor_sync(P4D_ALL_LANES, a.sum, apart)};
		/* both lanes combine the two sums in the same order, so they get the same bits */
		a = threadIdx.x & apart ? join(b, a) : join(a, b);
	}
	return a;
}

template <int W, typename E> __device__ static inline softmax_sum add_run(softmax_sum seen, const E *from)
{
	const p4d_run<E, W> x = p4d_load<W>(from);
	float most = seen.maximum;

	for (int k = 0; k < W; k++)
		most = fmaxf(most, p4d_value(x.x[k]));
	const float shift = shift_of(most);
	seen.sum *= expf(seen.maximum - shift);
	for (int k = 0; k < W; k++)
		seen.sum += expf(p4d_value(x.x[k]) - shift);
	seen.maximum = most;
	return seen;
}

/* The sum of a row, for all threads of its block. Rows are padded, so that all begin at a multiple of W. */
template <int W, typename E> __device__ static inline softmax_sum sum_row(const E *row, unsigned vocab)
{
	__shared__ softmax_sum warps[P4D_WARP];
	const unsigned whole = vocab / W * W;
	softmax_sum seen = {-INFINITY, 0};

	P4D_UNROLL
	for (unsigned j = threadIdx.x * W; j < whole; j += blockDim.x * W)
		seen = add_run<W>(seen, row + j);
	for (unsigned j = whole + threadIdx.x; j < vocab; j += blockDim.x)
		seen = add_run<1>(seen, row + j);
	seen = join_group(seen);
	if (threadIdx.x % P4D_WARP == 0)
		warps[threadIdx.x / P4D_WARP] = seen;
	__syncthreads();
	seen = {-INFINITY, 0};
	if (threadIdx.x % P4D_WARP < blockDim.x / P4D_WARP)
		seen = warps[threadIdx.x % P4D_WARP];
	return join_group(seen);
}

/* CAPPED: the logits are results of soft_cap, whose slope is 1 - (logit / cap)^2. */
template <bool CAPPED, int W, typename E>
__device__ static inline void replace_run(E *at, unsigned column, float most, float factor, float scale,
					  uint64_t target, float cap)
{
	p4d_run<E, W> x = p4d_load<W>(at);

	for (int k = 0; k < W; k++) {
		const float logit = p4d_value(x.x[k]), share = logit / cap;
		const float gradient = expf(logit - most) * factor - (column + k == target ? scale : 0);
		p4d_round(&x.x[k], CAPPED ? gradient * (1 - share * share) : gradient);
	}
	p4d_store(at, x);
}

/*
 * Replaces a row by its gradient, with all threads of a block. d/dlogit of log Z - target + z_loss * (log
 * Z)^2 is softmax * (1 + 2 * z_loss * log Z) - [is the target]. Without a label the whole row becomes 0, even
 * if a logit is NaN. It starts at the end of the row. The sums have read that part last, so it is still in
 * the L2 cache.
 */
template <bool CAPPED, int W, typename E>
__device__ static inline void replace_row(E *row, unsigned vocab, softmax_sum seen, int32_t label,
					  uint64_t target, float scale, float z_loss, float cap)
{
	const float log_sum = logf(seen.sum) + seen.maximum;
	const float factor = scale * (1 + 2 * z_loss * log_sum) / seen.sum;
	const unsigned whole = vocab / W * W;

	if (label < 0) {
		for (unsigned j = threadIdx.x * W; j < whole; j += blockDim.x * W)
			p4d_store(row + j, p4d_run<E, W>{});
		for (unsigned j = whole + threadIdx.x; j < vocab; j += blockDim.x)
			row[j] = E{};
		return;
	}
	const unsigned runs = whole / W, left = threadIdx.x < runs ? runs - threadIdx.x : 0;
	P4D_UNROLL
	for (unsigned i = (left + blockDim.x - 1) / blockDim.x; i > 0; i--) {
		const unsigned j = (threadIdx.x + (i - 1) * blockDim.x) * W;
		replace_run<CAPPED, W>(row + j, j, seen.maximum, factor, scale, target, cap);
	}
	for (unsigned j = whole + threadIdx.x; j < vocab; j += blockDim.x)
		replace_run<CAPPED, 1>(row + j, j, seen.maximum, factor, scale, target, cap);
}

/*
 * Threads of a block, which processes one row. Two blocks fill a multiprocessor. So few rows are in work at a
 * time, and their second read finds them in the L2 cache.
 */
constexpr unsigned ROW_THREADS = 4 * P4D_THREADS;

typedef struct statistics {
	float *maximum, *sum, *target;
} statistics;

/* Reads the logit of the label. Only the first thread does, and before any thread replaces a logit. */
template <typename E>
__device__ static inline float target_of(const E *row, const int32_t *labels, unsigned vocab, uint64_t first)
{
	const uint64_t column = threadIdx.x == 0 ? column_of(labels[blockIdx.x], first, vocab) : vocab;

	return column < vocab ? p4d_value(row[column]) : 0;
}

__device__ static inline void put(const statistics &to, softmax_sum seen, float target)
{
	if (threadIdx.x > 0)
		return;
	to.maximum[blockIdx.x] = seen.maximum;
	to.sum[blockIdx.x] = seen.sum;
	to.target[blockIdx.x] = target;
}

template <typename E, int W>
__global__ void __launch_bounds__(ROW_THREADS)
    token_softmax(statistics to, const E *logits, uint64_t stride, const int32_t *labels, unsigned vocab,
		  uint64_t first)
{
	const E *row = logits + blockIdx.x * stride;

	put(to, sum_row<W>(row, vocab), target_of(row, labels, vocab, first));
}

template <bool CAPPED, typename E, int W>
__global__ void __launch_bounds__(ROW_THREADS)
    token_gradient(E *logits, uint64_t stride, const float *maximum, const float *sum, const int32_t *labels,
		   unsigned vocab, uint64_t first, float scale, float z_loss, float cap)
{
	const int32_t label = labels[blockIdx.x];

	replace_row<CAPPED, W>(logits + blockIdx.x * stride, vocab, {maximum[blockIdx.x], sum[blockIdx.x]},
			       label, column_of(label, first, vocab), scale, z_loss, cap);
}

template <int W, typename E> __device__ static inline void cap_run(E *at, float cap)
{
	p4d_run<E, W> x = p4d_load<W>(at);

	for (int k = 0; k < W; k++)
		p4d_round(&x.x[k], cap * tanhf(p4d_value(x.x[k]) / cap));
	p4d_store(at, x);
}

/* Each block caps one row. */
template <typename E, int W>
__global__ void __launch_bounds__(ROW_THREADS) cap_rows(E *x, uint64_t stride, unsigned columns, float cap)
{
	E *row = x + blockIdx.x * stride;
	const unsigned whole = columns / W * W;

	for (unsigned j = threadIdx.x * W; j < whole; j += blockDim.x * W)
		cap_run<W>(row + j, cap);
	for (unsigned j = whole + threadIdx.x; j < columns; j += blockDim.x)
		cap_run<1>(row + j, cap);
}

template <typename E, int W>
__global__ void __launch_bounds__(ROW_THREADS)
    token_cross_entropy(statistics to, E *logits, uint64_t stride, const int32_t *labels, unsigned vocab,
			float scale, float z_loss)
{
	E *row = logits + blockIdx.x * stride;
	const int32_t label = labels[blockIdx.x];
	const float target = target_of(row, labels, vocab, 0);
	const softmax_sum seen = sum_row<W>(row, vocab); /* has a barrier, so writes follow all reads */

	put(to, seen, target);
	replace_row<false, W>(row, vocab, seen, label, column_of(label, 0, vocab), scale, z_loss, 1);
}

constexpr unsigned LOSS_THREADS = 4 * P4D_THREADS;

__global__ void __launch_bounds__(LOSS_THREADS)
    add_losses(double *loss, const float *maximum, const float *sum, const float *target,
	       const int32_t *labels, uint64_t n, float z_loss)
{
	double total = 0;

	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x) {
		if (labels[i] < 0)
			continue;
		const double log_sum = log((double)sum[i]) + (double)maximum[i];
		total += log_sum - (double)target[i] + (double)z_loss * log_sum * log_sum;
	}
	total = p4d_block_sum(total);
	if (threadIdx.x == 0)
		*loss += total;
}

struct rescaled {
	float *sum;
	const float *old_maximum, *new_maximum;

	template <int W> __device__ void at(uint64_t i) const
	{
		sum[i] *= expf(old_maximum[i] - new_maximum[i]);
	}
};

void p4d_kernel_softmax_sums(cudaStream_t stream, p4d_dtype type, float *maximum, float *sum, float *target,
			     const void *logits, uint64_t stride, const int32_t *labels, uint64_t n,
			     uint64_t vocab, uint64_t first)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(stride, logits), E, W, {
			p4d_launch<token_softmax<E, W>>(stream,
							{n, 1, p4d_threads_for(vocab / W, ROW_THREADS), 0},
							statistics{maximum, sum, target}, (const E *)logits,
							stride, labels, (unsigned)vocab, first);
		});
	});
}

void p4d_kernel_rescale(cudaStream_t stream, float *sum, const float *old_maximum, const float *new_maximum,
			uint64_t n)
{
	p4d_for_each<1>(stream, rescaled{sum, old_maximum, new_maximum}, n);
}

template <bool CAPPED>
static void start_gradient(cudaStream_t stream, p4d_dtype type, void *logits, uint64_t stride,
			   const float *maximum, const float *sum, const int32_t *labels, uint64_t n,
			   uint64_t vocab, uint64_t first, float scale, float z_loss, float cap)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(stride, logits), E, W, {
			p4d_launch<token_gradient<CAPPED, E, W>>(
			    stream, {n, 1, p4d_threads_for(vocab / W, ROW_THREADS), 0}, (E *)logits, stride,
			    maximum, sum, labels, (unsigned)vocab, first, scale, z_loss, cap);
		});
	});
}

void p4d_kernel_logits_gradient(cudaStream_t stream, p4d_dtype type, void *logits, uint64_t stride,
				const float *maximum, const float *sum, const int32_t *labels, uint64_t n,
				uint64_t vocab, uint64_t first, float scale, float z_loss)
{
	start_gradient<false>(stream, type, logits, stride, maximum, sum, labels, n, vocab, first, scale,
			      z_loss, 1);
}

void p4d_kernel_capped_gradient(cudaStream_t stream, p4d_dtype type, void *logits, uint64_t stride,
				const float *maximum, const float *sum, const int32_t *labels, uint64_t n,
				uint64_t vocab, uint64_t first, float scale, float z_loss, float cap)
{
	start_gradient<true>(stream, type, logits, stride, maximum, sum, labels, n, vocab, first, scale,
			     z_loss, cap);
}

void p4d_kernel_soft_cap(cudaStream_t stream, p4d_dtype type, void *x, uint64_t stride, uint64_t n,
			 uint64_t columns, float cap)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(stride, x), E, W, {
			p4d_launch<cap_rows<E, W>>(stream,
						   {n, 1, p4d_threads_for(columns / W, ROW_THREADS), 0},
						   (E *)x, stride, (unsigned)columns, cap);
		});
	});
}

void p4d_kernel_cross_entropy(cudaStream_t stream, p4d_dtype type, float *maximum, float *sum, float *target,
			      void *logits, uint64_t stride, const int32_t *labels, uint64_t n,
			      uint64_t vocab, float scale, float z_loss)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(stride, logits), E, W, {
			p4d_launch<token_cross_entropy<E, W>>(
			    stream, {n, 1, p4d_threads_for(vocab / W, ROW_THREADS), 0},
			    statistics{maximum, sum, target}, (E *)logits, stride, labels, (unsigned)vocab,
			    scale, z_loss);
		});
	});
}

void p4d_kernel_losses(cudaStream_t stream, double *loss, const float *maximum, const float *sum,
		       const float *target, const int32_t *labels, uint64_t n, float z_loss)
{
	if (n)
		p4d_launch<add_losses>(stream, {1, 1, LOSS_THREADS, 0}, loss, maximum, sum, target, labels, n,
				       z_loss);
}
