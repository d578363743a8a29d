/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm over rows of hidden states, and biases. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

P4D_CLONES void OP(layer_norm)(ELEMENT *y, REAL *statistics, const ELEMENT *x, const ELEMENT *weight,
			       const ELEMENT *bias, uint64_t n, uint64_t h, float epsilon)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *row = x + i * h;
		ELEMENT *to = y + i * h;
		REAL sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
		for (uint64_t j = 0; j < h; j++)
			sum += p4d_load(row[j]);
		const REAL mean = sum / (REAL)h;
#pragma omp simd reduction(+ : squares)
		for (uint64_t j = 0; j < h; j++)
			squares += (p4d_load(row[j]) - mean) * (p4d_load(row[j]) - mean);
		const REAL scale = 1 / SQRT(squares / (REAL)h + (REAL)epsilon);
		statistics[i] = mean;
		statistics[n + i] = scale;
#pragma omp simd
		for (uint64_t j = 0; j < h; j++)
			to[j] = p4d_store((p4d_load(row[j]) - mean) * scale * p4d_load(weight[j]) +
					  p4d_load(bias[j]));
	}
}

P4D_CLONES static void weight_backward(REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
				       const REAL *statistics, uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t first = 0; first < h; first += P4D_CPU_COLUMNS) {
		const uint64_t columns = p4d_cpu_columns(first, h);
		for (uint64_t i = 0; i < n; i++) {
			const ELEMENT *row = x + i * h + first, *gradient = dy + i * h + first;
			const REAL mean = statistics[i], scale = statistics[n + i];
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				dweight[first + j] +=
				    p4d_load(gradient[j]) * ((p4d_load(row[j]) - mean) * scale);
		}
	}
}

/*
 * With z = (x - mean) * scale and g = dy * weight: dx = scale * (g - mean(g) - z * mean(g * z)), dweight =
 * sum of dy * z, dbias = sum of dy.
 */
P4D_CLONES void OP(layer_norm_backward)(ELEMENT *dx, REAL *dweight, REAL *dbias, const ELEMENT *dy,
					const ELEMENT *x, const ELEMENT *weight, const REAL *statistics,
					uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *row = x + i * h, *gradient = dy + i * h;
		ELEMENT *to = dx + i * h;
		const REAL mean = statistics[i], scale = statistics[n + i];
		REAL sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
		for (uint64_t j = 0; j < h; j++) {
			const REAL g = p4d_load(gradient[j]) * p4d_load(weight[j]);
			sum += g;
			dot += g * (p4d_load(row[j]) - mean);
		}
		sum /= (REAL)h;
		dot *= scale / (REAL)h;
#pragma omp simd
		for (uint64_t j = 0; j < h; j++) {
			const REAL z = (p4d_load(row[j]) - mean) * scale,
				   g = p4d_load(gradient[j]) * p4d_load(weight[j]);
			to[j] = p4d_store(p4d_load(to[j]) + scale * (g - sum - z * dot));
		}
	}
	if (dweight)
		weight_backward(dweight, dy, x, statistics, n, h);
	if (dbias)
		OP(bias_backward)(dbias, dy, n, h);
}

P4D_CLONES void OP(add_bias)(ELEMENT *y, const ELEMENT *bias, uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
#pragma omp simd
		for (uint64_t j = 0; j < h; j++)
			y[i * h + j] = p4d_store(p4d_load(y[i * h + j]) + p4d_load(bias[j]));
}

P4D_CLONES void OP(bias_backward)(REAL *dbias, const ELEMENT *dy, uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t first = 0; first < h; first += P4D_CPU_COLUMNS) {
		const uint64_t columns = p4d_cpu_columns(first, h);
		for (uint64_t i = 0; i < n; i++)
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				dbias[first + j] += p4d_load(dy[i * h + first + j]);
	}
}
