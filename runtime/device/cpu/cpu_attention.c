/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by tiles of queries and keys. For each query it keeps only the running maximum and sum of its
 * scores (the online softmax of Milakov and Gimelshein 2018, tiled as in FlashAttention, Dao et al. 2022).
 */
#include "device/cpu/cpu_attention.h"

/* Workspace of a thread: scores (TILE, TILE); queries transposed; all others (TILE, d). */
typedef struct space {
	REAL *scores, *output, *queries, *keys, *values;
} space;

/* State of a tile of queries while the loop over tiles of keys runs. */
typedef struct running {
	REAL maximum[TILE], sum[TILE];
} running;

/*
 * Scores have the shape (keys, queries). The softmax of a tile is then vectorized over queries, so it needs
 * no maximum within a row.
 */

/* Scores of keys that a query does not see become -inf. */
P4D_CLONES static void hide(REAL *scores, const view *v)
{
	const int32_t reach = v->reach;

	for (uint64_t j = 0; j < v->keys; j++) {
		REAL *row = scores + j * TILE;
		const int32_t position = v->key_position[j];
#pragma omp simd
		for (uint64_t i = 0; i < v->queries; i++)
			row[i] = position <= v->query_position[i] && v->query_position[i] - position <= reach
				     ? row[i]
				     : -(REAL)INFINITY;
		if (!v->key_document)
			continue;
		const int32_t document = v->key_document[j];
#pragma omp simd
		for (uint64_t i = 0; i < v->queries; i++)
			row[i] = document == v->query_document[i] ? row[i] : -(REAL)INFINITY;
	}
}

/*
 * Turns scores into probabilities without their denominator. Rescales earlier sums and `output` to the new
 * maximum.
 */
P4D_CLONES static void soften(REAL *scores, REAL *output, running *r, uint64_t queries, uint64_t keys,
			      uint64_t d)
{
	REAL most[TILE], shift[TILE], shrink[TILE];

	memcpy(most, r->maximum, sizeof(most));
	for (uint64_t j = 0; j < keys; j++) {
		const REAL *row = scores + j * TILE;
#pragma omp simd
		for (uint64_t i = 0; i < queries; i++)
			most[i] = row[i] > most[i] ? row[i] : most[i];
	}
#pragma omp simd
	for (uint64_t i = 0; i < queries; i++) {
		/* if the query has seen no key so far, any finite shift makes all its probabilities 0 */
		shift[i] = most[i] == -(REAL)INFINITY ? 0 : most[i];
		shrink[i] = EXP(r->maximum[i] - shift[i]);
		r->maximum[i] = most[i];
		r->sum[i] *= shrink[i];
	}
	for (uint64_t j = 0; j < keys; j++) {
		REAL *row = scores + j * TILE;
#pragma omp simd
		for (uint64_t i = 0; i < queries; i++) {
			row[i] = EXP(row[i] - shift[i]);
			r->sum[i] += row[i];
		}
	}
	for (uint64_t i = 0; i < queries; i++) {
		REAL *out = output + i * d;
		if (shrink[i] == 1)
			continue;
#pragma omp simd
		for (uint64_t j = 0; j < d; j++)
			out[j] *= shrink[i];
	}
}

P4D_CLONES static void finish(ELEMENT *o, uint64_t stride, REAL *lse, const REAL *output, const running *r,
			      uint64_t queries, uint64_t d)
{
	for (uint64_t i = 0; i < queries; i++) {
		const REAL *from = output + i * d;
		ELEMENT *to = o + i * stride;
		const REAL inverse = r->sum[i] > 0 ? 1 / r->sum[i] : r->sum[i];
#pragma omp simd
		for (uint64_t j = 0; j < d; j++)
			to[j] = p4d_store(from[j] * inverse);
		lse[i] = r->maximum[i] + LOG(r->sum[i]);
	}
}

/*
 * Computes attention for the tile of queries that begins at `query`, in one head of one sequence. o, lse:
 * address of the first query's result.
 */
static void attend(ELEMENT *o, REAL *lse, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
		   const p4d_attention_shape *s, uint64_t sequence, uint64_t query, const space *w)
{
	const uint64_t d = s->head_dim, queries = view_of(s, sequence, query, 0).queries;
	running r;

	for (uint64_t i = 0; i < TILE; i++) {
		r.maximum[i] = -(REAL)INFINITY;
		r.sum[i] = 0;
	}
	memset(w->output, 0, queries * d * sizeof(REAL));
	pack_transposed(w->queries, q, s->query_stride, queries, d);
	for (uint64_t key = 0; key < s->keys; key += TILE) {
		const view seen = view_of(s, sequence, query, key);
		const visibility how = look(&seen);
		if (how == SEES_NONE)
			continue;
		pack(w->keys, k + key * s->key_stride, s->key_stride, seen.keys, d);
		pack(w->values, v + key * s->key_stride, s->key_stride, seen.keys, d);
		multiply(w->scores, w->keys, w->queries, seen.keys, queries, d, (REAL)s->scale);
		if (s->cap > 0)
			cap_scores(w->scores, seen.keys, queries, (REAL)s->cap);
		if (how == SEES_SOME)
			hide(w->scores, &seen);
		soften(w->scores, w->output, &r, queries, seen.keys, d);
		add_product(w->output, d, w->scores, true, w->values, queries, d, seen.keys);
	}
	finish(o, s->heads * d, lse, w->output, &r, queries, d);
}

void OP(attention)(ELEMENT *o, REAL *lse, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
		   const p4d_attention_shape *s, void *workspace)
{
	const uint64_t d = s->head_dim, n = s->batch * s->queries, group = s->heads / s->kv_heads;
	const uint64_t tiles = (s->queries + TILE - 1) / TILE, items = s->batch * s->heads * tiles;
	const p4d_cpu_rooms rooms =
	    p4d_cpu_rooms_for(workspace, TILE * (TILE + 4 * d) * sizeof(REAL),
			      p4d_cpu_team_of(items, s->batch * s->heads * s->queries * s->keys));

#pragma omp parallel for schedule(dynamic) num_threads(rooms.team)
	for (uint64_t item = 0; item < items; item++) {
		const uint64_t i = item % tiles * TILE, head = item / tiles % s->heads;
		const uint64_t b = item / tiles / s->heads, token = b * s->queries + i;
		const uint64_t keys = b * s->keys * s->key_stride + head / group * d;
		REAL *at = p4d_cpu_room(&rooms);
		const space w = {at, at + TILE * TILE, at + TILE * (TILE + d), at + TILE * (TILE + 2 * d),
				 at + TILE * (TILE + 3 * d)};
		attend(o + (token * s->heads + head) * d, lse + head * n + token,
		       q + token * s->query_stride + head * d, k + keys, v + keys, s, b, i, &w);
	}
}

void OP(attention_merge)(REAL *total, REAL *total_lse, const ELEMENT *o, const REAL *lse, uint64_t n,
			 uint64_t heads, uint64_t head_dim, bool first)
{
#pragma omp parallel for num_threads(p4d_cpu_team_of(heads, n *heads *head_dim))
	for (uint64_t head = 0; head < heads; head++)
		for (uint64_t i = 0; i < n; i++) {
			const REAL before = first ? -(REAL)INFINITY : total_lse[head * n + i];
			const REAL now = lse[head * n + i];
			const REAL most = before > now ? before : now;
			const uint64_t at = (i * heads + head) * head_dim;
			/* an output that neither block contributed to stays 0 */
			const REAL shift = most == -(REAL)INFINITY ? 0 : most;
			const REAL old = EXP(before - shift), new = EXP(now - shift), sum = old + new;
			const REAL inverse = sum > 0 ? 1 / sum : sum;
			for (uint64_t j = 0; j < head_dim; j++)
				total[at + j] =
				    ((first ? 0 : total[at + j] * old) + p4d_load(o[at + j]) * new) * inverse;
			total_lse[head * n + i] = most + LOG(sum);
		}
}
