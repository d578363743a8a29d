/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of preference learning, for pairs of a chosen and a rejected answer. Sums over tokens are in
 * fp64. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

void OP(pair_sums)(double *sums, const REAL *maximum, const REAL *sum, const REAL *target,
		   const int32_t *labels, const int32_t *documents, uint64_t sequences, uint64_t n)
{
#pragma omp parallel for num_threads(p4d_cpu_team(sequences *n))
	for (uint64_t b = 0; b < sequences; b++) {
		double both[2] = {0, 0};
		for (uint64_t i = b * n; i < (b + 1) * n; i++)
			if (labels[i] >= 0 && documents[i] < 2)
				both[documents[i]] +=
				    (double)target[i] - (double)maximum[i] - log((double)sum[i]);
		sums[2 * b] = both[0];
		sums[2 * b + 1] = both[1];
	}
}

/* log(1 + e^-x). *slope: the negative derivative, 1 / (1 + e^x). */
static double soft(double x, double *slope)
{
	const double small = exp(x > 0 ? -x : x); /* never overflows */

	*slope = (x > 0 ? small : 1) / (1 + small);
	return log1p(small) + (x > 0 ? 0 : -x);
}

void OP(pair_factors)(REAL *factors, double *totals, const double *sums, const double *reference,
		      const int32_t *documents, uint64_t sequences, uint64_t n, float beta)
{
	for (uint64_t b = 0; b < sequences; b++, sums += 2, reference += 2) {
		const double margin = (double)beta * ((sums[0] - reference[0]) - (sums[1] - reference[1]));
		double slope;
		const double loss = soft(margin, &slope);
		const REAL up = (REAL)((double)beta * slope);
		for (uint64_t i = b * n; i < (b + 1) * n; i++)
			factors[i] = documents[i] == 0 ? up : documents[i] == 1 ? -up : 0;
		if (!totals)
			continue;
		totals[0] += loss;
		totals[1] += margin;
		totals[2] += margin > 0;
	}
}

P4D_CLONES void OP(scale_rows)(ELEMENT *x, uint64_t stride, const REAL *factors, uint64_t n, uint64_t columns)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *columns))
	for (uint64_t i = 0; i < n; i++)
#pragma omp simd
		for (uint64_t j = 0; j < columns; j++)
			x[i * stride + j] = p4d_store(p4d_load(x[i * stride + j]) * factors[i]);
}
