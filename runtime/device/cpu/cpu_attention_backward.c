/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of attention, a tile of keys at a time: probabilities are recomputed from the scores and the
 * saved log-sum-exp.
 */
#include "device/cpu/cpu_attention.h"

P4D_CLONES void OP(attention_row_sums)(REAL *row_sums, const ELEMENT *d_o, const ELEMENT *o, uint64_t n,
				       uint64_t heads, uint64_t head_dim)
{
#pragma omp parallel for num_threads(p4d_cpu_team(n *heads *head_dim))
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

/* Scores of keys that a query does not see become -inf. */
P4D_CLONES static void hide(REAL *scores, const view *v)
{
	const int32_t reach = v->reach;

	for (uint64_t i = 0; i < v->queries; i++) {
		REAL *row = scores + i * TILE;
		const int32_t position = v->query_position[i];
#pragma omp simd
		for (uint64_t j = 0; j < v->keys; j++)
			row[j] = v->key_position[j] <= position && position - v->key_position[j] <= reach
				     ? row[j]
				     : -(REAL)INFINITY;
		if (!v->query_document)
			continue;
		const int32_t document = v->query_document[i];
#pragma omp simd
		for (uint64_t j = 0; j < v->keys; j++)
			row[j] = v->key_document[j] == document ? row[j] : -(REAL)INFINITY;
	}
}

P4D_CLONES static void probabilities(REAL *scores, const REAL *lse, uint64_t queries, uint64_t keys)
{
	for (uint64_t i = 0; i < queries; i++) {
		REAL *row = scores + i * TILE;
		/* a query that sees no key has only scores of -inf; a shift of 0 makes its probabilities 0 */
		const REAL shift = lse[i] == -(REAL)INFINITY ? 0 : lse[i];
#pragma omp simd
		for (uint64_t j = 0; j < keys; j++)
			row[j] = EXP(row[j] - shift);
	}
}

/* Computes the gradient of the scores from the gradient of the probabilities, in place. */
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

/*
 * Like through_softmax, for scores with a soft cap. Here `probability` still has the capped scores, and this
 * replaces them by probabilities. The slope of the cap is 1 - (score / cap)^2.
 */
P4D_CLONES static void through_cap(REAL *gradient, REAL *probability, const REAL *lse, const REAL *row_sums,
				   uint64_t queries, uint64_t keys, REAL scale, REAL cap)
{
	for (uint64_t i = 0; i < queries; i++) {
		REAL *row = gradient + i * TILE, *p = probability + i * TILE;
		const REAL shift = lse[i] == -(REAL)INFINITY ? 0 : lse[i];
#pragma omp simd
		for (uint64_t j = 0; j < keys; j++) {
			/* masked scores are -inf, and the cap has no slope there */
			const REAL part = p[j] < -cap ? 0 : p[j] / cap;
			p[j] = EXP(p[j] - shift);
			row[j] = p[j] * (row[j] - row_sums[i]) * scale * (1 - part * part);
		}
	}
}

/* Workspace of a thread: probabilities and their gradients (TILE, TILE); all others (TILE, d). */
typedef struct backward_space {
	REAL *probabilities, *gradients, *queries, *outputs, *keys, *keys_transposed, *values_transposed;
} backward_space;

/* Addresses of the first elements of one head of one sequence. */
typedef struct slice {
	const ELEMENT *q, *k, *v, *d_o;
	const REAL *lse, *row_sums;
	REAL *dq, *dk, *dv;
} slice;

/* Computes the gradients for the tile of keys that begins at `key`. */
static void attend_back(const slice *x, const p4d_attention_shape *s, uint64_t sequence, uint64_t key,
			const backward_space *w)
{
	const uint64_t d = s->head_dim, columns = s->heads * d, keys = view_of(s, sequence, 0, key).keys;

	pack(w->keys, x->k + key * s->key_stride, s->key_stride, keys, d);
	pack_transposed(w->keys_transposed, x->k + key * s->key_stride, s->key_stride, keys, d);
	pack_transposed(w->values_transposed, x->v + key * s->key_stride, s->key_stride, keys, d);
	for (uint64_t i = 0; i < s->queries; i += TILE) {
		const view seen = view_of(s, sequence, i, key);
		const visibility how = look(&seen);
		const uint64_t queries = seen.queries;
		if (how == SEES_NONE)
			continue;
		pack(w->queries, x->q + i * s->query_stride, s->query_stride, queries, d);
		pack(w->outputs, x->d_o + i * columns, columns, queries, d);
		multiply(w->probabilities, w->queries, w->keys_transposed, queries, keys, d, (REAL)s->scale);
		if (s->cap > 0)
			cap_scores(w->probabilities, queries, keys, (REAL)s->cap);
		if (how == SEES_SOME)
			hide(w->probabilities, &seen);
		multiply(w->gradients, w->outputs, w->values_transposed, queries, keys, d, 1);
		if (s->cap > 0) {
			through_cap(w->gradients, w->probabilities, x->lse + i, x->row_sums + i, queries,
				    keys, (REAL)s->scale, (REAL)s->cap);
		} else {
			probabilities(w->probabilities, x->lse + i, queries, keys);
			through_softmax(w->gradients, w->probabilities, x->row_sums + i, queries, keys,
					(REAL)s->scale);
		}
		add_product(x->dv + key * s->key_stride, s->key_stride, w->probabilities, true, w->outputs,
			    keys, d, queries);
		add_product(x->dq + i * s->query_stride, s->query_stride, w->gradients, false, w->keys,
			    queries, d, keys);
		add_product(x->dk + key * s->key_stride, s->key_stride, w->gradients, true, w->queries, keys,
			    d, queries);
	}
}

void OP(attention_backward)(REAL *dq, REAL *dk, REAL *dv, const ELEMENT *d_o, const REAL *lse,
			    const REAL *row_sums, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
			    const p4d_attention_shape *s, void *workspace)
{
	const uint64_t d = s->head_dim, n = s->batch * s->queries, group = s->heads / s->kv_heads;
	const uint64_t items = s->batch * s->kv_heads;
	const p4d_cpu_rooms rooms =
	    p4d_cpu_rooms_for(workspace, TILE * (2 * TILE + 5 * d) * sizeof(REAL),
			      p4d_cpu_team_of(items, s->batch * s->heads * s->queries * s->keys));

	/*
	 * heads that share keys are in one item, so that one thread adds their gradients, one after the other
	 */
#pragma omp parallel for schedule(dynamic) num_threads(rooms.team)
	for (uint64_t item = 0; item < items; item++) {
		REAL *const at = p4d_cpu_room(&rooms), *const rows = at + 2 * TILE * TILE;
		const backward_space w = {at,
					  at + TILE * TILE,
					  rows,
					  rows + TILE * d,
					  rows + 2 * TILE * d,
					  rows + 3 * TILE * d,
					  rows + 4 * TILE * d};
		const uint64_t b = item / s->kv_heads, first = item % s->kv_heads * group;
		for (uint64_t head = first; head < first + group; head++) {
			const uint64_t token = b * s->queries, queries = token * s->query_stride + head * d;
			const uint64_t keys = b * s->keys * s->key_stride + head / group * d;
			const slice x = {
			    .q = q + queries,
			    .k = k + keys,
			    .v = v + keys,
			    .d_o = d_o + (token * s->heads + head) * d,
			    .lse = lse + head * n + token,
			    .row_sums = row_sums + head * n + token,
			    .dq = dq + queries,
			    .dk = dk + keys,
			    .dv = dv + keys,
			};
			for (uint64_t j = 0; j < s->keys; j += TILE)
				attend_back(&x, s, b, j, &w);
		}
	}
}
