/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy over a shard of the vocabulary. A token per block. */
#include <math.h>

#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* The column of a label, or `vocab`: another rank has it, or nobody. */
__device__ static inline uint64_t column_of(int32_t label, uint64_t first, uint64_t vocab)
{
	const uint64_t column = (uint64_t)(int64_t)label - first;

	return label >= 0 && (uint64_t)label >= first && column < vocab ? column : vocab;
}

/* The running maximum, and the sum of exp(logit - maximum). */
typedef struct softmax_sum {
	float maximum, sum;
} softmax_sum;

/* An empty sum must not give infinity minus infinity. */
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
		/* both lanes combine in the same order, so results agree */
		a = threadIdx.x & apart ? join(b, a) : join(a, b);
	}
	return a;
}

template <int W>
__global__ void token_softmax(float *maximum, float *sum, float *target, const float *logits,
				 const int32_t *labels, unsigned vocab, uint64_t first)
{
	__shared__ softmax_sum warps[P4D_WARP];
	const float *row = logits + (size_t)blockIdx.x * vocab;
	softmax_sum seen = {-INFINITY, 0};

	for (unsigned j = threadIdx.x * W; j < vocab; j += blockDim.x * W) {
		const p4d_run<float, W> x = p4d_load<W>(row + j);
		float most = seen.maximum;
		for (int k = 0; k < W; k++)
			most = fmaxf(most, x.x[k]);
		const float shift = shift_of(most);
		seen.sum *= expf(seen.maximum - shift);
		for (int k = 0; k < W; k++)
			seen.sum += expf(x.x[k] - shift);
		seen.maximum = most;
	}
	seen = join_group(seen);
	if (threadIdx.x % P4D_WARP == 0)
		warps[threadIdx.x / P4D_WARP] = seen;
	__syncthreads();
	if (threadIdx.x >= P4D_WARP)
		return;
	seen = {-INFINITY, 0};
	if (threadIdx.x < blockDim.x / P4D_WARP)
		seen = warps[threadIdx.x];
	seen = join_group(seen);
	if (threadIdx.x > 0)
		return;
	const uint64_t column = column_of(labels[blockIdx.x], first, vocab);
	maximum[blockIdx.x] = seen.maximum;
	sum[blockIdx.x] = seen.sum;
	target[blockIdx.x] = column < vocab ? row[column] : 0;
}

/* d/dlogit of log Z - target + z_loss * (log Z)^2 is softmax * (1 + 2 * z_loss * log Z) - [is the target]. */
template <typename E, int W>
__global__ void token_gradient(E *dlogits, const float *logits, const float *maximum, const float *sum,
			       const int32_t *labels, unsigned vocab, uint64_t first, float scale,
			       float z_loss)
{
	const float *row = logits + (size_t)blockIdx.x * vocab;
	E *to = dlogits + (size_t)blockIdx.x * vocab;
	const int32_t label = labels[blockIdx.x];
	const bool trained = label >= 0;
	const float most = maximum[blockIdx.x], log_sum = logf(sum[blockIdx.x]) + most;
	const float factor = scale * (1 + 2 * z_loss * log_sum) / sum[blockIdx.x];
	const uint64_t target = column_of(label, first, vocab);

	for (unsigned j = threadIdx.x * W; j < vocab; j += blockDim.x * W) {
		const p4d_run<float, W> x = p4d_load<W>(row + j);
		p4d_run<E, W> y;
		for (int k = 0; k < W; k++) {
			const float gradient = expf(x.x[k] - most) * factor - (j + k == target ? scale : 0);
			p4d_round(&y.x[k], trained ? gradient : 0);
		}
		p4d_store(to + j, y);
	}
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

void p4d_kernel_softmax_sums(cudaStream_t stream, float *maximum, float *sum, float *target,
			   const float *logits, const int32_t *labels, uint64_t n, uint64_t vocab,
			   uint64_t first)
{
	P4D_WITH_WIDTH(p4d_is_wide<float>(vocab, logits), float, W, {
		p4d_launch<token_softmax<W>>(stream, {n, 1, p4d_threads_for(vocab / W), 0}, maximum, sum,
						target, logits, labels, (unsigned)vocab, first);
	});
}

void p4d_kernel_rescale(cudaStream_t stream, float *sum, const float *old_maximum, const float *new_maximum,
			uint64_t n)
{
	p4d_for_each<1>(stream, rescaled{sum, old_maximum, new_maximum}, n);
}

void p4d_kernel_logits_gradient(cudaStream_t stream, p4d_dtype type, void *dlogits, const float *logits,
				const float *maximum, const float *sum, const int32_t *labels, uint64_t n,
				uint64_t vocab, uint64_t first, float scale, float z_loss)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(vocab, dlogits, logits), E, W, {
			p4d_launch<token_gradient<E, W>>(stream, {n, 1, p4d_threads_for(vocab / W), 0},
							 (E *)dlogits, logits, maximum, sum, labels,
							 (unsigned)vocab, first, scale, z_loss);
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
