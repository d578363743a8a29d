/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls each operation of a device, on inputs that all types represent exactly, and records the results.
 * This file has no include guard, because it is included once per P4D_CPU_TYPE. CALL(operation, ...) calls
 * the operation in the device's table, in fp32 and in bf16.
 */
#include "device/cpu/cpu_operations.h"

#undef CALL
#undef ACCUMULATE
#undef PRODUCT
#undef LOAD
#undef STORE
#undef ROUNDED
#undef KEEP
#undef PUT
#undef FETCH
#if P4D_CPU_TYPE == 64
#define CALL(name, ...) OP(name)(__VA_ARGS__)
#define ACCUMULATE OP(accumulate)
#define PRODUCT(name, ...) OP(name)(NULL, __VA_ARGS__)
#define KEEP(bytes) keep(NULL, bytes)
#define PUT memcpy
#define FETCH memcpy
#else
#define CALL(name, ...) device.name(&device, P4D_CPU_TYPE == 16 ? P4D_DT_BF16 : P4D_DT_FP32, __VA_ARGS__)
#define ACCUMULATE(y, x, count) \
	device.accumulate(&device, y, P4D_CPU_TYPE == 16 ? P4D_DT_BF16 : P4D_DT_FP32, x, count)
#define PRODUCT CALL
#define KEEP(bytes) keep(&device, bytes)
#define PUT(to, from, bytes) put(&device, to, from, bytes)
#define FETCH(to, from, bytes) fetch(&device, to, from, bytes)
#endif
#if P4D_CPU_TYPE == 16
#define LOAD(x) (double)p4d_from_bf16(x)
#define STORE(x) p4d_to_bf16((float)(x))
#define ROUNDED true
#else
#define LOAD(x) (double)(x)
#define STORE(x) (REAL)(x)
#define ROUNDED false
#endif

/* Numbers of the type, in the host's memory. The caller frees them. */
static ELEMENT *OP(rounded)(uint64_t count, uint64_t seed)
{
	ELEMENT *x = malloc((count + 1) * sizeof(*x));
	double *from = numbers(count, seed);

	assert_non_null(x);
	for (uint64_t i = 0; i < count; i++)
		x[i] = STORE(from[i]);
	free(from);
	return x;
}

static REAL *OP(unrounded)(uint64_t count, uint64_t seed)
{
	REAL *x = malloc((count + 1) * sizeof(*x));
	double *from = numbers(count, seed);

	assert_non_null(x);
	for (uint64_t i = 0; i < count; i++)
		x[i] = (REAL)from[i];
	free(from);
	return x;
}

/* Copies numbers that the host computed to the device's memory. */
static void *OP(kept)(void *host, uint64_t bytes)
{
	void *x = KEEP(bytes);

	PUT(x, host, bytes);
	free(host);
	return x;
}

static ELEMENT *OP(elements)(uint64_t count, uint64_t seed)
{
	return OP(kept)(OP(rounded)(count, seed), count * sizeof(ELEMENT));
}

static REAL *OP(reals)(uint64_t count, uint64_t seed)
{
	return OP(kept)(OP(unrounded)(count, seed), count * sizeof(REAL));
}

/* Makes an array on the host with from(i) as element i. */
#define WHOLE(name, count, from) \
	int32_t *name = malloc(((count) + 1) * sizeof(*name)); \
	assert_non_null(name); \
	for (uint64_t i = 0; i < (count); i++) \
		name[i] = (int32_t)(from); \
	name = OP(kept)(name, (count) * sizeof(*name))

static ELEMENT *OP(fetched_elements)(const ELEMENT *x, uint64_t count)
{
	ELEMENT *host = malloc((count + 1) * sizeof(*host));

	assert_non_null(host);
	FETCH(host, x, count * sizeof(*host));
	return host;
}

static REAL *OP(fetched_reals)(const REAL *x, uint64_t count)
{
	REAL *host = malloc((count + 1) * sizeof(*host));

	assert_non_null(host);
	FETCH(host, x, count * sizeof(*host));
	return host;
}

static void OP(record_elements)(const char *name, const ELEMENT *x, uint64_t count)
{
	ELEMENT *host = OP(fetched_elements)(x, count);

	for (uint64_t i = 0; i < count; i++)
		note(name, LOAD(host[i]), ROUNDED, i == 0);
	free(host);
}

static void OP(record_reals)(const char *name, const REAL *x, uint64_t count)
{
	REAL *host = OP(fetched_reals)(x, count);

	for (uint64_t i = 0; i < count; i++)
		note(name, (double)host[i], false, i == 0);
	free(host);
}

static void OP(products)(uint64_t n, uint64_t out, uint64_t in)
{
	ELEMENT *x = OP(elements)(n * in, 1), *w = OP(elements)(out * in, 2), *y = OP(elements)(n * out, 3);
	REAL *dw = OP(reals)(out * in, 4);

	ELEMENT *residual = OP(elements)(n * out, 9);

	PRODUCT(linear, y, residual, x, w, n, out, in);
	OP(record_elements)("linear, residual", y, n * out);
	y = OP(elements)(n * out, 3);
	for (int accumulate = 1; accumulate >= 0; accumulate--) {
		PRODUCT(linear_weight, dw, y, x, n, out, in, accumulate);
		OP(record_reals)("linear_weight", dw, out * in);
		PRODUCT(linear, y, accumulate ? y : NULL, x, w, n, out, in);
		OP(record_elements)("linear", y, n * out);
		/* new numbers, because an earlier result is already rounded to the type */
		y = OP(elements)(n * out, 3);
		PRODUCT(linear_input, x, y, w, n, out, in, accumulate);
		OP(record_elements)("linear_input", x, n * in);
		x = OP(elements)(n * in, 1);
	}
	ELEMENT *wide = OP(elements)(n * (out + 3), 6);
	for (int accumulate = 0; accumulate < 2; accumulate++) {
		PRODUCT(columns, wide + 1, out + 3, x, w, n, out, in, 0.5f, accumulate);
		OP(record_elements)("columns", wide, n * (out + 3));
		wide = OP(elements)(n * (out + 3), 6);
		PRODUCT(columns_weight, dw, wide + 2, out + 3, x, n, out, in, 0.5f, accumulate);
		OP(record_reals)("columns_weight", dw, out * in);
	}
	PRODUCT(columns_input, x, wide + 2, out + 3, w, n, out, in, 0.5f);
	OP(record_elements)("columns_input", x, n * in);
}

static void OP(norms)(uint64_t n, uint64_t h)
{
	ELEMENT *x = OP(elements)(n * h, 1), *weight = OP(elements)(h, 2), *y = OP(elements)(n * h, 3);
	ELEMENT *dx = OP(elements)(n * h, 4), *dy = OP(elements)(n * h, 5);
	REAL *rstd = OP(reals)(n, 6), *dweight = OP(reals)(h, 7);

	CALL(norm_backward, dx, dweight, dy, x, weight, rstd, n, h);
	OP(record_elements)("norm_backward", dx, n * h);
	OP(record_reals)("norm_backward, weight", dweight, h);
	CALL(norm, y, rstd, x, weight, n, h, 1e-5f);
	OP(record_elements)("norm", y, n * h);
	OP(record_reals)("norm, rstd", rstd, n);
	CALL(add, y, x, dy, n * h);
	CALL(add, x, x, dy, n * h);
	OP(record_elements)("add", y, n * h);
	OP(record_elements)("add, in place", x, n * h);
	ACCUMULATE(dweight, weight, h);
	OP(record_reals)("accumulate", dweight, h);
}

static void OP(attention_heads)(uint64_t n, uint64_t a, uint64_t k, uint64_t d, bool norms)
{
	const uint64_t columns = (a + 2 * k) * d, length = n > 2 ? n / 2 : 1;
	ELEMENT *qkv = OP(elements)(n * columns, 1), *left = OP(elements)(n * columns, 2);
	ELEMENT *dqkv = OP(elements)(n * columns, 3), *bias = OP(elements)(columns, 4);
	ELEMENT *weight = OP(rounded)(2 * d, 5);
	REAL *rstd = OP(reals)(n * (a + k), 6), *dbias = OP(reals)(columns, 7),
	     *dweight = OP(reals)(2 * d, 8);
	float *rope = malloc(length * d * sizeof(*rope));

	assert_non_null(rope);
	for (uint64_t i = 0; i < length * d; i++)
		rope[i] = (float)(i % 7) / 8 - 0.5f;
	rope = OP(kept)(rope, length * d * sizeof(*rope));
	for (uint64_t i = 0; i < 2 * d; i++)
		weight[i] = norms && LOAD(weight[i]) == 0 ? STORE(1) : weight[i];
	weight = OP(kept)(weight, 2 * d * sizeof(*weight));
	p4d_heads heads = {.n = n, .length = length, .heads = a, .kv_heads = k, .head_dim = d, .rope = rope};
	if (norms) {
		heads.bias = bias;
		heads.query_weight = weight;
		heads.key_weight = weight + d;
		heads.epsilon = 1e-6f;
	}
	CALL(heads_backward, dqkv, left, norms ? rstd : NULL, &heads, norms ? dbias : NULL, dweight,
	     dweight + d);
	OP(record_elements)("heads_backward", dqkv, n * columns);
	ELEMENT *added = OP(fetched_elements)(dqkv, n * columns);
	REAL *before = OP(fetched_reals)(dbias, columns);
	for (uint64_t i = 0; i < (norms ? n * columns : 0); i++)
		before[i % columns] -= (REAL)LOAD(added[i]);
	free(added);
	OP(record_reals)("heads_backward, bias", OP(kept)(before, columns * sizeof(REAL)), columns);
	OP(record_reals)("heads_backward, weights", dweight, 2 * d);
	CALL(heads, qkv, norms ? rstd : NULL, &heads);
	OP(record_elements)("heads", qkv, n * columns);
	OP(record_reals)("heads, rstd", rstd, n * (a + k));
}

static void OP(attentions)(uint64_t queries, uint64_t keys, bool documents)
{
	enum { B = 2, A = 4, K = 2, D = 6, COLUMNS = A * D, KEY_COLUMNS = 2 * K * D };
	const uint64_t n = B * queries;
	ELEMENT *q = OP(elements)(n * COLUMNS, 1), *kv = OP(elements)(B * keys * KEY_COLUMNS, 2);
	ELEMENT *o = OP(elements)(n * COLUMNS, 3), *d_o = OP(elements)(n * COLUMNS, 4);
	REAL *lse = OP(reals)(n * A, 5), *sums = OP(reals)(n * A, 6), *total = OP(reals)(n * COLUMNS, 7);
	REAL *dq = OP(reals)(n * COLUMNS, 8), *dkv = OP(reals)(B * keys * KEY_COLUMNS, 9);
	REAL *total_lse = OP(reals)(n * A, 10);
	/* the first query is before all keys and sees none */
	WHOLE(position, queries + keys, i < queries ? i : i - queries + 1);
	WHOLE(document, B * (queries + keys), i / 90);
	void *workspace = KEEP(P4D_ATTENTION_TILE * (2 * P4D_ATTENTION_TILE + 5 * D) * sizeof(REAL));
	const p4d_attention_shape shape = {.batch = B,
					   .queries = queries,
					   .keys = keys,
					   .heads = A,
					   .kv_heads = K,
					   .head_dim = D,
					   .query_position = position,
					   .key_position = position + queries,
					   .query_document = documents ? document : NULL,
					   .key_document = documents ? document + B * queries : NULL,
					   .query_stride = COLUMNS,
					   .key_stride = KEY_COLUMNS,
					   .scale = 1.5f};

	/* uses the real log-sum-exp of these scores, so that probabilities stay below 1 */
	CALL(attention, o, lse, q, kv, kv + K * D, &shape, workspace);
	OP(record_elements)("attention", o, n * COLUMNS);
	OP(record_reals)("attention, lse", lse, n * A);
	CALL(attention_backward, dq, dkv, dkv + K * D, d_o, lse, sums, q, kv, kv + K * D, &shape, workspace);
	OP(record_reals)("attention_backward, q", dq, n * COLUMNS);
	OP(record_reals)("attention_backward, k v", dkv, B * keys * KEY_COLUMNS);
	CALL(attention_row_sums, sums, d_o, q, n, A, D);
	OP(record_reals)("attention_row_sums", sums, n * A);
	CALL(attention_merge, total, total_lse, d_o, sums, n, A, D, true);
	CALL(attention_merge, total, total_lse, q, dq, n, A, D, false);
	OP(record_reals)("attention_merge", total, n * COLUMNS);
	OP(record_reals)("attention_merge, lse", total_lse, n * A);
}

static void OP(swiglus)(uint64_t n, uint64_t f)
{
	ELEMENT *scaled = OP(rounded)(n * 2 * f, 1), *again = KEEP(n * 2 * f * sizeof(*again));

	for (uint64_t i = 0; i < n * 2 * f; i++)
		scaled[i] = STORE(LOAD(scaled[i]) * (i % 5 ? 4 : 64));
	PUT(again, scaled, n * 2 * f * sizeof(*again));
	ELEMENT *gate_up = OP(kept)(scaled, n * 2 * f * sizeof(*gate_up)), *product = OP(elements)(n * f, 2);
	CALL(swiglu, product, gate_up, n, f);
	OP(record_elements)("swiglu", product, n * f);
	product = OP(elements)(n * f, 2);
	ELEMENT *act = OP(elements)(n * f, 3);
	CALL(swiglu_backward, gate_up, NULL, product, n, f);
	OP(record_elements)("swiglu_backward", gate_up, n * 2 * f);
	CALL(swiglu_backward, again, act, product, n, f);
	OP(record_elements)("swiglu_backward, with the product", again, n * 2 * f);
	OP(record_elements)("swiglu_backward, product", act, n * f);
}

static void OP(embeddings)(uint64_t n, uint64_t h)
{
	enum { FIRST = 3, ROWS = 6 };
	ELEMENT *table = OP(elements)(ROWS * h, 1), *out = OP(elements)(n * h, 2);
	REAL *dtable = OP(reals)(ROWS * h, 3);
	WHOLE(tokens, n, (int32_t)(i * 5 % 13) - 1);

	CALL(embed_backward, dtable, out, tokens, n, h, FIRST, ROWS);
	OP(record_reals)("embed_backward", dtable, ROWS * h);
	CALL(embed, out, table, tokens, n, h, FIRST, ROWS);
	OP(record_elements)("embed", out, n * h);
}

/* Rows of logits with padding at their ends. */
static void OP(logit_gradients)(uint64_t n, uint64_t vocab, float z_loss)
{
	const uint64_t stride = vocab + 3;
	ELEMENT *logits = OP(elements)(n * stride, 1), *whole = OP(elements)(n * stride, 1);
	REAL *maximum = OP(reals)(n, 3), *sum = OP(reals)(n, 4), *target = OP(reals)(n, 5);
	WHOLE(labels, n, (int32_t)(i * 3 % (vocab + 4)) - 1);

	CALL(softmax_sums, maximum, sum, target, logits, stride, labels, n, vocab, 2);
	OP(record_reals)("softmax_sums, maximum", maximum, n);
	OP(record_reals)("softmax_sums, sum", sum, n);
	OP(record_reals)("softmax_sums, target", target, n);
	REAL *sums = OP(fetched_reals)(sum, n), *ones = OP(fetched_reals)(maximum, n);
	for (uint64_t i = 0; i < n; i++) {
		ones[i] = 1;
		sums[i] = 2 + sums[i];
	}
	sum = OP(kept)(sums, n * sizeof(*sum));
	maximum = OP(kept)(ones, n * sizeof(*maximum));
	CALL(logits_gradient, logits, stride, maximum, sum, labels, n, vocab, 2, 0.5f, z_loss);
	OP(record_elements)("logits_gradient", logits, n * stride);
	CALL(cross_entropy, maximum, sum, target, whole, stride, labels, n, vocab, 0.5f, z_loss);
	OP(record_reals)("cross_entropy, maximum", maximum, n);
	OP(record_reals)("cross_entropy, sum", sum, n);
	OP(record_reals)("cross_entropy, target", target, n);
	OP(record_elements)("cross_entropy", whole, n * stride);
}

static void OP(optimizer)(uint64_t count)
{
	const p4d_adam adam = {.learning_rate = 0.01f,
			       .beta1 = 0.9f,
			       .beta2 = 0.95f,
			       .epsilon = 1e-5f,
			       .weight_decay = 0.1f,
			       .correction1 = 0.5f,
			       .correction2 = 0.25f,
			       .gradient_scale = 0.5f};
	ELEMENT *parameter = OP(elements)(count, 1);
	REAL *master = OP(reals)(count, 1), *first = OP(reals)(count, 2), *second = OP(unrounded)(count, 3);
	REAL *gradient = OP(reals)(count, 4);

	for (uint64_t i = 0; i < count; i++)
		second[i] = second[i] * second[i];
	second = OP(kept)(second, count * sizeof(*second));
	for (int step = 0; step < 2; step++)
		CALL(adam, parameter, P4D_CPU_TYPE == 16 ? master : NULL, first, second, gradient, count,
		     &adam);
	OP(record_elements)("adam", parameter, count);
	OP(record_reals)("adam, first moment", first, count);
	OP(record_reals)("adam, second moment", second, count);
}

static void OP(all)(void)
{
	static const uint64_t sizes[][3] = {{1, 1, 1},    {0, 3, 2},   {7, 33, 18},
					    {3, 5, 1100}, {530, 3, 4}, {515, 3, 600}};

	for (int i = 0; i < 6; i++)
		OP(products)(sizes[i][0], sizes[i][1], sizes[i][2]);
	for (uint64_t n = 0; n < 4; n++) {
		OP(norms)(n, 5 + 40 * n);
		OP(swiglus)(n, 1 + 30 * n);
		OP(embeddings)(5 * n, 1 + 6 * n);
		OP(logit_gradients)(4 * n, 7 + 11 * n, (float)n / 8);
		OP(optimizer)(n * 37);
		OP(attention_heads)(2 * n, 3 * n + 1, n + 1, 4 + 2 * n, n & 1);
	}
	OP(attentions)(1, 1, false);
	OP(attentions)(65, 130, false);
	OP(attentions)(100, 3, true);
}
