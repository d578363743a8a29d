/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cblas.h>

#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

/* Shared by attention and its backward pass: tiles of rows, their matmuls, and visibility. */

enum { TILE = P4D_ATTENTION_TILE };

#if P4D_CPU_TYPE == 64
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

/*
 * Copies rows of one head to the packed matrix `to` (rows, d), whose elements are REAL. Small matmuls of
 * packed operands are up to twice as fast as matmuls of columns in a matrix with long rows.
 */
P4D_CLONES static void pack(REAL *to, const ELEMENT *from, uint64_t stride, uint64_t rows, uint64_t d)
{
	for (uint64_t i = 0; i < rows; i++)
#pragma omp simd
		for (uint64_t j = 0; j < d; j++)
			to[i * d + j] = p4d_load(from[i * stride + j]);
}

/*
 * Copies the transposed rows to `to` (d, rows), whose rows are TILE elements apart. It reads row by row. If
 * it read column by column, the cache lines of `from` would evict each other from the L1 cache.
 */
P4D_CLONES static void pack_transposed(REAL *to, const ELEMENT *from, uint64_t stride, uint64_t rows,
				       uint64_t d)
{
	for (uint64_t i = 0; i < rows; i++)
#pragma omp simd
		for (uint64_t j = 0; j < d; j++)
			to[j * TILE + i] = p4d_load(from[i * stride + j]);
}

/* scores (m, n) = scale * a (m, d) * b (d, n); a and b are packed */
static inline void multiply(REAL *scores, const REAL *a, const REAL *b, uint64_t m, uint64_t n, uint64_t d,
			    REAL scale)
{
	GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)d, scale, a,
	     (blasint)d, b, TILE, 0, scores, TILE);
}

/* to (m, d) += scores (m, k) * b (k, d), or transposed scores (k, m) * b (k, d); scores and b are packed */
static inline void add_product(REAL *to, uint64_t stride, const REAL *scores, bool transposed, const REAL *b,
			       uint64_t m, uint64_t d, uint64_t k)
{
	GEMM(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)d,
	     (blasint)k, 1, scores, TILE, b, (blasint)d, 1, to, (blasint)stride);
}

typedef enum visibility { SEES_NONE, SEES_SOME, SEES_ALL } visibility;

/* Positions and documents of a tile of queries, and of a tile of keys. */
typedef struct view {
	const int32_t *query_position, *key_position, *query_document, *key_document;
	uint64_t queries, keys;
	int32_t reach; /* how many positions back a query sees */
} view;

static inline view view_of(const p4d_attention_shape *s, uint64_t sequence, uint64_t query, uint64_t key)
{
	const uint64_t queries = s->queries - query, keys = s->keys - key;
	const bool documents = s->query_document && s->key_document;

	return (view){
	    .query_position = s->query_position + query,
	    .key_position = s->key_position + key,
	    .query_document = documents ? s->query_document + sequence * s->queries + query : NULL,
	    .key_document = documents ? s->key_document + sequence * s->keys + key : NULL,
	    .queries = queries < TILE ? queries : TILE,
	    .keys = keys < TILE ? keys : TILE,
	    .reach = s->window && s->window < INT32_MAX ? (int32_t)s->window - 1 : INT32_MAX,
	};
}

/* Replaces each score by cap * tanh(score / cap). */
P4D_CLONES static void cap_scores(REAL *scores, uint64_t rows, uint64_t columns, REAL cap)
{
	for (uint64_t i = 0; i < rows; i++)
#pragma omp simd
		for (uint64_t j = 0; j < columns; j++)
			scores[i * TILE + j] = cap * TANH(scores[i * TILE + j] / cap);
}

static inline void range_of(const int32_t *x, uint64_t count, int32_t *least, int32_t *most)
{
	int32_t low = x[0], high = x[0];

	for (uint64_t i = 1; i < count; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	*least = low;
	*most = high;
}

static inline visibility look(const view *v)
{
	int32_t query_least, query_most, key_least, key_most;
	bool all;

	range_of(v->query_position, v->queries, &query_least, &query_most);
	range_of(v->key_position, v->keys, &key_least, &key_most);
	if (key_least > query_most || query_least - key_most > v->reach)
		return SEES_NONE;
	all = key_most <= query_least && query_most - key_least <= v->reach;
	if (v->query_document) {
		range_of(v->query_document, v->queries, &query_least, &query_most);
		range_of(v->key_document, v->keys, &key_least, &key_most);
		if (key_least > query_most || key_most < query_least)
			return SEES_NONE;
		all = all && query_least == query_most && key_least == key_most && query_least == key_least;
	}
	return all ? SEES_ALL : SEES_SOME;
}
