/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

P4D_CLONES void OP(swiglu)(ELEMENT *act, const ELEMENT *gate_up, uint64_t n, uint64_t f)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *f))
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *gate = gate_up + i * 2 * f, *up = gate + f;
		ELEMENT *to = act + i * f;
#pragma omp simd
		for (uint64_t j = 0; j < f; j++) {
			const REAL g = p4d_load(gate[j]);
			to[j] = p4d_store(g / (1 + EXP(-g)) * p4d_load(up[j]));
		}
	}
}

/* With s = sigmoid(gate): silu = gate * s, silu' = s * (1 + gate * (1 - s)). */
P4D_CLONES static void row_backward(ELEMENT *gate, ELEMENT *up, ELEMENT *act, const ELEMENT *dact, uint64_t f)
{
#pragma omp simd
	for (uint64_t j = 0; j < f; j++) {
		const REAL g = p4d_load(gate[j]), u = p4d_load(up[j]), d = p4d_load(dact[j]);
		const REAL s = 1 / (1 + EXP(-g));
		act[j] = p4d_store(g * s * u);
		gate[j] = p4d_store(d * u * s * (1 + g * (1 - s)));
		up[j] = p4d_store(d * g * s);
	}
}

P4D_CLONES void OP(swiglu_backward)(ELEMENT *gate_up, ELEMENT *act, const ELEMENT *dact, uint64_t n,
				    uint64_t f)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *f))
	for (uint64_t i = 0; i < n; i++) {
		ELEMENT *gate = gate_up + i * 2 * f, *up = gate + f;
		const ELEMENT *gradient = dact + i * f;
		if (act) {
			row_backward(gate, up, act + i * f, gradient, f);
			continue;
		}
#pragma omp simd
		for (uint64_t j = 0; j < f; j++) {
			const REAL g = p4d_load(gate[j]), u = p4d_load(up[j]), d = p4d_load(gradient[j]);
			const REAL s = 1 / (1 + EXP(-g));
			gate[j] = p4d_store(d * u * s * (1 + g * (1 - s)));
			up[j] = p4d_store(d * g * s);
		}
	}
}
