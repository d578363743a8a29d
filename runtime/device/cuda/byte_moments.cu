/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdamW with moments in 8 bits (plan/byte_moments.h). A thread block processes one block of elements, each
 * thread one element.
 */
#include "device/byte_codes.h"
#include "device/cuda/adam.h"
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

static_assert(P4D_THREADS == P4D_BYTE_BLOCK, "a thread has one number");

namespace
{
/* The maximum over the thread block; all threads get it. */
__device__ float largest(float x)
{
	__shared__ float warps[P4D_THREADS / P4D_WARP];
	const unsigned lane = threadIdx.x % P4D_WARP;

	x = p4d_group_max(x, P4D_WARP);
	if (lane == 0)
		warps[threadIdx.x / P4D_WARP] = x;
	__syncthreads();
	x = p4d_group_max(lane < P4D_THREADS / P4D_WARP ? warps[lane] : 0.0f, P4D_WARP);
	__syncthreads(); /* before the next maximum is written */
	return x;
}

/* This thread's element: its index, and its new moments; 0 if there is no element. */
struct number {
	uint64_t at;
	bool here;
	float first, second;
};

__device__ number number_of(const p4d_byte_moments &m, uint64_t block, const float *gradient,
			    const adam_factors &factors)
{
	const uint64_t place = block * P4D_BYTE_BLOCK + threadIdx.x;
	number y = {place - m.before, place >= m.before && place - m.before < m.count, 0, 0};

	if (!y.here)
		return y;
	y.first = p4d_nf4_of_eight_bits(m.first[y.at]) * m.first_scale[block];
	y.second = p4d_byte_sizes[m.second[y.at]] * m.second_scale[block];
	factors.average(&y.first, &y.second, gradient[y.at]);
	return y;
}

template <typename E>
__global__ void step_of_bytes(E *parameter, float *exact, p4d_byte_moments m, const float *gradient,
			      adam_factors factors)
{
	__shared__ float numbers[2][P4D_BYTE_CODES];
	const uint64_t block = blockIdx.x;
	const number mine = number_of(m, block, gradient, factors);
	const float *agreed = block == 0 && m.begin ? m.begin : block == gridDim.x - 1 ? m.end : NULL;
	float first = largest(fabsf(mine.first)), second = largest(mine.second);

	if (agreed) {
		first = agreed[0];
		second = agreed[1];
	}
	numbers[0][threadIdx.x] = p4d_nf4_of_eight_bits((uint8_t)threadIdx.x);
	numbers[1][threadIdx.x] = p4d_byte_sizes[threadIdx.x];
	__syncthreads();
	if (mine.here) {
		const float x = factors.moved(exact[mine.at], mine.first, mine.second);
		exact[mine.at] = x;
		if (sizeof(E) < sizeof(float))
			p4d_round(&parameter[mine.at], x);
		m.first[mine.at] = p4d_byte_nearest(numbers[0], mine.first * p4d_byte_factor(first));
		m.second[mine.at] = p4d_byte_nearest(numbers[1], mine.second * p4d_byte_factor(second));
	}
	if (threadIdx.x == 0) { /* all threads have read the old scales, because there were barriers */
		m.first_scale[block] = first;
		m.second_scale[block] = second;
	}
}

__global__ void scales_of_bytes(float *scales, p4d_byte_moments m, uint64_t block, const float *gradient,
				adam_factors factors)
{
	const number mine = number_of(m, block, gradient, factors);
	const float first = largest(fabsf(mine.first)), second = largest(mine.second);

	if (threadIdx.x == 0) {
		scales[0] = first;
		scales[1] = second;
	}
}
} // namespace

void p4d_kernel_adam_bytes(cudaStream_t stream, p4d_dtype type, void *parameter, float *master,
			   const p4d_byte_moments *m, const float *gradient, const p4d_adam *step)
{
	const uint64_t blocks = (m->before + m->count + P4D_BYTE_BLOCK - 1) / P4D_BYTE_BLOCK;

	P4D_WITH_TYPE(type, E, {
		float *exact = sizeof(E) < sizeof(float) ? master : (float *)parameter;
		p4d_launch<step_of_bytes<E>>(stream, {blocks, 1, P4D_THREADS, 0}, (E *)parameter, exact, *m,
					     gradient, adam_factors(step));
	});
}

void p4d_kernel_adam_byte_scales(cudaStream_t stream, float *scales, const p4d_byte_moments *m,
				 uint64_t block, const float *gradient, const p4d_adam *step)
{
	p4d_launch<scales_of_bytes>(stream, {1, 1, P4D_THREADS, 0}, scales, *m, block, gradient,
				    adam_factors(step));
}
