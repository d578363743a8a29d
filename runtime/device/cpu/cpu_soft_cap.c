/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multiplication by factors, and soft caps of logits. cpu_attention.h has the soft caps of attention scores.
 */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

P4D_CLONES void OP(scale)(ELEMENT *y, float factor, uint64_t count)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		y[i] = p4d_store(p4d_load(y[i]) * (REAL)factor);
}

P4D_CLONES void OP(soft_cap)(ELEMENT *x, uint64_t stride, uint64_t n, uint64_t columns, float cap)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *columns))
	for (uint64_t i = 0; i < n; i++)
#pragma omp simd
		for (uint64_t j = 0; j < columns; j++)
			x[i * stride + j] =
			    p4d_store((REAL)cap * TANH(p4d_load(x[i * stride + j]) / (REAL)cap));
}
