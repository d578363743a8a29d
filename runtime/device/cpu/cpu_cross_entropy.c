/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy over a shard of the vocabulary. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

/* The column of a label; `vocab`: it is on another rank, or there is none. */
static uint64_t column_of(int32_t label, uint64_t first, uint64_t vocab)
{
	if (label < 0 || (uint64_t)label < first || (uint64_t)label - first >= vocab)
		return vocab;
	return (uint64_t)label - first;
}

P4D_CLONES void OP(softmax_sums)(REAL *maximum, REAL *sum, REAL *target, const ELEMENT *logits,
				 uint64_t stride, const int32_t *labels, uint64_t n, uint64_t vocab,
				 uint64_t first)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *vocab))
	for (uint64_t i = 0; i < n; i++) {
		const ELEMENT *row = logits + i * stride;
		REAL most = -INFINITY, total = 0;
#pragma omp simd reduction(max : most)
		for (uint64_t j = 0; j < vocab; j++) {
			const REAL x = p4d_load(row[j]);
			most = x > most ? x : most;
		}
#pragma omp simd reduction(+ : total)
		for (uint64_t j = 0; j < vocab; j++)
			total += EXP(p4d_load(row[j]) - most);
		const uint64_t column = column_of(labels[i], first, vocab);
		maximum[i] = most;
		sum[i] = total;
		target[i] = column < vocab ? p4d_load(row[column]) : 0;
	}
}

/*
 * The gradient: d/dlogit of log Z - target + z_loss * (log Z)^2 is softmax * (1 + 2 * z_loss * log Z) - [is
 * the target].
 */
P4D_CLONES void OP(logits_gradient)(ELEMENT *logits, uint64_t stride, const REAL *maximum, const REAL *sum,
				    const int32_t *labels, uint64_t n, uint64_t vocab, uint64_t first,
				    float scale, float z_loss)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *vocab))
	for (uint64_t i = 0; i < n; i++) {
		ELEMENT *row = logits + i * stride;
		if (labels[i] < 0) {
			memset(row, 0, vocab * sizeof(*row));
			continue;
		}
		const REAL most = maximum[i], log_sum = LOG(sum[i]) + most;
		const REAL factor = (REAL)scale * (1 + 2 * (REAL)z_loss * log_sum) / sum[i];
		const uint64_t target = column_of(labels[i], first, vocab);
		const REAL at_target = target < vocab ? p4d_load(row[target]) : 0;
#pragma omp simd
		for (uint64_t j = 0; j < vocab; j++)
			row[j] = p4d_store(EXP(p4d_load(row[j]) - most) * factor);
		if (target < vocab)
			row[target] = p4d_store(EXP(at_target - most) * factor - (REAL)scale);
	}
}

/* Like logits_gradient, for logits with a soft cap. The slope of the cap is 1 - (x / cap)^2. */
P4D_CLONES void OP(capped_gradient)(ELEMENT *logits, uint64_t stride, const REAL *maximum, const REAL *sum,
				    const int32_t *labels, uint64_t n, uint64_t vocab, uint64_t first,
				    float scale, float z_loss, float cap)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *vocab))
	for (uint64_t i = 0; i < n; i++) {
		ELEMENT *row = logits + i * stride;
		if (labels[i] < 0) {
			memset(row, 0, vocab * sizeof(*row));
			continue;
		}
		const REAL most = maximum[i], log_sum = LOG(sum[i]) + most;
		const REAL factor = (REAL)scale * (1 + 2 * (REAL)z_loss * log_sum) / sum[i];
		const uint64_t target = column_of(labels[i], first, vocab);
		const REAL at = target < vocab ? p4d_load(row[target]) : 0, share = at / (REAL)cap;
#pragma omp simd
		for (uint64_t j = 0; j < vocab; j++) {
			const REAL x = p4d_load(row[j]), part = x / (REAL)cap;
			row[j] = p4d_store(EXP(x - most) * factor * (1 - part * part));
		}
		if (target < vocab)
			row[target] =
			    p4d_store((EXP(at - most) * factor - (REAL)scale) * (1 - share * share));
	}
}

/* Runs all steps for one row before the next row, so that the row stays in the caches. */
void OP(cross_entropy)(REAL *maximum, REAL *sum, REAL *target, ELEMENT *logits, uint64_t stride,
		       const int32_t *labels, uint64_t n, uint64_t vocab, float scale, float z_loss)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *vocab))
	for (uint64_t i = 0; i < n; i++) {
		ELEMENT *row = logits + i * stride;
		OP(softmax_sums)(maximum + i, sum + i, target + i, row, stride, labels + i, 1, vocab, 0);
		OP(logits_gradient)
		(row, stride, maximum + i, sum + i, labels + i, 1, vocab, 0, scale, z_loss);
	}
}

#if P4D_CPU_TYPE != 16

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
