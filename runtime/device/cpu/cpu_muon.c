/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of Muon (plan/muon.h), except its matmuls. */
#include "device/cpu/cpu_adam.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

#if P4D_CPU_TYPE != 16

P4D_CLONES void OP(muon_average)(REAL *momentum, REAL *gradient, uint64_t count, const p4d_muon *step)
{
	const REAL keep = step->momentum, scale = step->gradient_scale;

#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++) {
		const REAL g = gradient[i] * scale;
		momentum[i] += (1 - keep) * (g - momentum[i]);
		gradient[i] = g + keep * (momentum[i] - g);
	}
}

#endif

P4D_CLONES void OP(muon_begin)(ELEMENT *x, const REAL *gradient, const double *squares, uint64_t count)
{
	const double norm = sqrt(*squares);
	const REAL factor = (REAL)(1 / (norm > P4D_MUON_LEAST ? norm : P4D_MUON_LEAST));

#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		x[i] = p4d_store(gradient[i] * factor);
}

P4D_CLONES void OP(muon_polynomial)(ELEMENT *square, const ELEMENT *gram, uint64_t side)
{
#pragma omp parallel for num_threads(p4d_cpu_team(side *side))
	for (uint64_t i = 0; i < side; i++) {
		ELEMENT *const to = square + i * side;
		const REAL diagonal =
		    P4D_MUON_A + P4D_MUON_B * p4d_load(gram[i * side + i]) + P4D_MUON_C * p4d_load(to[i]);
#pragma omp simd
		for (uint64_t k = 0; k < side; k++)
			to[k] = p4d_store(P4D_MUON_B * p4d_load(gram[i * side + k]) +
					  P4D_MUON_C * p4d_load(to[k]));
		to[i] = p4d_store(diagonal);
	}
}

P4D_CLONES void OP(muon_step)(ELEMENT *parameter, REAL *master, const ELEMENT *x, uint64_t count,
			      const p4d_muon *step)
{
	const REAL keep = 1 - (REAL)step->learning_rate * (REAL)step->weight_decay, rate = step->rate;
	REAL *const exact = exact_of(parameter, master);

#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++) {
		exact[i] = exact[i] * keep - rate * p4d_load(x[i]);
#if P4D_CPU_TYPE == 16
		parameter[i] = p4d_store(exact[i]);
#endif
	}
}
