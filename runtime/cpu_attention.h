/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_CPU_ATTENTION_H
#define P4D_CPU_ATTENTION_H

#include <cblas.h>

#include "cpu_math.h"
#include "cpu_operations.h"

/* What attention and its backward pass share: tiles of rows, products of them, and who sees whom. */

enum { TILE = P4D_ATTENTION_TILE };

#if P4D_CPU_TYPE == 64
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

/* Rows of one head in the type of arithmetic. */
typedef struct tile {
	const REAL *at;
	uint64_t stride;
} tile;

/* rows of d elements; room for TILE * d is used when they have to be converted. */
static inline tile tile_of(const ELEMENT *from, uint64_t stride, uint64_t rows, uint64_t d, REAL *room)
{
#if P4D_CPU_TYPE == 16
	for (uint64_t i = 0; i < rows; i++)
#pragma omp simd
		for (uint64_t j = 0; j < d; j++)
			room[i * d + j] = p4d_load(from[i * stride + j]);
	return (tile){room, d};
#else
	(void)rows, (void)d, (void)room;
	return (tile){from, stride};
#endif
}

/* to (m, n) = alpha * a (m, k) * b (n, k)^T; rows of `to` are TILE apart */
static inline void tile_scores(REAL *to, tile a, tile b, uint64_t m, uint64_t n, uint64_t k, REAL alpha)
{
	GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a.at,
	     (blasint)a.stride, b.at, (blasint)b.stride, 0, to, TILE);
}

/* to (m, n) += scores * b (k, n); scores are (m, k), transposed: (k, m) */
static inline void tile_add(REAL *to, uint64_t stride, const REAL *scores, bool transposed, tile b,
			    uint64_t m, uint64_t n, uint64_t k)
{
	GEMM(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n,
	     (blasint)k, 1, scores, TILE, b.at, (blasint)b.stride, 1, to, (blasint)stride);
}

typedef enum visibility { SEES_NONE, SEES_SOME, SEES_ALL } visibility;

/* Positions and documents of a tile of queries and of one of keys. */
typedef struct view {
	const int32_t *query_position, *key_position, *query_document, *key_document;
	uint64_t queries, keys;
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
	};
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
	if (key_least > query_most)
		return SEES_NONE;
	all = key_most <= query_least;
	if (v->query_document) {
		range_of(v->query_document, v->queries, &query_least, &query_most);
		range_of(v->key_document, v->keys, &key_least, &key_most);
		if (key_least > query_most || key_most < query_least)
			return SEES_NONE;
		all = all && query_least == query_most && key_least == key_most && query_least == key_least;
	}
	return all ? SEES_ALL : SEES_SOME;
}

/* Scores of keys that a query does not see become -inf. */
static inline void hide(REAL *scores, const view *v)
{
	for (uint64_t i = 0; i < v->queries; i++) {
		REAL *row = scores + i * TILE;
		const int32_t position = v->query_position[i];
		for (uint64_t j = 0; j < v->keys; j++)
			row[j] = v->key_position[j] <= position ? row[j] : -(REAL)INFINITY;
		if (!v->query_document)
			continue;
		const int32_t document = v->query_document[i];
		for (uint64_t j = 0; j < v->keys; j++)
			row[j] = v->key_document[j] == document ? row[j] : -(REAL)INFINITY;
	}
}

#endif
