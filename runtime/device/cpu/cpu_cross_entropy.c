/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy over a shard of the vocabulary. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"

/* The column of a label, or `vocab`: another rank has it, or nobody. */
static uint64_t column_of(int32_t label, uint64_t first, uint64_t vocab)
{
	if (label < 0 || (uint64_t)label < first || (uint64_t)label - first >= vocab)
		return vocab;
	return (uint64_t)label - first;
}

/* d/dlogit of log Z - target + z_loss * (log Z)^2 is softmax * (1 + 2 * z_loss * log Z) - [is the target]. */
P4D_CLONES void OP(logits_gradient)(ELEMENT *dlogits, const REAL *logits, const REAL *maximum,
				    const REAL *sum, const int32_t *labels, uint64_t n, uint64_t vocab,
				    uint64_t first, float scale, float z_loss)
{
	for (uint64_t i = 0; i < n; i++) {
		const REAL *row = logits + i * vocab;
		ELEMENT *to = dlogits + i * vocab;
		if (labels[i] < 0) {
			memset(to, 0, vocab * sizeof(*to));
			continue;
		}
		const REAL most = maximum[i], log_sum = LOG(sum[i]) + most;
		const REAL factor = (REAL)scale * (1 + 2 * (REAL)z_loss * log_sum) / sum[i];
#pragma omp simd
		for (uint64_t j = 0; j < vocab; j++)
			to[j] = p4d_store(EXP(row[j] - most) * factor);
		const uint64_t target = column_of(labels[i], first, vocab);
		if (target < vocab)
			to[target] = p4d_store(EXP(row[target] - most) * factor - (REAL)scale);
	}
}

#if P4D_CPU_TYPE != 16

P4D_CLONES void OP(softmax_sums)(REAL *maximum, REAL *sum, REAL *target, const REAL *logits,
				 const int32_t *labels, uint64_t n, uint64_t vocab, uint64_t first)
{
	for (uint64_t i = 0; i < n; i++) {
		const REAL *row = logits + i * vocab;
		REAL most = -INFINITY, total = 0;
#pragma omp simd reduction(max : most)
		for (uint64_t j = 0; j < vocab; j++)
			most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : total)
		for (uint64_t j = 0; j < vocab; j++)
			total += EXP(row[j] - most);
		const uint64_t column = column_of(labels[i], first, vocab);
		maximum[i] = most;
		sum[i] = total;
		target[i] = column < vocab ? row[column] : 0;
	}
}

void OP(rescale)(REAL *sum, const REAL *old_maximum, const REAL *new_maximum, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		sum[i] *= EXP(old_maximum[i] - new_maximum[i]);
}

void OP(losses)(double *loss, const REAL *maximum, const REAL *sum, const REAL *target, const int32_t *labels,
		uint64_t n, float z_loss)
{
	double total = 0;

	for (uint64_t i = 0; i < n; i++) {
		if (labels[i] < 0)
			continue;
		const double log_sum = log((double)sum[i]) + (double)maximum[i];
		total += log_sum - (double)target[i] + (double)z_loss * log_sum * log_sum;
	}
	*loss += total;
}

#endif
