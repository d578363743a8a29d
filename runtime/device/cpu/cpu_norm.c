/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm over rows of hidden states, and sums of them. LayerNorm: cpu_layer_norm.c. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"

/* plus: what is added to the weight, constant in each caller */
P4D_INLINE void norm_rows(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n,
			  uint64_t h, float epsilon, REAL plus)
{
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *row = x + i * h;
		ELEMENT *to = y + i * h;
		REAL squares = 0;
#pragma omp simd reduction(+ : squares)
		for (uint64_t j = 0; j < h; j++)
			squares += p4d_load(row[j]) * p4d_load(row[j]);
		const REAL scale = 1 / SQRT(squares / (REAL)h + (REAL)epsilon);
		rstd[i] = scale;
#pragma omp simd
		for (uint64_t j = 0; j < h; j++)
			to[j] = p4d_store(p4d_load(row[j]) * scale * (p4d_load(weight[j]) + plus));
	}
}

/* With z = x * rstd and g = dy * weight: dx = rstd * (g - z * mean(g * z)), dweight = sum of dy * z. */
P4D_INLINE void norm_rows_backward(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
				   const ELEMENT *weight, const REAL *rstd, uint64_t n, uint64_t h, REAL plus)
{
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *row = x + i * h, *gradient = dy + i * h;
		ELEMENT *to = dx + i * h;
		const REAL scale = rstd[i];
		REAL dot = 0;
#pragma omp simd reduction(+ : dot)
		for (uint64_t j = 0; j < h; j++)
			dot += p4d_load(gradient[j]) * (p4d_load(weight[j]) + plus) * p4d_load(row[j]);
		const REAL mean = dot * scale / (REAL)h;
#pragma omp simd
		for (uint64_t j = 0; j < h; j++) {
			const REAL z = p4d_load(row[j]) * scale, g = p4d_load(gradient[j]);
			to[j] = p4d_store(p4d_load(to[j]) +
					  scale * (g * (p4d_load(weight[j]) + plus) - z * mean));
		}
		if (!dweight)
			continue;
#pragma omp simd
		for (uint64_t j = 0; j < h; j++)
			dweight[j] += p4d_load(gradient[j]) * (p4d_load(row[j]) * scale);
	}
}

P4D_CLONES void OP(norm)(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n,
			 uint64_t h, float epsilon)
{
	norm_rows(y, rstd, x, weight, n, h, epsilon, 0);
}

P4D_CLONES void OP(norm_backward)(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
				  const ELEMENT *weight, const REAL *rstd, uint64_t n, uint64_t h)
{
	norm_rows_backward(dx, dweight, dy, x, weight, rstd, n, h, 0);
}

P4D_CLONES void OP(unit_norm)(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n,
			      uint64_t h, float epsilon)
{
	norm_rows(y, rstd, x, weight, n, h, epsilon, 1);
}

P4D_CLONES void OP(unit_norm_backward)(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
				       const ELEMENT *weight, const REAL *rstd, uint64_t n, uint64_t h)
{
	norm_rows_backward(dx, dweight, dy, x, weight, rstd, n, h, 1);
}

P4D_CLONES void OP(add)(ELEMENT *y, const ELEMENT *a, const ELEMENT *b, uint64_t count)
{
#pragma omp simd
	for (uint64_t i = 0; i < count; i++)
		y[i] = p4d_store(p4d_load(a[i]) + p4d_load(b[i]));
}
