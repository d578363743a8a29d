/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of preference learning. Sums over tokens are in fp64, in a fixed order. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* Each block sums the log-probabilities of one sequence's chosen and rejected answers. */
__global__ void sum_pairs(double *sums, const float *maximum, const float *sum, const float *target,
			  const int32_t *labels, const int32_t *documents, uint64_t n)
{
	const uint64_t first = blockIdx.x * n;
	double chosen = 0, rejected = 0;

	for (uint64_t i = first + threadIdx.x; i < first + n; i += blockDim.x) {
		if (labels[i] < 0 || documents[i] > 1)
			continue;
		const double is = (double)target[i] - (double)maximum[i] - log((double)sum[i]);
		chosen += documents[i] == 0 ? is : 0;
		rejected += documents[i] == 1 ? is : 0;
	}
	chosen = p4d_block_sum(chosen);
	rejected = p4d_block_sum(rejected);
	if (threadIdx.x == 0) {
		sums[2 * blockIdx.x] = chosen;
		sums[2 * blockIdx.x + 1] = rejected;
	}
}

__device__ static inline double margin_of(const double *sums, const double *reference, uint64_t sequence,
					  float beta)
{
	const double *a = sums + 2 * sequence, *b = reference + 2 * sequence;

	return (double)beta * ((a[0] - b[0]) - (a[1] - b[1]));
}

/*
 * With small = e^-|margin|, neither the loss log(1 + e^-margin) nor its negative derivative 1 / (1 +
 * e^margin) overflows.
 */
__device__ static inline double small_of(double margin)
{
	return exp(margin > 0 ? -margin : margin);
}

/*
 * Each block computes the factors of one sequence. The first block also adds to the totals, in the order of
 * sequences.
 */
__global__ void pair_gradients(float *factors, double *totals, const double *sums, const double *reference,
			       const int32_t *documents, uint64_t sequences, uint64_t n, float beta)
{
	const double margin = margin_of(sums, reference, blockIdx.x, beta), small = small_of(margin);
	const float up = (float)((double)beta * (margin > 0 ? small : 1) / (1 + small));
	const uint64_t first = blockIdx.x * n;

	for (uint64_t i = first + threadIdx.x; i < first + n; i += blockDim.x)
		factors[i] = documents[i] == 0 ? up : documents[i] == 1 ? -up : 0;
	if (!totals || blockIdx.x > 0 || threadIdx.x > 0)
		return;
	for (uint64_t b = 0; b < sequences; b++) {
		const double of = margin_of(sums, reference, b, beta);
		totals[0] += log1p(small_of(of)) + (of > 0 ? 0 : -of);
		totals[1] += of;
		totals[2] += of > 0;
	}
}

/* Each block multiplies one row by its factor. */
template <typename E>
__global__ void scaled_rows(E *x, uint64_t stride, const float *factors, unsigned columns)
{
	E *row = x + blockIdx.x * stride;

	for (unsigned j = threadIdx.x; j < columns; j += blockDim.x)
		p4d_round(row + j, p4d_value(row[j]) * factors[blockIdx.x]);
}

void p4d_kernel_pair_sums(cudaStream_t stream, p4d_dtype type, double *sums, const float *maximum,
			  const float *sum, const float *target, const int32_t *labels,
			  const int32_t *documents, uint64_t sequences, uint64_t n)
{
	(void)type;
	p4d_launch<sum_pairs>(stream, {sequences, 1, p4d_threads_for(n), 0}, sums, maximum, sum, target,
			      labels, documents, n);
}

void p4d_kernel_pair_factors(cudaStream_t stream, p4d_dtype type, float *factors, double *totals,
			     const double *sums, const double *reference, const int32_t *documents,
			     uint64_t sequences, uint64_t n, float beta)
{
	(void)type;
	p4d_launch<pair_gradients>(stream, {sequences, 1, p4d_threads_for(n), 0}, factors, totals, sums,
				   reference, documents, sequences, n, beta);
}

void p4d_kernel_scale_rows(cudaStream_t stream, p4d_dtype type, void *x, uint64_t stride,
			   const float *factors, uint64_t n, uint64_t columns)
{
	P4D_WITH_TYPE(type, E, {
		p4d_launch<scaled_rows<E>>(stream, {n, 1, p4d_threads_for(columns), 0}, (E *)x, stride,
					   factors, (unsigned)columns);
	});
}
