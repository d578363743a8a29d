/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of attention, a tile of keys at a time: probabilities are made again from the scores and the
 * saved log-sum-exp.
 */
#include "cpu_attention.h"

P4D_CLONES void OP(attention_row_sums)(REAL *row_sums, const ELEMENT *d_o, const ELEMENT *o, uint64_t n,
				       uint64_t heads, uint64_t head_dim)
{
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t head = 0; head < heads; head++) {
			const uint64_t at = (i * heads + head) * head_dim;
			REAL sum = 0;
#pragma omp simd reduction(+ : sum)
			for (uint64_t j = 0; j < head_dim; j++)
				sum += p4d_load(d_o[at + j]) * p4d_load(o[at + j]);
			row_sums[head * n + i] = sum;
		}
}

P4D_CLONES static void probabilities(REAL *scores, const REAL *lse, uint64_t queries, uint64_t keys)
{
	for (uint64_t i = 0; i < queries; i++) {
		REAL *row = scores + i * TILE;
		/* a query that sees nothing: all its scores are -inf, and are to become 0 */
		const REAL shift = lse[i] == -(REAL)INFINITY ? 0 : lse[i];
#pragma omp simd
		for (uint64_t j = 0; j < keys; j++)
			row[j] = EXP(row[j] - shift);
	}
}

/* gradient: of the probabilities; becomes that of query times key. */
P4D_CLONES static void through_softmax(REAL *gradient, const REAL *probability, const REAL *row_sums,
				       uint64_t queries, uint64_t keys, REAL scale)
{
	for (uint64_t i = 0; i < queries; i++) {
		REAL *row = gradient + i * TILE;
		const REAL *p = probability + i * TILE;
#pragma omp simd
		for (uint64_t j = 0; j < keys; j++)
			row[j] = p[j] * (row[j] - row_sums[i]) * scale;
	}
}

void OP(attention_backward)(REAL *dq, REAL *dk, REAL *dv, const ELEMENT *d_o, const REAL *lse,
			    const REAL *row_sums, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
			    const p4d_attention_shape *s, void *workspace)
{
	const uint64_t d = s->head_dim, n = s->batch * s->queries, group = s->heads / s->kv_heads;
	const uint64_t columns = s->heads * d;
	REAL *const p = workspace, *const gradient = p + TILE * TILE, *const room = gradient + TILE * TILE;

	for (uint64_t b = 0; b < s->batch; b++)
		for (uint64_t head = 0; head < s->heads; head++)
			for (uint64_t j = 0; j < s->keys; j += TILE) {
				const uint64_t key = b * s->keys + j, left = s->keys - j;
				const uint64_t keys = left < TILE ? left : TILE;
				const uint64_t column = head / group * d;
				const tile tk =
				    tile_of(k + key * s->key_stride + column, s->key_stride, keys, d, room);
				const tile tv = tile_of(v + key * s->key_stride + column, s->key_stride, keys,
							d, room + TILE * d);
				for (uint64_t i = 0; i < s->queries; i += TILE) {
					const view seen = view_of(s, b, i, j);
					const visibility how = look(&seen);
					if (how == SEES_NONE)
						continue;
					const uint64_t token = b * s->queries + i, m = seen.queries;
					const tile tq = tile_of(q + token * s->query_stride + head * d,
								s->query_stride, m, d, room + 2 * TILE * d);
					const tile to = tile_of(d_o + token * columns + head * d, columns, m,
								d, room + 3 * TILE * d);
					tile_scores(p, tq, tk, m, keys, d, (REAL)s->scale);
					if (how == SEES_SOME)
						hide(p, &seen);
					probabilities(p, lse + head * n + token, m, keys);
					tile_scores(gradient, to, tv, m, keys, d, 1);
					through_softmax(gradient, p, row_sums + head * n + token, m, keys,
							(REAL)s->scale);
					tile_add(dv + key * s->key_stride + column, s->key_stride, p, true,
						 to, keys, d, m);
					tile_add(dq + token * s->query_stride + head * d, s->query_stride,
						 gradient, false, tk, m, d, keys);
					tile_add(dk + key * s->key_stride + column, s->key_stride, gradient,
						 true, tq, keys, d, m);
				}
			}
}
