/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm over rows of hidden states, and sums of rows. cpu_layer_norm.c has LayerNorm. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

P4D_INLINE void scale_row(ELEMENT *y, const ELEMENT *x, const ELEMENT *weight, uint64_t h, REAL scale,
			  REAL plus)
{
#pragma omp simd
	for (uint64_t j = 0; j < h; j++)
		y[j] = p4d_store(p4d_load(x[j]) * scale * (p4d_load(weight[j]) + plus));
}

/* Normalizes one row. plus: a number that is added to the weight, constant in each caller. */
P4D_INLINE void norm_row(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t h,
			 float epsilon, REAL plus)
{
	REAL squares = 0;

#pragma omp simd reduction(+ : squares)
	for (uint64_t j = 0; j < h; j++)
		squares += p4d_load(x[j]) * p4d_load(x[j]);
	const REAL scale = 1 / SQRT(squares / (REAL)h + (REAL)epsilon);
	*rstd = scale;
	scale_row(y, x, weight, h, scale, plus);
}

/* Adds the gradient of a row. With z = x * rstd and g = dy * weight: dx = rstd * (g - z * mean(g * z)). */
P4D_INLINE void add_row_gradient(ELEMENT *dx, const ELEMENT *dy, const ELEMENT *x, const ELEMENT *weight,
				 REAL scale, REAL mean, uint64_t h, REAL plus)
{
#pragma omp simd
	for (uint64_t j = 0; j < h; j++) {
		const REAL z = p4d_load(x[j]) * scale, g = p4d_load(dy[j]);
		dx[j] = p4d_store(p4d_load(dx[j]) + scale * (g * (p4d_load(weight[j]) + plus) - z * mean));
	}
}

P4D_INLINE void norm_row_backward(ELEMENT *dx, const ELEMENT *dy, const ELEMENT *x, const ELEMENT *weight,
				  REAL scale, uint64_t h, REAL plus)
{
	REAL dot = 0;

#pragma omp simd reduction(+ : dot)
	for (uint64_t j = 0; j < h; j++)
		dot += p4d_load(dy[j]) * (p4d_load(weight[j]) + plus) * p4d_load(x[j]);
	add_row_gradient(dx, dy, x, weight, scale, dot * scale / (REAL)h, h, plus);
}

/* dweight = sum of dy * z, in the order of rows */
P4D_CLONES static void weight_backward(REAL *dweight, const ELEMENT *dy, const ELEMENT *x, const REAL *rstd,
				       uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t first = 0; first < h; first += P4D_CPU_COLUMNS) {
		const uint64_t columns = p4d_cpu_columns(first, h);
		for (uint64_t i = 0; i < n; i++) {
			const ELEMENT *row = x + i * h + first, *gradient = dy + i * h + first;
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				dweight[first + j] += p4d_load(gradient[j]) * (p4d_load(row[j]) * rstd[i]);
		}
	}
}

P4D_CLONES void OP(norm)(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n,
			 uint64_t h, float epsilon)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		norm_row(y + i * h, rstd + i, x + i * h, weight, h, epsilon, 0);
}

P4D_CLONES void OP(norm_backward)(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
				  const ELEMENT *weight, const REAL *rstd, uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		norm_row_backward(dx + i * h, dy + i * h, x + i * h, weight, rstd[i], h, 0);
	if (dweight)
		weight_backward(dweight, dy, x, rstd, n, h);
}

P4D_CLONES void OP(unit_norm)(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n,
			      uint64_t h, float epsilon)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		norm_row(y + i * h, rstd + i, x + i * h, weight, h, epsilon, 1);
}

P4D_CLONES void OP(unit_norm_backward)(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
				       const ELEMENT *weight, const REAL *rstd, uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		norm_row_backward(dx + i * h, dy + i * h, x + i * h, weight, rstd[i], h, 1);
	if (dweight)
		weight_backward(dweight, dy, x, rstd, n, h);
}

P4D_INLINE REAL row_dot(const ELEMENT *a, const ELEMENT *b, const ELEMENT *weight, uint64_t h, REAL plus)
{
	REAL dot = 0;

	if (weight) {
#pragma omp simd reduction(+ : dot)
		for (uint64_t j = 0; j < h; j++)
			dot += p4d_load(a[j]) * (p4d_load(weight[j]) + plus) * p4d_load(b[j]);
	} else {
#pragma omp simd reduction(+ : dot)
		for (uint64_t j = 0; j < h; j++)
			dot += p4d_load(a[j]) * p4d_load(b[j]);
	}
	return dot;
}

P4D_CLONES void OP(row_dots)(REAL *sums, const ELEMENT *a, const ELEMENT *b, const ELEMENT *weight,
			     uint64_t n, uint64_t h, float plus)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		sums[i] = row_dot(a + i * h, b + i * h, weight, h, (REAL)plus);
}

P4D_CLONES void OP(split_norm)(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n,
			       uint64_t h, uint64_t width, float epsilon, float plus)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++) {
		const REAL scale = 1 / SQRT(rstd[i] / (REAL)width + (REAL)epsilon);
		scale_row(y + i * h, x + i * h, weight, h, scale, (REAL)plus);
		rstd[i] = scale;
	}
}

P4D_CLONES void OP(split_norm_backward)(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x,
					const ELEMENT *weight, const REAL *rstd, const REAL *dots, uint64_t n,
					uint64_t h, uint64_t width, float plus)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		add_row_gradient(dx + i * h, dy + i * h, x + i * h, weight, rstd[i],
				 dots[i] * rstd[i] / (REAL)width, h, (REAL)plus);
	if (dweight)
		weight_backward(dweight, dy, x, rstd, n, h);
}

P4D_CLONES void OP(add)(ELEMENT *y, const ELEMENT *a, const ELEMENT *b, uint64_t count)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		y[i] = p4d_store(p4d_load(a[i]) + p4d_load(b[i]));
}

P4D_CLONES void OP(add_scaled)(ELEMENT *y, const ELEMENT *a, const ELEMENT *b, float factor, uint64_t count)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		y[i] = p4d_store((a ? p4d_load(a[i]) : 0) + (REAL)factor * p4d_load(b[i]));
}
