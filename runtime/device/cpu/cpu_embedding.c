/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding with the rows of the table that this rank has. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

/* The row of a token in this rank's table; `rows`: another rank has it. */
static uint64_t row_of(int32_t token, uint64_t first, uint64_t rows)
{
	if (token < 0 || (uint64_t)token < first || (uint64_t)token - first >= rows)
		return rows;
	return (uint64_t)token - first;
}

void OP(embed)(ELEMENT *out, const ELEMENT *table, const int32_t *tokens, uint64_t n, uint64_t h,
	       uint64_t first, uint64_t rows)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *h))
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t row = row_of(tokens[i], first, rows);
		if (row < rows)
			memcpy(out + i * h, table + row * h, h * sizeof(ELEMENT));
		else
			memset(out + i * h, 0, h * sizeof(ELEMENT));
	}
}

P4D_CLONES void OP(embed_backward)(REAL *dtable, const ELEMENT *dy, const int32_t *tokens, uint64_t n,
				   uint64_t h, uint64_t first, uint64_t rows)
{
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t row = row_of(tokens[i], first, rows);
		if (row == rows)
			continue;
		REAL *to = dtable + row * h;
		const ELEMENT *gradient = dy + i * h;
#pragma omp simd
		for (uint64_t j = 0; j < h; j++)
			to[j] += p4d_load(gradient[j]);
	}
}
