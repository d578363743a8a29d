/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the cpu device in double, compared with its definition. Its gradients are compared with
 * finite differences. */
#include "support/support.h"

#include "support/numbers.h"

#define P4D_CPU_TYPE 64
#include "device/cpu/cpu_operations.h"

enum { CP_MOST = 3, SAMPLES = 9 };

/* The queries of one rank, and the keys of `cp` ranks, which arrive one after the other as in a ring.
 * Sequences are divided in zigzag: rank r has chunks r and 2*cp-1-r. */
typedef struct ring {
	uint64_t cp, rank, batch, length, heads, kv_heads, d; /* length: tokens of a sequence on a rank */
	bool documents;
	uint64_t window;
	float cap;
	uint64_t n, columns, key_columns;
	int32_t *position[CP_MOST], *document[CP_MOST]; /* document: (batch, length) */
	double *q, *kv[CP_MOST];                        /* q: columns of (n, columns), kv: (n, key_columns) */
	double *o, *lse, *part_o, *part_lse, *towards;
	void *workspace;
} ring;

static int32_t zigzag(const ring *r, uint64_t rank, uint64_t i)
{
	if (r->cp == 1)
		return (int32_t)i;
	const uint64_t half = r->length / 2;
	return (int32_t)(i < half ? rank * half + i : (2 * r->cp - 1 - rank) * half + i - half);
}

static void ring_open(ring *r)
{
	r->n = r->batch * r->length;
	r->columns = (r->heads + 2 * r->kv_heads) * r->d;
	r->key_columns = 2 * r->kv_heads * r->d;
	r->q = numbers(r->n * r->columns, 1);
	for (uint64_t i = 0; i < r->n * r->columns; i++)
		r->q[i] *= 3; /* larger queries make probabilities more different */
	for (uint64_t c = 0; c < r->cp; c++) {
		r->kv[c] = numbers(r->n * r->key_columns, 2 + c);
		r->position[c] = calloc(r->length, sizeof(int32_t));
		r->document[c] = calloc(r->n, sizeof(int32_t));
		for (uint64_t i = 0; i < r->length; i++) {
			r->position[c][i] = zigzag(r, c, i);
			for (uint64_t b = 0; b < r->batch; b++) /* documents end at different places in
								 * each sequence */
				r->document[c][b * r->length + i] =
				    (r->position[c][i] + 2 * (int32_t)b) / (r->cp > 1 ? 100 : 5);
		}
	}
	r->o = calloc(r->n * r->heads * r->d, sizeof(double));
	r->part_o = calloc(r->n * r->heads * r->d, sizeof(double));
	r->lse = calloc(r->n * r->heads, sizeof(double));
	r->part_lse = calloc(r->n * r->heads, sizeof(double));
	r->towards = numbers(r->n * r->heads * r->d, 9);
	/* exactly twice the plan's fp32 bytes, so that sanitizers find accesses beyond the end */
	r->workspace = malloc(8 * P4D_ATTENTION_TILE * (2 * P4D_ATTENTION_TILE + 5 * r->d));
}

static void ring_close(ring *r)
{
	for (uint64_t c = 0; c < r->cp; c++)
		free(r->kv[c]), free(r->position[c]), free(r->document[c]);
	free(r->q), free(r->o), free(r->part_o), free(r->lse), free(r->part_lse), free(r->towards);
	free(r->workspace);
}

static p4d_attention_shape shape_of(const ring *r, uint64_t block)
{
	return (p4d_attention_shape){
	    .batch = r->batch,
	    .queries = r->length,
	    .keys = r->length,
	    .heads = r->heads,
	    .kv_heads = r->kv_heads,
	    .head_dim = r->d,
	    .query_position = r->position[r->rank],
	    .key_position = r->position[block],
	    .query_document = r->documents ? r->document[r->rank] : NULL,
	    .key_document = r->documents ? r->document[block] : NULL,
	    .query_stride = r->columns,
	    .key_stride = r->key_columns,
	    .window = r->window,
	    .scale = 0.5f,
	    .cap = r->cap,
	};
}

static double forward(void *context)
{
	ring *r = context;

	for (uint64_t c = 0; c < r->cp; c++) {
		const p4d_attention_shape shape = shape_of(r, c);
		OP(attention)
		(r->part_o, r->part_lse, r->q, r->kv[c], r->kv[c] + r->kv_heads * r->d, &shape, r->workspace);
		OP(attention_merge)(r->o, r->lse, r->part_o, r->part_lse, r->n, r->heads, r->d, c == 0);
	}
	return dot(r->o, r->towards, r->n * r->heads * r->d);
}

static bool sees(const ring *r, uint64_t b, uint64_t i, uint64_t block, uint64_t j)
{
	return r->position[block][j] <= r->position[r->rank][i] &&
	       (!r->window || r->position[block][j] > r->position[r->rank][i] - (int32_t)r->window) &&
	       (!r->documents ||
		r->document[block][b * r->length + j] == r->document[r->rank][b * r->length + i]);
}

/* The score of a query and a key. */
static double score(const ring *r, uint64_t token, uint64_t head, uint64_t block, uint64_t key)
{
	const double *q = r->q + token * r->columns + head * r->d;
	const double *k = r->kv[block] + key * r->key_columns + head / (r->heads / r->kv_heads) * r->d;

	const double plain = 0.5 * dot(q, k, r->d), at = (double)r->cap;
	return at > 0 ? at * tanh(plain / at) : plain;
}

/* softmax(scale * q k^T) v, computed as written. */
static void check_definition(const ring *r)
{
	for (uint64_t token = 0; token < r->n; token++)
		for (uint64_t head = 0; head < r->heads; head++) {
			const uint64_t b = token / r->length, i = token % r->length;
			const uint64_t value = (r->kv_heads + head / (r->heads / r->kv_heads)) * r->d;
			double sum = 0, expected[64] = {0};
			for (uint64_t c = 0; c < r->cp; c++)
				for (uint64_t j = 0; j < r->length; j++) {
					const uint64_t key = b * r->length + j;
					if (!sees(r, b, i, c, j))
						continue;
					const double p = exp(score(r, token, head, c, key));
					sum += p;
					for (uint64_t l = 0; l < r->d; l++)
						expected[l] += p * r->kv[c][key * r->key_columns + value + l];
				}
			assert_true(fabs(r->lse[head * r->n + token] - log(sum)) < 1e-12);
			for (uint64_t l = 0; l < r->d; l++)
				assert_true(fabs(r->o[(token * r->heads + head) * r->d + l] -
						 expected[l] / sum) < 1e-12);
		}
}

static void ring_case(ring r)
{
	ring_open(&r);
	double *dq = calloc(r.n * r.columns, sizeof(double)), *sums = calloc(r.n * r.heads, sizeof(double));

	forward(&r);
	check_definition(&r);
	OP(attention_row_sums)(sums, r.towards, r.o, r.n, r.heads, r.d);
	double *dkv[CP_MOST];
	for (uint64_t c = 0; c < r.cp; c++) {
		const p4d_attention_shape shape = shape_of(&r, c);
		dkv[c] = calloc(r.n * r.key_columns, sizeof(double));
		OP(attention_backward)
		(dq, dkv[c], dkv[c] + r.kv_heads * r.d, r.towards, r.lse, sums, r.q, r.kv[c],
		 r.kv[c] + r.kv_heads * r.d, &shape, r.workspace);
	}
	/* columns that are no queries do not count */
	for (uint64_t i = 0; i < r.n * r.columns; i++)
		if (i % r.columns >= r.heads * r.d)
			assert_true(dq[i] == 0);
	if (r.length > 1) /* a single key has probability 1 for any query */
		check_gradient("attention, q", forward, &r, r.q, dq, r.n * r.columns, SAMPLES);
	for (uint64_t c = 0; c < r.cp; c++)
		check_gradient("attention, k v", forward, &r, r.kv[c], dkv[c], r.n * r.key_columns, SAMPLES);
	for (uint64_t c = 0; c < r.cp; c++)
		free(dkv[c]);
	free(dq), free(sums);
	ring_close(&r);
}

static void one_token(void **state)
{
	(void)state;
	ring_case((ring){.cp = 1, .batch = 1, .length = 1, .heads = 1, .kv_heads = 1, .d = 2});
	ring_case((ring){.cp = 1, .batch = 3, .length = 1, .heads = 2, .kv_heads = 1, .d = 4});
}

/* Lengths one below and one above a multiple of the tile. */
static void odd_lengths(void **state)
{
	static const uint64_t lengths[] = {2, 63, 64, 129};

	(void)state;
	for (int i = 0; i < 4; i++)
		ring_case(
		    (ring){.cp = 1, .batch = 1, .length = lengths[i], .heads = 2, .kv_heads = 1, .d = 6});
}

static void grouped_queries(void **state)
{
	(void)state;
	ring_case((ring){.cp = 1, .batch = 1, .length = 70, .heads = 6, .kv_heads = 2, .d = 4});
	ring_case((ring){.cp = 1, .batch = 1, .length = 20, .heads = 3, .kv_heads = 3, .d = 10});
}

static void documents(void **state)
{
	(void)state;
	ring_case(
	    (ring){.cp = 1, .batch = 3, .length = 67, .heads = 2, .kv_heads = 1, .d = 4, .documents = true});
}

/* Windows that end in the same tile, at its border, in an earlier tile, and before the sequence. Also
 * scores with a soft cap. */
static void windows_and_caps(void **state)
{
	static const uint64_t windows[] = {2, 7, 64, 65, 100, 1000};

	(void)state;
	for (int i = 0; i < 6; i++)
		ring_case((ring){.cp = 1,
				 .batch = 2,
				 .length = 150,
				 .heads = 2,
				 .kv_heads = 1,
				 .d = 4,
				 .window = windows[i],
				 .cap = i % 2 ? 0.75f : 0});
	for (uint64_t rank = 0; rank < 2; rank++)
		ring_case((ring){.cp = 2,
				 .rank = rank,
				 .batch = 1,
				 .length = 2 * 40,
				 .heads = 2,
				 .kv_heads = 2,
				 .d = 4,
				 .documents = rank == 1,
				 .window = 50,
				 .cap = 1.25f});
}

/* All ranks of a zigzag ring. The first rank sees almost no keys of other ranks. */
static void zigzag_ring(void **state)
{
	(void)state;
	for (uint64_t rank = 0; rank < 3; rank++)
		for (int i = 0; i < 2; i++)
			ring_case((ring){.cp = 3,
					 .rank = rank,
					 .batch = i ? 2 : 1,
					 .length = 2 * 33,
					 .heads = 2,
					 .kv_heads = 1,
					 .d = 4,
					 .documents = i == 1});
}

/* All keys of the block come after the queries, so no query sees a key. */
static void nothing_to_see(void **state)
{
	enum { N = 3, D = 2 };
	int32_t query[N] = {0, 1, 2}, key[N] = {2, 7, 8};
	const p4d_attention_shape shape = {.batch = 1,
					   .queries = N,
					   .keys = N,
					   .heads = 1,
					   .kv_heads = 1,
					   .head_dim = D,
					   .query_position = query,
					   .key_position = key,
					   .query_stride = D,
					   .key_stride = D,
					   .scale = 1};
	double *q = numbers(N * D, 1), *k = numbers(N * D, 2), *v = numbers(N * D, 3), *o = numbers(N * D, 4);
	double lse[N], total[N * D], total_lse[N], zero[N] = {0}, dq[N * D] = {0}, dk[N * D] = {0},
						   dv[N * D] = {0};
	void *workspace = malloc(8 * P4D_ATTENTION_TILE * (2 * P4D_ATTENTION_TILE + 5 * D));

	(void)state;
	OP(attention)(o, lse, q, k, v, &shape, workspace);
	for (int merged = 0; merged < 2; merged++) {
		OP(attention_merge)(total, total_lse, o, lse, N, 1, D, !merged);
		for (int i = 0; i < 2; i++) {
			assert_true(lse[i] == -(double)INFINITY && total_lse[i] == -(double)INFINITY);
			assert_true(o[i * D] == 0 && o[i * D + 1] == 0 && total[i * D] == 0);
		}
	}
	assert_true(o[2 * D] == v[0] && o[2 * D + 1] == v[1]);
	OP(attention_backward)(dq, dk, dv, o, lse, zero, q, k, v, &shape, workspace);
	for (int i = 0; i < 2 * D; i++)
		assert_true(dq[i] == 0 && dk[D + i] == 0 && dv[D + i] == 0);
	assert_true(dv[0] == o[2 * D] && dv[1] == o[2 * D + 1]);
	free(q), free(k), free(v), free(o), free(workspace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_token),        cmocka_unit_test(odd_lengths),
	    cmocka_unit_test(grouped_queries),  cmocka_unit_test(documents),
	    cmocka_unit_test(zigzag_ring),      cmocka_unit_test(nothing_to_see),
	    cmocka_unit_test(windows_and_caps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
