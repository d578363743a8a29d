/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout that computes its mask again in each pass, instead of storing it. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"
#include "device/dropout.h"

P4D_CLONES static void drop_row(ELEMENT *y, const ELEMENT *x, const p4d_dropout *d, uint64_t index,
				uint64_t h)
{
	const REAL factor = (REAL)d->factor;

#pragma omp simd
	for (uint64_t j = 0; j < h; j++) {
		const bool drops = p4d_rounding_bits(d->key, index + j) < d->below;
		y[j] = p4d_store(drops ? 0 : factor * p4d_load(x[j]));
	}
}

void OP(drop)(ELEMENT *y, const ELEMENT *x, const p4d_dropout *d, uint64_t n, uint64_t h)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++)
		drop_row(y + i * h, x + i * h, d, p4d_dropout_row(d, i), h);
}
