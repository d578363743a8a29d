/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW, and checks of gradients before it. */
#include "device/cuda/adam.h"
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

template <typename E> struct adam_step {
	E *parameter;
	float *exact, *first, *second;
	const float *gradient;
	adam_factors factors;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<float, W> g = p4d_load<W>(gradient + i);
		p4d_run<float, W> m = p4d_load<W>(first + i), v = p4d_load<W>(second + i),
				  x = p4d_load<W>(exact + i);
		p4d_run<E, W> rounded;
		for (int k = 0; k < W; k++) {
			x.x[k] = factors.step(x.x[k], &m.x[k], &v.x[k], g.x[k]);
			p4d_round(&rounded.x[k], x.x[k]);
		}
		p4d_store(first + i, m);
		p4d_store(second + i, v);
		p4d_store(exact + i, x);
		if (sizeof(E) < sizeof(float))
			p4d_store(parameter + i, rounded);
	}
};

template <typename E> struct adam_half_step {
	E *parameter;
	float *exact;
	p4d_bf16 *first, *second;
	const float *gradient;
	adam_factors factors;
	p4d_rounding rounding;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<float, W> g = p4d_load<W>(gradient + i);
		p4d_run<p4d_bf16, W> first_of = p4d_load<W>(first + i), second_of = p4d_load<W>(second + i);
		p4d_run<float, W> x = p4d_load<W>(exact + i);
		p4d_run<E, W> rounded;
		const uint64_t index = p4d_rounding_index(&rounding, i), run = p4d_rounding_run(&rounding, i);
		for (int k = 0; k < W; k++) {
			const uint64_t where =
			    (uint64_t)k < run ? index + k : p4d_rounding_index(&rounding, i + k);
			const uint32_t up = p4d_rounding_bits(rounding.key, where);
			float m = p4d_value(first_of.x[k]), v = p4d_value(second_of.x[k]);
			x.x[k] = factors.step(x.x[k], &m, &v, g.x[k]);
			first_of.x[k].bits = p4d_round_to_bf16(m, up & 0xffff);
			second_of.x[k].bits = p4d_round_to_bf16(v, up >> 16);
			p4d_round(&rounded.x[k], x.x[k]);
		}
		p4d_store(first + i, first_of);
		p4d_store(second + i, second_of);
		p4d_store(exact + i, x);
		if (sizeof(E) < sizeof(float))
			p4d_store(parameter + i, rounded);
	}
};

struct square {
	typedef double sum;
	__device__ double of(float x) const
	{
		return (double)x * (double)x;
	}
};

struct nonfinite {
	typedef unsigned long long sum;
	__device__ unsigned long long of(float x) const
	{
		return !isfinite(x);
	}
};

/* Counts the words equal to `word`. The words are read as floats, because the sums below read floats. */
struct equal {
	typedef unsigned long long sum;
	uint32_t word;
	__device__ unsigned long long of(float x) const
	{
		return p4d_bits_of(x) == word;
	}
};

constexpr unsigned SUMMED = 2 * p4d_widest<float>::width; /* values that a thread loads together */

/*
 * Sums in two stages. First, blocks add up the values; the number of blocks depends only on count. Then one
 * block adds their sums. The alignment of x changes how x is read, but not which thread adds which value.
 * There are so few blocks that each thread loads 32 bytes together: 16 would not keep the memory busy.
 */
template <typename Term>
__global__ void partial_sums(typename Term::sum *partial, Term term, const float *x, uint64_t count,
			     bool aligned)
{
	typename Term::sum sum = 0;

	for (uint64_t i = ((uint64_t)blockIdx.x * P4D_THREADS + threadIdx.x) * SUMMED; i < count;
	     i += (uint64_t)gridDim.x * P4D_THREADS * SUMMED) {
		if (aligned && i + SUMMED <= count) {
			const p4d_run<float, SUMMED> run = p4d_load<SUMMED>(x + i);
			for (unsigned k = 0; k < SUMMED; k++)
				sum += term.of(run.x[k]);
		} else {
			for (unsigned k = 0; k < SUMMED && i + k < count; k++)
				sum += term.of(x[i + k]);
		}
	}
	sum = p4d_block_sum(sum);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

template <typename T> __global__ void add_partial_sums(T *to, const T *partial, unsigned count)
{
	T sum = 0;

	for (unsigned i = threadIdx.x; i < count; i += P4D_THREADS)
		sum += partial[i];
	sum = p4d_block_sum(sum);
	if (threadIdx.x == 0)
		*to += sum;
}

template <typename Term>
static void add_terms(cudaStream_t stream, float *sums, typename Term::sum *to, const Term &term,
		      const float *x, uint64_t count)
{
	typedef typename Term::sum T;
	const uint64_t of_block = P4D_THREADS * SUMMED;
	const unsigned blocks = p4d_least((count + of_block - 1) / of_block, P4D_SQUARES_SUMS);
	T *partial = reinterpret_cast<T *>(sums);

	if (count == 0)
		return;
	p4d_launch<partial_sums<Term>>(stream, {blocks, 1, P4D_THREADS, 0}, partial, term, x, count,
				       p4d_is_wide<float>(0, x));
	p4d_launch<add_partial_sums<T>>(stream, {1, 1, P4D_THREADS, 0}, to, partial, blocks);
}

void p4d_kernel_sum_squares(cudaStream_t stream, float *sums, double *sum, const float *x, uint64_t count)
{
	add_terms(stream, sums, sum, square{}, x, count);
}

void p4d_kernel_count_nonfinite(cudaStream_t stream, float *sums, uint64_t *number, const float *x,
				uint64_t count)
{
	add_terms(stream, sums, reinterpret_cast<unsigned long long *>(number), nonfinite{}, x, count);
}

void p4d_kernel_count_words(cudaStream_t stream, float *sums, uint64_t *number, const void *from,
			    uint32_t word, uint64_t words)
{
	add_terms(stream, sums, reinterpret_cast<unsigned long long *>(number), equal{word},
		  (const float *)from, words);
}

void p4d_kernel_adam(cudaStream_t stream, p4d_dtype type, void *parameter, float *master, float *first,
		     float *second, const float *gradient, uint64_t count, const p4d_adam *adam)
{
	P4D_WITH_TYPE(type, E, {
		float *exact = sizeof(E) < sizeof(float) ? master : (float *)parameter;
		const adam_step<E> step = {(E *)parameter, exact,    first,
					   second,         gradient, adam_factors(adam)};
		P4D_WITH_WIDTH(p4d_is_wide<float>(0, parameter, exact, first, second, gradient), E, W,
			       { p4d_for_each<W>(stream, step, count); });
	});
}

void p4d_kernel_adam_half(cudaStream_t stream, p4d_dtype type, void *parameter, float *master,
			  uint16_t *first, uint16_t *second, const float *gradient, uint64_t count,
			  const p4d_adam *adam, const p4d_rounding *rounding)
{
	P4D_WITH_TYPE(type, E, {
		float *exact = sizeof(E) < sizeof(float) ? master : (float *)parameter;
		const adam_half_step<E> step = {(E *)parameter,     exact,    (p4d_bf16 *)first,
						(p4d_bf16 *)second, gradient, adam_factors(adam),
						*rounding};
		P4D_WITH_WIDTH(p4d_is_wide<float>(0, parameter, exact, first, second, gradient), p4d_bf16, W,
			       { p4d_for_each<W>(stream, step, count); });
	});
}
