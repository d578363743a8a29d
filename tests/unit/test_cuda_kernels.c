/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels against the cpu device on shapes that meet each of their ways: rows that are and are not multiples
 * of 16 bytes, addresses that are not aligned, more rows than partial sums, rows too long for registers,
 * tiles that are not full. fp32 agrees to 1e-5 of the largest number of a result; bf16 to that and one
 * rounding.
 */
#include "support.h"
#include "numbers.h"

#include "attention.h"
#include "device_under_test.h"

static p4d_device device; /* the one that the cases run on */
static uint64_t state_of_numbers;

enum { MOST_KEPT = 2048, MOST_RESULTS = 256 };
static void *kept[MOST_KEPT];
static unsigned number_kept;

typedef struct result {
	const char *name;
	uint64_t count;
	float *x;
	bool rounded;
} result;

typedef struct results {
	unsigned count;
	result at[MOST_RESULTS];
} results;

static results *recording;
static p4d_dtype type; /* of the elements of the cases that run */
static uint64_t off;   /* elements by which their buffers are not aligned */

static uint64_t size_of(p4d_dtype of)
{
	return of == P4D_DT_BF16 ? 2 : 4;
}

static void *keep(uint64_t bytes)
{
	assert_true(number_kept < MOST_KEPT);
	return kept[number_kept++] = make_memory(bytes);
}

static float *reals(uint64_t count)
{
	float *x = (float *)keep((count + off) * sizeof(*x)) + off;

	for (uint64_t i = 0; i < count; i++)
		x[i] = (float)number(&state_of_numbers);
	return x;
}

static void *elements(uint64_t count)
{
	char *x = (char *)keep((count + off) * size_of(type)) + off * size_of(type);
	float *from = make_memory(count * sizeof(*from));

	for (uint64_t i = 0; i < count; i++)
		from[i] = (float)number(&state_of_numbers);
	device.cast(&device, type, x, P4D_DT_FP32, from, count);
	finish(&device);
	drop_memory(from);
	return x;
}

static void record(const char *name, p4d_dtype of, const void *x, uint64_t count)
{
	assert_true(recording->count < MOST_RESULTS);
	result *r = &recording->at[recording->count++];

	*r = (result){name, count, make_memory(count * sizeof(float)), of == P4D_DT_BF16};
	device.cast(&device, P4D_DT_FP32, r->x, of, x, count);
	finish(&device);
}

static void record_number(const char *name, const double *x)
{
	float *as_float = keep(sizeof(*as_float));

	finish(&device);
	*as_float = (float)*x;
	record(name, P4D_DT_FP32, as_float, 1);
}

static void drop(results *r)
{
	while (r->count > 0)
		drop_memory(r->at[--r->count].x);
	while (number_kept > 0)
		drop_memory(kept[--number_kept]);
}

static void norms(uint64_t n, uint64_t h)
{
	void *y = elements(n * h), *x = elements(n * h), *weight = elements(h), *dx = elements(n * h);
	float *rstd = reals(n), *dweight = reals(h);

	device.norm(&device, type, y, rstd, x, weight, n, h, 1e-5f);
	record("norm", type, y, n * h);
	record("norm, rstd", P4D_DT_FP32, rstd, n);
	device.norm_backward(&device, type, dx, dweight, y, x, weight, rstd, n, h);
	record("norm_backward", type, dx, n * h);
	record("norm_backward, weight", P4D_DT_FP32, dweight, h);
}

static void norm_cases(void)
{
	norms(1, 8);
	norms(300, 40); /* more rows than partial sums */
	norms(5, 129);
	norms(3, 2056); /* two runs a thread, four, and too long for registers */
	norms(3, 6152);
	norms(2, 12296);
}

static void heads_of(uint64_t n, uint64_t a, uint64_t k, uint64_t d, bool bias, bool normed)
{
	const uint64_t columns = (a + 2 * k) * d, length = n > 3 ? n / 3 : n;
	void *qkv = elements(n * columns), *dqkv = elements(n * columns);
	float *rstd = reals(n * (a + k)), *dbias = reals(columns), *dquery = reals(d), *dkey = reals(d);
	p4d_heads heads = {.n = n,
			   .length = length,
			   .heads = a,
			   .kv_heads = k,
			   .head_dim = d,
			   .bias = bias ? elements(columns) : NULL,
			   .query_weight = normed ? elements(d) : NULL,
			   .key_weight = normed ? elements(d) : NULL,
			   .epsilon = 1e-5f,
			   .rope = reals(length * d)};

	device.heads(&device, type, qkv, normed ? rstd : NULL, &heads);
	record("heads", type, qkv, n * columns);
	record("heads, rstd", P4D_DT_FP32, rstd, n * (a + k));
	qkv = elements(n * columns);
	rstd = reals(n * (a + k));
	device.heads_backward(&device, type, dqkv, qkv, normed ? rstd : NULL, &heads, bias ? dbias : NULL,
			      normed ? dquery : NULL, normed ? dkey : NULL);
	record("heads_backward", type, dqkv, n * columns);
	record("heads_backward, bias", P4D_DT_FP32, dbias, columns);
	record("heads_backward, query weight", P4D_DT_FP32, dquery, d);
	record("heads_backward, key weight", P4D_DT_FP32, dkey, d);
}

static void heads_cases(void)
{
	static const uint64_t sizes[] = {2, 6, 16, 80, 128, 256};

	for (int i = 0; i < 6; i++) {
		heads_of(7, 3, 1, sizes[i], false, false);
		heads_of(70, 2, 2, sizes[i], i % 2, true);
		heads_of(3, 4, 2, sizes[i], true, false);
	}
}

static int32_t *places(uint64_t count, int32_t first, int32_t step)
{
	int32_t *at = keep(count * sizeof(*at));

	for (uint64_t i = 0; i < count; i++)
		at[i] = first + (int32_t)i * step;
	return at;
}

/* Documents of a few tokens each. */
static int32_t *documents_of(uint64_t batch, uint64_t count, uint64_t length)
{
	int32_t *at = keep(batch * count * sizeof(*at));

	for (uint64_t i = 0; i < batch * count; i++)
		at[i] = (int32_t)(i % count / length);
	return at;
}

static void attentions(uint64_t queries, uint64_t keys, uint64_t d, uint64_t group, bool documents,
		       bool zigzag)
{
	const uint64_t batch = 2, kv = 2, a = kv * group, n = batch * queries, q_columns = (a + 2 * kv) * d;
	const bool same = queries == keys; /* columns of one matrix */
	const uint64_t key_columns = same ? q_columns : 2 * kv * d;
	char *qkv = elements(n * q_columns), *dqkv = elements(n * q_columns);
	char *kv_apart = elements(batch * keys * key_columns);
	char *k = same ? qkv + a * d * size_of(type) : kv_apart, *v = k + kv * d * size_of(type);
	void *o = elements(n * a * d), *d_o = elements(n * a * d);
	float *lse = reals(a * n), *sums = reals(a * n), *total = reals(n * a * d), *total_lse = reals(a * n);
	float *dq = reals(n * q_columns), *dkv = reals(batch * keys * key_columns);
	const uint64_t tile = P4D_ATTENTION_TILE;
	void *workspace = keep(4 * tile * (2 * tile + 5 * d));
	float *gradient_sums = keep(n * q_columns * sizeof(float));
	p4d_attention_shape shape = {.batch = batch,
				     .queries = queries,
				     .keys = keys,
				     .heads = a,
				     .kv_heads = kv,
				     .head_dim = d,
				     .query_position = places(queries, 0, 1),
				     .key_position = same ? places(keys, 0, 1) : places(keys, 1, 1),
				     .query_document = documents ? documents_of(batch, queries, 37) : NULL,
				     .key_document = documents ? documents_of(batch, keys, 37) : NULL,
				     .query_stride = q_columns,
				     .key_stride = key_columns,
				     .scale = 0.5f};

	if (zigzag) { /* the second half of the queries lies far behind the keys, the first before them */
		int32_t *position = (int32_t *)shape.query_position;
		for (uint64_t i = queries / 2; i < queries; i++)
			position[i] += 1000;
		for (uint64_t i = 0; i < keys; i++)
			((int32_t *)shape.key_position)[i] += (int32_t)queries / 2;
	}
	device.attention(&device, type, o, lse, qkv, k, v, &shape, workspace);
	record("attention", type, o, n * a * d);
	for (uint64_t i = 0; i < a * n; i++) { /* what a comparison of sizes takes for a number */
		assert_false(isnan(lse[i]));
		if (lse[i] == -INFINITY)
			lse[i] = -77;
	}
	record("attention, lse", P4D_DT_FP32, lse, a * n);
	for (uint64_t i = 0; i < a * n; i++)
		lse[i] = lse[i] == -77 ? -INFINITY : lse[i];
	o = elements(n * a * d); /* what is made of a rounded number must not depend on how it was rounded */
	device.attention_row_sums(&device, type, sums, d_o, o, n, a, d);
	record("attention_row_sums", P4D_DT_FP32, sums, a * n);
	sums = reals(a * n);
	device.attention_backward(&device, type, dq, dkv, dkv + kv * d, d_o, lse, sums, qkv, k, v, &shape,
				  workspace);
	record("attention_backward, q", P4D_DT_FP32, dq, n * q_columns);
	record("attention_backward, k v", P4D_DT_FP32, dkv, batch * keys * key_columns);
	if (same) {
		device.attention_gradient(&device, type, dqkv, gradient_sums, d_o, lse, sums, qkv, &shape,
					  workspace);
		record("attention_gradient", type, dqkv, n * q_columns);
	}
	device.attention_merge(&device, type, total, total_lse, o, lse, n, a, d, true);
	device.attention_merge(&device, type, total, total_lse, d_o, sums, n, a, d, false);
	record("attention_merge", P4D_DT_FP32, total, n * a * d);
	record("attention_merge, lse", P4D_DT_FP32, total_lse, a * n);
}

static void attention_cases(void)
{
	attentions(1, 1, 8, 1, false, false);
	attentions(70, 70, 18, 2, true, false);
	attentions(65, 65, 64, 1, false, false);
	attentions(40, 70, 40, 3, false, true);
	attentions(33, 33, 128, 2, false, false);
	attentions(50, 20, 72, 1, true, false);
	attentions(35, 35, 136, 1, false, false);
	attentions(17, 17, 256, 2, true, false);
}

#ifdef P4D_TEST_GPU
enum { SM = 0 }; /* any */
#else
enum { SM = 90 };
#endif

/* What a rank's queries have before them: without context parallelism, of a ring, or gathered. */
typedef enum sight { WHOLE, OWN, EARLIER, LATER, GATHERED } sight;
enum { CP = 4, CP_RANK = 1, BEYOND = 64 };

/* Piece i of a rank's two begins here in its sequence. */
static int32_t piece_at(uint64_t rank, uint64_t i, uint64_t piece)
{
	return (int32_t)((i ? 2 * CP - 1 - rank : rank) * piece);
}

static int32_t *pieces_of(uint64_t rank, uint64_t piece)
{
	int32_t *at = keep(2 * piece * sizeof(*at));

	for (uint64_t i = 0; i < 2 * piece; i++)
		at[i] = piece_at(rank, i / piece, piece) + (int32_t)(i % piece);
	return at;
}

static p4d_attention_shape shape_of(sight what, uint64_t batch, uint64_t piece, uint64_t kv, uint64_t group,
				    uint64_t d)
{
	const uint64_t length = 2 * piece, row = (group + 2) * kv * d;
	p4d_attention_shape s = {.batch = batch,
				 .queries = length,
				 .keys = what == GATHERED ? CP * length : length,
				 .heads = kv * group,
				 .kv_heads = kv,
				 .head_dim = d,
				 .query_stride = row,
				 .key_stride = what == WHOLE ? row : 2 * kv * d,
				 .scale = 0.5f,
				 .blocks = what == GATHERED ? 2 : 1};
	const p4d_attention_split split = {
	    batch,           s.heads, kv, d, what == WHOLE ? length : CP * length, what == WHOLE ? 1 : CP,
	    what == GATHERED};

	s.query_position = what == WHOLE ? places(length, 0, 1) : pieces_of(CP_RANK, piece);
	s.key_position = what == WHOLE || what == GATHERED ? places(s.keys, 0, 1)
			 : what == OWN                     ? s.query_position
							   : pieces_of(what == EARLIER ? 0 : CP - 1, piece);
	s.block[0] = (p4d_attention_block){0, length, length, true};
	if (what == EARLIER)
		s.block[0] = (p4d_attention_block){0, length, piece, false};
	if (what == LATER)
		s.block[0] = (p4d_attention_block){piece, piece, length, false};
	if (what == GATHERED) {
		s.block[0] = (p4d_attention_block){0, piece, (CP_RANK + 1) * piece, true};
		s.block[1] = (p4d_attention_block){piece, piece, (2 * CP - CP_RANK) * piece, true};
	}
	s.workspace_bytes = p4d_attention_most(SM, &split, false);
	return s;
}

/* Of exactly so many bytes, as far as the cuda device is concerned, with something behind it. */
static unsigned char *workspace_of(const p4d_attention_shape *s)
{
	const uint64_t tile = P4D_ATTENTION_TILE, cpu = 4 * tile * (2 * tile + 5 * s->head_dim);
	unsigned char *workspace = keep((s->workspace_bytes > cpu ? s->workspace_bytes : cpu) + BEYOND);

	memset(workspace + s->workspace_bytes, 0x5a, BEYOND);
	return workspace;
}

static void untouched_beyond(const p4d_attention_shape *s, const unsigned char *workspace)
{
	finish(&device);
	for (int i = 0; i < BEYOND && !strcmp(device.name, "cuda"); i++)
		assert_int_equal(workspace[s->workspace_bytes + (uint64_t)i], 0x5a);
}

static void fused(sight what, uint64_t batch, uint64_t piece, uint64_t kv, uint64_t group, uint64_t d)
{
	p4d_attention_shape s = shape_of(what, batch, piece, kv, group, d);
	const uint64_t n = batch * s.queries, a = s.heads, own = n * s.query_stride;
	const uint64_t others = batch * s.keys * s.key_stride;
	char *qkv = elements(own), *apart = elements(others);
	char *k = what == WHOLE ? qkv + a * d * size_of(type) : apart, *v = k + kv * d * size_of(type);
	void *o = elements(n * a * d), *d_o = elements(n * a * d), *dqkv = elements(own);
	float *lse = reals(a * n), *sums = reals(a * n), *dq = reals(own), *dkv = reals(others);
	unsigned char *workspace = workspace_of(&s);
	const p4d_attention_split split = {
	    batch,           a, kv, d, what == WHOLE ? s.queries : CP * s.queries, what == WHOLE ? 1 : CP,
	    what == GATHERED};

	device.attention(&device, type, o, lse, qkv, k, v, &s, workspace);
	untouched_beyond(&s, workspace);
	record("attention", type, o, n * a * d);
	for (uint64_t i = 0; i < a * n; i++)
		lse[i] = lse[i] == -INFINITY ? -9 : lse[i];
	record("attention, lse", P4D_DT_FP32, lse, a * n);
	for (uint64_t i = 0; i < a * n; i++)
		lse[i] = lse[i] == -9 ? -INFINITY : lse[i];
	o = elements(n * a * d);
	s.output = o;
	s.workspace_bytes = p4d_attention_most(SM, &split, true);
	workspace = workspace_of(&s);
	device.attention_row_sums(&device, type, sums, d_o, o, n, a, d);
	if (what == WHOLE) {
		device.attention_gradient(&device, type, dqkv, keep(own * sizeof(float)), d_o, lse, sums, qkv,
					  &s, workspace);
		record("attention_gradient", type, dqkv, own);
	} else {
		device.attention_backward(&device, type, dq, dkv, dkv + kv * d, d_o, lse, sums, qkv, k, v, &s,
					  workspace);
		record("attention_backward, q", P4D_DT_FP32, dq, own);
		record("attention_backward, k v", P4D_DT_FP32, dkv, others);
	}
	untouched_beyond(&s, workspace);
}

static void fused_cases(void)
{
	for (int what = WHOLE; what <= GATHERED; what++) {
		fused((sight)what, 1, 16, 2, 2, 32);
		fused((sight)what, 2, 12, 2, 1, 16);
		fused((sight)what, 3, 8, 1, 3, 64);
	}
}

static void swiglus(uint64_t n, uint64_t f)
{
	void *gate_up = elements(n * 2 * f), *product = elements(n * f);

	device.swiglu(&device, type, product, gate_up, n, f);
	record("swiglu", type, product, n * f);
	product = elements(n * f);
	device.swiglu_backward(&device, type, gate_up, product, n, f);
	record("swiglu_backward", type, gate_up, n * 2 * f);
}

static void embeddings(uint64_t n, uint64_t h, uint64_t rows)
{
	void *table = elements(rows * h), *out = elements(n * h);
	float *dtable = reals(rows * h);
	int32_t *tokens = keep(n * sizeof(*tokens));

	/* few tokens, so that all come again, some beyond the table on either side */
	for (uint64_t i = 0; i < n; i++)
		tokens[i] = (int32_t)(i * i % 23) - 1;
	device.embed_backward(&device, type, dtable, out, tokens, n, h, 3, rows);
	record("embed_backward", P4D_DT_FP32, dtable, rows * h);
	device.embed(&device, type, out, table, tokens, n, h, 3, rows);
	record("embed", type, out, n * h);
}

static void cross_entropy(uint64_t n, uint64_t vocab)
{
	float *logits = reals(n * vocab), *maximum = reals(n), *sum = reals(n), *target = reals(n),
	      *most = reals(n);
	void *dlogits = elements(n * vocab);
	int32_t *labels = keep(n * sizeof(*labels));
	double *loss = keep(sizeof(*loss));

	for (uint64_t i = 0; i < n * vocab; i++)
		logits[i] *= i % 3 ? 4 : 40;
	for (uint64_t i = 0; i < n; i++)
		labels[i] = (int32_t)(i * 7 % (vocab + 5)) - 1;
	*loss = 2;
	device.statistics(&device, maximum, sum, target, logits, labels, n, vocab, 2);
	record("statistics, maximum", P4D_DT_FP32, maximum, n);
	record("statistics, sum", P4D_DT_FP32, sum, n);
	record("statistics, target", P4D_DT_FP32, target, n);
	device.losses(&device, loss, maximum, sum, target, labels, n, 0.01f);
	record_number("losses", loss);
	device.logits_gradient(&device, type, dlogits, logits, maximum, sum, labels, n, vocab, 2, 0.25f,
			       0.01f);
	record("logits_gradient", type, dlogits, n * vocab);
	for (uint64_t i = 0; i < n; i++)
		most[i] = maximum[i] + (float)(i % 5);
	device.rescale(&device, sum, maximum, most, n);
	record("rescale", P4D_DT_FP32, sum, n);
	device.statistics(&device, maximum, sum, target, logits, labels, n, 0, 2); /* a rank without rows */
	finish(&device);
	for (uint64_t i = 0; i < n; i++)
		assert_true(maximum[i] == -INFINITY && sum[i] == 0 && target[i] == 0);
}

static void arrays(uint64_t count)
{
	const p4d_adam adam = {0.01f, 0.9f, 0.95f, 1e-5f, 0.1f, 0.5f, 0.25f, 0.5f};
	void *a = elements(count), *b = elements(count), *y = elements(count);
	float *master = reals(count), *first = reals(count), *second = reals(count), *gradient = reals(count);
	double *squares = keep(sizeof(*squares));
	uint64_t *nonfinite = keep(sizeof(*nonfinite));

	device.add(&device, type, y, a, b, count);
	record("add", type, y, count);
	device.accumulate(&device, gradient, type, a, count);
	record("accumulate", P4D_DT_FP32, gradient, count);
	for (uint64_t i = 0; i < count; i++)
		second[i] *= second[i];
	gradient = reals(count);
	device.adam(&device, type, b, type == P4D_DT_BF16 ? master : NULL, first, second, gradient, count,
		    &adam);
	record("adam", type, b, count);
	record("adam, master", P4D_DT_FP32, master, count);
	record("adam, first moment", P4D_DT_FP32, first, count);
	record("adam, second moment", P4D_DT_FP32, second, count);
	*squares = 3;
	device.sum_squares(&device, squares, gradient, count);
	record_number("sum_squares", squares);
	if (count > 3) {
		gradient[0] = NAN;
		gradient[count - 1] = INFINITY;
		gradient[count / 2] = -INFINITY;
	}
	*nonfinite = 5;
	device.count_nonfinite(&device, nonfinite, gradient, count);
	finish(&device);
	assert_int_equal(*nonfinite, count > 3 ? 8 : 5);
	device.sum_squares(&device, squares, gradient, count);
	finish(&device);
	assert_true(!isfinite(*squares) == (count > 3));
	device.cast(&device, P4D_DT_BF16, y, P4D_DT_FP32, master, count / 2);
	record("cast", P4D_DT_BF16, y, count / 2);
	device.cast(&device, type, y, type, a, count);
	record("cast, same type", type, y, count);
}

static void rows_of(uint64_t rows, uint64_t columns, uint64_t apart)
{
	char *to = elements(rows * apart), *from = elements(rows * apart);
	const uint64_t e = size_of(type);

	device.copy_rows(&device, to, apart * e, from + (apart - columns) * e, apart * e, columns * e, rows);
	record("copy_rows", type, to, rows * apart);
}

static void other_cases(void)
{
	swiglus(1, 8);
	swiglus(3, 77);
	swiglus(2, 2064);
	embeddings(300, 40, 9);
	embeddings(30, 2064, 14);
	embeddings(5, 7, 30);
	cross_entropy(40, 24);
	cross_entropy(3, 301);
	cross_entropy(2, 9000);
	arrays(0);
	arrays(1);
	arrays(4000);
	arrays(40001);
	rows_of(5, 16, 32);
	rows_of(4, 3, 7);
}

/* With the shim, those of the cpu against themselves. */
static void products_of(uint64_t n, uint64_t out, uint64_t in)
{
	void *x = elements(n * in), *w = elements(out * in), *y = elements(n * out);
	float *dw = reals(out * in), *logits = reals(n * out);

	device.linear_weight(&device, type, dw, y, x, n, out, in);
	record("linear_weight", P4D_DT_FP32, dw, out * in);
	device.linear_logits(&device, type, logits, x, w, n, out, in);
	record("linear_logits", P4D_DT_FP32, logits, n * out);
	for (int accumulate = 0; accumulate < 2; accumulate++) {
		device.linear(&device, type, y, x, w, n, out, in, accumulate);
		record("linear", type, y, n * out);
		y = elements(n * out);
		device.linear_input(&device, type, x, y, w, n, out, in, accumulate);
		record("linear_input", type, x, n * in);
		x = elements(n * in);
	}
}

static void product_cases(void)
{
	products_of(64, 128, 256);
	products_of(100, 72, 1000);
	products_of(7, 33, 18);
	products_of(256, 512, 64);
}

static results run(void (*cases)(void), p4d_dtype of, uint64_t apart)
{
	results r = {.count = 0};

	recording = &r;
	state_of_numbers = 1;
	type = of;
	off = apart;
	cases();
	return r;
}

/* limit: of the largest number of a result */
static void compare(const results *got, const results *expected, double limit)
{
	assert_int_equal(got->count, expected->count);
	for (unsigned i = 0; i < got->count; i++) {
		const result *g = &got->at[i], *e = &expected->at[i];
		double largest = 0;
		assert_int_equal(g->count, e->count);
		for (uint64_t k = 0; k < e->count; k++)
			largest = fmax(largest, fabs((double)e->x[k]));
		for (uint64_t k = 0; k < e->count; k++) {
			const double off_by = fabs((double)g->x[k] - (double)e->x[k]);
			const double rounding = e->rounded ? fabs((double)e->x[k]) / 128 : 0;
			if (!(off_by <= limit * largest + rounding))
				fail_msg(
				    "%s (%s, off %d), element %llu of %llu: %.9g, not %.9g (largest %.3g)",
				    e->name, e->rounded ? "rounded" : "fp32", (int)off, (unsigned long long)k,
				    (unsigned long long)e->count, (double)g->x[k], (double)e->x[k], largest);
		}
	}
}

/* On a GPU: not the same bits again. */
static void same_bits(const results *a, const results *b)
{
	for (unsigned i = 0; i < a->count; i++)
		if (memcmp(a->at[i].x, b->at[i].x, a->at[i].count * sizeof(float)) != 0)
			fail_msg("%s depends on the order of threads", a->at[i].name);
}

/* A thread or block that reads what another has not yet written shows in another order, or at another time.
 */
static void run_again(void (*cases)(void), p4d_dtype of, const results *first)
{
#ifdef P4D_TEST_CUDA
	p4d_shim_set_order(P4D_SHIM_BACKWARD);
#endif
	results again = run(cases, of, 0);
#ifdef P4D_TEST_CUDA
	p4d_shim_set_order(P4D_SHIM_FORWARD);
#endif
	same_bits(first, &again);
	drop(&again);
}

static void check_cases(void (*cases)(void), double limit)
{
	static const p4d_dtype types[] = {P4D_DT_FP32, P4D_DT_BF16};
	void *workspace = make_memory(P4D_CPU_PRODUCT_BYTES);
	p4d_device cpu, cuda;

	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	cpu.lend(&cpu, workspace, P4D_CPU_PRODUCT_BYTES, NULL, 0);
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	for (size_t i = 0; i < 2; i += test_stride(2))
		for (uint64_t apart = 0; apart < 2; apart += test_stride(2)) {
			device = cpu;
			results expected = run(cases, types[i], apart);
			device = cuda;
			results forward = run(cases, types[i], apart);
			compare(&forward, &expected, limit);
			if (apart == 0)
				run_again(cases, types[i], &forward);
			drop(&expected);
			drop(&forward);
		}
	assert_int_equal(cuda.sync(&cuda, NULL), 0);
	cpu.close(&cpu);
	cuda.close(&cuda);
	drop_memory(workspace);
}

static void norm_kernels(void **state)
{
	(void)state;
	/* the cpu sums rows of 12,296 squares in fp32, in an order of the compiler's */
	check_cases(norm_cases, 2e-4);
}

static void heads_kernels(void **state)
{
	(void)state;
	check_cases(heads_cases, 1e-5);
}

static void attention_kernels(void **state)
{
	(void)state;
	check_cases(attention_cases, 1e-5);
}

/*
 * bf16 on both ways, so roundings are many. On a GPU by cuDNN, which also rounds probabilities; where it is
 * missing there is nothing to see.
 */
static void fused_attention(void **state)
{
#ifdef P4D_TEST_GPU
	const double limit = 1e-2;
#else
	const double limit = 4e-3;
#endif
	p4d_device cpu, cuda;

	(void)state;
	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	print_message("attention: %s\n", cuda.attention_text);
	if (strstr(cuda.attention_text, "own kernels")) {
		cpu.close(&cpu);
		cuda.close(&cuda);
		skip();
	}
	device = cpu;
	results expected = run(fused_cases, P4D_DT_BF16, 0);
	device = cuda;
	results got = run(fused_cases, P4D_DT_BF16, 0);
	compare(&got, &expected, limit);
	if (strstr(device.attention_text, "own kernels"))
		fail_msg("%s", device.attention_text);
	drop(&expected);
	drop(&got);
	cpu.close(&cpu);
	cuda.close(&cuda);
}

/* Attention of a shape that fused attention would take but for one thing; which is said. */
static void expect_own_kernels(p4d_dtype of, p4d_attention_shape s, uint64_t apart, const char *why)
{
	results r = {.count = 0};
	const uint64_t n = s.batch * s.queries, a = s.heads, d = s.head_dim;

	recording = &r;
	state_of_numbers = 1;
	type = of;
	off = apart;
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	s.query_position = s.key_position = places(s.queries, 0, 1);
	if (!strstr(device.attention_text, "own kernels")) {
		char *qkv = elements(n * s.query_stride), *k = qkv + a * d * size_of(type);
		void *o = elements(n * a * d), *workspace = keep(s.workspace_bytes);
		device.attention(&device, type, o, reals(a * n), qkv, k, k + s.kv_heads * d * size_of(type),
				 &s, workspace);
		finish(&device);
		if (!strstr(device.attention_text, why))
			fail_msg("\"%s\", not \"%s\"", device.attention_text, why);
	}
	device.close(&device);
	drop(&r);
}

static void what_is_not_fused(void **state)
{
	static const int32_t one[2 * 16]; /* document of all tokens */
	const p4d_attention_shape usual = shape_of(WHOLE, 2, 8, 2, 2, 16);
	p4d_attention_shape s = usual;

	(void)state;
	expect_own_kernels(P4D_DT_FP32, usual, 0, "own kernels (fused attention takes bf16 only)");
	expect_own_kernels(P4D_DT_BF16, usual, 1, "own kernels (operands are not aligned)");
	s.blocks = 0;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (which keys are seen is not known)");
	s = usual;
	s.query_document = s.key_document = one;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (documents are masked)");
	s = usual;
	s.workspace_bytes -= SM ? 1 : s.workspace_bytes;
	expect_own_kernels(P4D_DT_BF16, s, 0, "its workspace is too small)");
	s = usual;
	s.block[0].queries = 1;
	expect_own_kernels(P4D_DT_BF16, s, 0, "own kernels (a block is of one token)");
	s = shape_of(WHOLE, 2, 8, 2, 2, 12);
	s.query_stride += 8 - s.query_stride % 8;
	s.key_stride = s.query_stride;
	expect_own_kernels(P4D_DT_BF16, s, 0, "(no fused attention for heads of this size)");
}

static void products(void **state)
{
	(void)state;
	check_cases(product_cases, 1e-5);
}

static void other_kernels(void **state)
{
	(void)state;
	check_cases(other_cases, 1e-5);
}

/* A part of an array begins anywhere: its sum does not depend on where. */
static void sums_do_not_depend_on_addresses(void **state)
{
	enum { COUNT = 5000, PLACES = 9 };
	float *x = make_memory((COUNT + PLACES) * sizeof(*x));
	double *sums = make_memory(PLACES * sizeof(*sums));
	uint64_t random = 3;
	p4d_device cuda;

	(void)state;
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	for (int i = 0; i < PLACES; i++) {
		random = 3;
		for (int k = 0; k < COUNT; k++)
			x[i + k] = (float)number(&random) * 1.1f;
		sums[i] = 0;
		cuda.sum_squares(&cuda, &sums[i], x + i, COUNT);
		finish(&cuda);
		assert_true(sums[i] > 0 && sums[i] == sums[0]);
	}
	cuda.close(&cuda);
	drop_memory(x);
	drop_memory(sums);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(norm_kernels),      cmocka_unit_test(heads_kernels),
	    cmocka_unit_test(attention_kernels), cmocka_unit_test(other_kernels),
	    cmocka_unit_test(fused_attention),   cmocka_unit_test(what_is_not_fused),
	    cmocka_unit_test(products),          cmocka_unit_test(sums_do_not_depend_on_addresses),
	};

	if (getenv("P4D_TEST_ONLY"))
		cmocka_set_test_filter(getenv("P4D_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
