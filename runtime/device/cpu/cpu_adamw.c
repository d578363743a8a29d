/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW, and checks of gradients before it. */
#include "device/cpu/cpu_adam.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

P4D_CLONES void OP(adam)(ELEMENT *parameter, REAL *master, REAL *first, REAL *second, const REAL *gradient,
			 uint64_t count, const p4d_adam *adam)
{
	const adam_step step = step_of(adam);
	REAL *const exact = exact_of(parameter, master);

#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++) {
		REAL m = first[i], v = second[i];
		exact[i] = stepped(&step, exact[i], &m, &v, gradient[i]);
		first[i] = m;
		second[i] = v;
#if P4D_CPU_TYPE == 16
		parameter[i] = p4d_store(exact[i]);
#endif
	}
}

P4D_CLONES void OP(adam_half)(ELEMENT *parameter, REAL *master, uint16_t *first, uint16_t *second,
			      const REAL *gradient, uint64_t count, const p4d_adam *adam,
			      const p4d_rounding *rounding)
{
	const adam_step step = step_of(adam);
	REAL *const exact = exact_of(parameter, master);
	const uint64_t key = rounding->key;

	for (uint64_t at = 0, end; at < count; at = end) {
		const uint64_t run = p4d_rounding_run(rounding, at),
			       index = p4d_rounding_index(rounding, at) - at;
		end = run < count - at ? at + run : count;
#pragma omp parallel for simd num_threads(p4d_cpu_team(end - at))
		for (uint64_t i = at; i < end; i++) {
			const uint32_t up = p4d_rounding_bits(key, index + i);
			REAL m = p4d_from_bf16(first[i]), v = p4d_from_bf16(second[i]);
			exact[i] = stepped(&step, exact[i], &m, &v, gradient[i]);
			first[i] = p4d_round_to_bf16((float)m, up & 0xffff);
			second[i] = p4d_round_to_bf16((float)v, up >> 16);
#if P4D_CPU_TYPE == 16
			parameter[i] = p4d_store(exact[i]);
#endif
		}
	}
}

P4D_CLONES void OP(accumulate)(REAL *y, const ELEMENT *x, uint64_t count)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		y[i] += p4d_load(x[i]);
}

#if P4D_CPU_TYPE != 16

/* Sums squares in eight partial sums, so that the order does not depend on the instruction set. */
P4D_CLONES static double squares_of(const REAL *x, uint64_t count)
{
	enum { SUMS = 8 };
	double sum[SUMS] = {0};
	uint64_t i = 0;

	for (; i + SUMS <= count; i += SUMS)
#pragma omp simd
		for (int j = 0; j < SUMS; j++)
			sum[j] += (double)x[i + (uint64_t)j] * (double)x[i + (uint64_t)j];
	for (int j = 0; i < count; i++, j++)
		sum[j] += (double)x[i] * (double)x[i];
	return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/*
 * Each thread sums whole blocks. The blocks' sums are then added in order, so the number of threads does not
 * change the result.
 */
double OP(sum_squares)(const REAL *x, uint64_t count)
{
	enum { BLOCK = 1 << 16, BLOCKS = 256 };
	double total = 0, sum[BLOCKS];

	for (uint64_t first = 0; first < count; first += (uint64_t)BLOCK * BLOCKS) {
		const uint64_t left = count - first;
		const uint64_t blocks = left < (uint64_t)BLOCK * BLOCKS ? (left + BLOCK - 1) / BLOCK : BLOCKS;
#pragma omp parallel for num_threads(p4d_cpu_team(left))
		for (uint64_t i = 0; i < blocks; i++)
			sum[i] = squares_of(x + first + i * BLOCK,
					    left - i * BLOCK < BLOCK ? left - i * BLOCK : BLOCK);
		for (uint64_t i = 0; i < blocks; i++)
			total += sum[i];
	}
	return total;
}

P4D_CLONES uint64_t OP(count_nonfinite)(const REAL *x, uint64_t count)
{
	uint64_t number = 0;

#pragma omp parallel for simd reduction(+ : number) num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++) /* infinity - infinity is NaN as well */
		number += x[i] - x[i] != 0;
	return number;
}

#endif
