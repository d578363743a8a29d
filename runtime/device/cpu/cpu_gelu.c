/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GELU by its tanh formula: x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 x^3). The code computes
 * (1 + tanh(u)) / 2 as the logistic function of 2 u, because that loses no precision if u is far below 0.
 */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

#define TWICE_ROOT ((REAL)1.5957691216057307) /* 2 * sqrt(2 / pi) */
#define CUBIC ((REAL)0.044715)

P4D_INLINE REAL share_of(REAL x)
{
	return 1 / (1 + EXP(-TWICE_ROOT * (x + CUBIC * x * x * x)));
}

/* Slope of GELU: gelu' = s + x * s * (1 - s) * d(2 u)/dx, where s = share is the logistic function of 2 u. */
P4D_INLINE REAL slope_of(REAL x, REAL share)
{
	return share + x * share * (1 - share) * TWICE_ROOT * (1 + 3 * CUBIC * x * x);
}

P4D_CLONES void OP(geglu)(ELEMENT *act, const ELEMENT *gate_up, uint64_t n, uint64_t f)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *f))
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *gate = gate_up + i * 2 * f, *up = gate + f;
		ELEMENT *to = act + i * f;
#pragma omp simd
		for (uint64_t j = 0; j < f; j++) {
			const REAL g = p4d_load(gate[j]);
			to[j] = p4d_store(g * share_of(g) * p4d_load(up[j]));
		}
	}
}

P4D_CLONES void OP(geglu_backward)(ELEMENT *gate_up, ELEMENT *act, const ELEMENT *dact, uint64_t n,
				   uint64_t f)
{
	if (act)
		OP(geglu)(act, gate_up, n, f);
#pragma omp parallel for num_threads(p4d_cpu_team(n *f))
	for (uint64_t i = 0; i < n; i++) {
		ELEMENT *gate = gate_up + i * 2 * f, *up = gate + f;
		const ELEMENT *gradient = dact + i * f;
#pragma omp simd
		for (uint64_t j = 0; j < f; j++) {
			const REAL g = p4d_load(gate[j]), u = p4d_load(up[j]), d = p4d_load(gradient[j]);
			const REAL s = share_of(g);
			gate[j] = p4d_store(d * u * slope_of(g, s));
			up[j] = p4d_store(d * g * s);
		}
	}
}

P4D_CLONES void OP(gelu)(ELEMENT *act, const ELEMENT *up, uint64_t n, uint64_t f)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(n *f))
	for (uint64_t i = 0; i < n * f; i++) {
		const REAL x = p4d_load(up[i]);
		act[i] = p4d_store(x * share_of(x));
	}
}

P4D_CLONES void OP(gelu_backward)(ELEMENT *up, ELEMENT *act, const ELEMENT *dact, uint64_t n, uint64_t f)
{
	if (act)
		OP(gelu)(act, up, n, f);
#pragma omp parallel for simd num_threads(p4d_cpu_team(n *f))
	for (uint64_t i = 0; i < n * f; i++) {
		const REAL x = p4d_load(up[i]);
		up[i] = p4d_store(p4d_load(dact[i]) * slope_of(x, share_of(x)));
	}
}
