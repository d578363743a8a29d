/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares kernels with the cpu device, on shapes that reach each path of a kernel: rows with and without
 * a multiple of 16 bytes, unaligned addresses, more rows than partial sums, and rows that are too long for
 * registers. In fp32, results may differ by 1e-5 of the result's largest number. In bf16, they may also
 * differ by one rounding.
 */
#include "support/support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/kernel_cases.h"
#include "support/kernel_optimizers.h"
#include "support/numbers.h"

/* plus: 0, or 1 for norms that add 1 to their weights. */
static void heads_of(kernel_run *run, uint64_t n, uint64_t a, uint64_t k, uint64_t d, bool bias, bool qk_norm,
		     float plus)
{
	p4d_device *const device = run->device;
	const uint64_t columns = (a + 2 * k) * d, length = n > 3 ? n / 3 : n;
	void *qkv = run_elements(run, n * columns), *dqkv = run_elements(run, n * columns);
	float *rstd = run_reals(run, n * (a + k)), *dbias = run_reals(run, columns),
	      *dquery = run_reals(run, d), *dkey = run_reals(run, d);
	p4d_heads heads = {.n = n,
			   .length = length,
			   .heads = a,
			   .kv_heads = k,
			   .head_dim = d,
			   .bias = bias ? run_elements(run, columns) : NULL,
			   .query_weight = qk_norm ? run_elements(run, d) : NULL,
			   .key_weight = qk_norm ? run_elements(run, d) : NULL,
			   .epsilon = 1e-5f,
			   .plus = plus,
			   .rope = run_reals(run, length * d)};

	device->heads(device, run->type, qkv, qk_norm ? rstd : NULL, &heads);
	record_result(run, "heads", run->type, qkv, n * columns);
	record_result(run, "heads, rstd", P4D_DT_FP32, rstd, n * (a + k));
	qkv = run_elements(run, n * columns);
	rstd = run_reals(run, n * (a + k));
	device->heads_backward(device, run->type, dqkv, qkv, qk_norm ? rstd : NULL, &heads,
			       bias ? dbias : NULL, qk_norm ? dquery : NULL, qk_norm ? dkey : NULL);
	record_result(run, "heads_backward", run->type, dqkv, n * columns);
	record_result(run, "heads_backward, bias", P4D_DT_FP32, dbias, columns);
	record_result(run, "heads_backward, query weight", P4D_DT_FP32, dquery, d);
	record_result(run, "heads_backward, key weight", P4D_DT_FP32, dkey, d);
}

/* One norm over all query heads and one over all key heads. Another rank has the other half of the heads. */
static void wide_heads(kernel_run *run, uint64_t n, uint64_t a, uint64_t k, uint64_t d)
{
	p4d_device *const device = run->device;
	const uint64_t columns = (a + 2 * k) * d, count = n * P4D_WIDE_NORMS;
	void *qkv = run_elements(run, n * columns), *dqkv = run_elements(run, n * columns);
	float *sums = run_reals(run, count), *dots = run_reals(run, count), *dquery = run_reals(run, a * d),
	      *dkey = run_reals(run, k * d);
	const p4d_heads heads = {.n = n,
				 .length = n,
				 .heads = a,
				 .kv_heads = k,
				 .head_dim = d,
				 .wide = true,
				 .query_width = 2 * a * d,
				 .key_width = 2 * k * d,
				 .query_weight = run_elements(run, a * d),
				 .key_weight = run_elements(run, k * d),
				 .epsilon = 1e-5f,
				 .dots = dots,
				 .rope = run_reals(run, n * d)};

	device->head_sums(device, run->type, sums, qkv, qkv, &heads);
	record_result(run, "head_sums", P4D_DT_FP32, sums, count);
	device->heads(device, run->type, qkv, sums, &heads);
	record_result(run, "heads, wide", run->type, qkv, n * columns);
	qkv = run_elements(run, n * columns);
	device->heads_backward(device, run->type, dqkv, qkv, sums, &heads, NULL, dquery, dkey);
	record_result(run, "heads_backward, wide", run->type, dqkv, n * columns);
	record_result(run, "heads_backward, wide, query weight", P4D_DT_FP32, dquery, a * d);
	record_result(run, "heads_backward, wide, key weight", P4D_DT_FP32, dkey, k * d);
}

static void heads_cases(kernel_run *run)
{
	static const uint64_t sizes[] = {2, 6, 16, 80, 128, 256};

	for (int i = 0; i < 6; i++) {
		heads_of(run, 7, 3, 1, sizes[i], false, false, 0);
		heads_of(run, 70, 2, 2, sizes[i], i % 2, true, (float)(i % 3 == 1));
		heads_of(run, 3, 4, 2, sizes[i], true, false, 0);
		wide_heads(run, 70, 3, 2, sizes[i]);
	}
}

static void biases(kernel_run *run, uint64_t n, uint64_t h)
{
	p4d_device *const device = run->device;
	void *y = run_elements(run, n * h), *x = run_elements(run, n * h), *bias = run_elements(run, h);
	float *dbias = run_reals(run, h);

	device->add_bias(device, run->type, y, bias, n, h);
	record_result(run, "add_bias", run->type, y, n * h);
	device->bias_backward(device, run->type, dbias, x, n, h);
	record_result(run, "bias_backward", P4D_DT_FP32, dbias, h);
	device->scale(device, run->type, x, 0.22f, n * h);
	record_result(run, "scale", run->type, x, n * h);
	x = run_elements(run, n * h);
	y = run_elements(run, n * h);
	device->add_scaled(device, run->type, y, y, x, 0.75f, n * h);
	record_result(run, "add_scaled", run->type, y, n * h);
	device->add_scaled(device, run->type, y, NULL, x, 0.75f, n * h);
	record_result(run, "add_scaled, to nothing", run->type, y, n * h);
}

static void bias_cases(kernel_run *run)
{
	biases(run, 1, 8);
	biases(run, 300, 40); /* more rows than partial sums */
	biases(run, 5, 129);
	biases(run, 3, 6152);
}

typedef void gated(p4d_device *device, p4d_dtype type, void *act, const void *gate_up, uint64_t n,
		   uint64_t f);
typedef void gated_backward(p4d_device *device, p4d_dtype type, void *gate_up, void *act, const void *dact,
			    uint64_t n, uint64_t f);

/* inputs: number of matrices with f columns that the activation reads: 2 for gate and up, 1 for up only. */
static void activations(kernel_run *run, gated *forward, gated_backward *backward, uint64_t inputs,
			uint64_t n, uint64_t f)
{
	p4d_device *const device = run->device;
	void *gate_up = run_elements(run, n * inputs * f), *act = run_elements(run, n * f);

	forward(device, run->type, act, gate_up, n, f);
	record_result(run, "activation", run->type, act, n * f);
	act = run_elements(run, n * f);
	backward(device, run->type, gate_up, NULL, act, n, f);
	record_result(run, "activation, backward", run->type, gate_up, n * inputs * f);
	void *product = run_elements(run, n * f);
	gate_up = run_elements(run, n * inputs * f);
	backward(device, run->type, gate_up, product, act, n, f);
	record_result(run, "activation, backward with the result", run->type, gate_up, n * inputs * f);
	record_result(run, "activation, result", run->type, product, n * f);
}

static void activation_cases(kernel_run *run, uint64_t n, uint64_t f)
{
	p4d_device *const device = run->device;

	activations(run, device->swiglu, device->swiglu_backward, 2, n, f);
	activations(run, device->geglu, device->geglu_backward, 2, n, f);
	activations(run, device->gelu, device->gelu_backward, 1, n, f);
}

static void embeddings(kernel_run *run, uint64_t n, uint64_t h, uint64_t rows)
{
	p4d_device *const device = run->device;
	void *table = run_elements(run, rows * h), *out = run_elements(run, n * h);
	float *dtable = run_reals(run, rows * h);
	int32_t host[300], *tokens = run_memory(run, n * sizeof(*tokens));

	/* few different tokens, so that each occurs several times; some are below or above this rank's
	 * rows of the table */
	assert_true(n <= 300);
	for (uint64_t i = 0; i < n; i++)
		host[i] = (int32_t)(i * i % 23) - 1;
	put(device, tokens, host, n * sizeof(*tokens));
	device->embed_backward(device, run->type, dtable, out, tokens, n, h, 3, rows);
	record_result(run, "embed_backward", P4D_DT_FP32, dtable, rows * h);
	device->embed(device, run->type, out, table, tokens, n, h, 3, rows);
	record_result(run, "embed", run->type, out, n * h);
}

/* Cross-entropy with rows that are padded to a multiple of 16 bytes, and with rows that are not. The
 * padding must not change. */
static void cross_entropy(kernel_run *run, uint64_t n, uint64_t vocab, uint64_t stride)
{
	p4d_device *const device = run->device;
	enum { MOST = 40 };
	float *maximum = run_reals(run, n), *sum = run_reals(run, n), *target = run_reals(run, n),
	      *most = run_reals(run, n), found[3][MOST];
	int32_t of[MOST];
	const double before = 2;
	void *logits = run_elements(run, n * stride), *whole = run_elements(run, n * stride);
	int32_t *labels = run_memory(run, n * sizeof(*labels));
	assert_true(n <= MOST);
	double *loss = run_memory(run, sizeof(*loss));

	/* logits are multiplied by 4, and those of the first row by more */
	for (int i = 0; i < 2; i++) {
		device->add(device, run->type, logits, logits, logits, n * stride);
		device->add(device, run->type, whole, whole, whole, n * stride);
	}
	device->add(device, run->type, logits, logits, logits, stride);
	device->add(device, run->type, whole, whole, whole, stride);
	for (uint64_t i = 0; i < n; i++)
		of[i] = (int32_t)(i * 7 % (vocab + 5)) - 1;
	put(device, labels, of, n * sizeof(*labels));
	put(device, loss, &before, sizeof(before));
	device->softmax_sums(device, run->type, maximum, sum, target, logits, stride, labels, n, vocab, 2);
	record_result(run, "softmax, maximum", P4D_DT_FP32, maximum, n);
	record_result(run, "softmax, sum", P4D_DT_FP32, sum, n);
	record_result(run, "softmax, target", P4D_DT_FP32, target, n);
	device->losses(device, loss, maximum, sum, target, labels, n, 0.01f);
	record_number(run, "losses", loss);
	device->logits_gradient(device, run->type, logits, stride, maximum, sum, labels, n, vocab, 2, 0.25f,
				0.01f);
	record_result(run, "logits_gradient", run->type, logits, n * stride);
	fetch(device, found[0], maximum, n * sizeof(float));
	for (uint64_t i = 0; i < n; i++)
		found[0][i] += (float)(i % 5);
	put(device, most, found[0], n * sizeof(float));
	device->rescale(device, sum, maximum, most, n);
	record_result(run, "rescale", P4D_DT_FP32, sum, n);
	device->cross_entropy(device, run->type, maximum, sum, target, whole, stride, labels, n, vocab, 0.25f,
			      0.01f);
	record_result(run, "cross_entropy, maximum", P4D_DT_FP32, maximum, n);
	record_result(run, "cross_entropy, sum", P4D_DT_FP32, sum, n);
	record_result(run, "cross_entropy, target", P4D_DT_FP32, target, n);
	record_result(run, "cross_entropy", run->type, whole, n * stride);
	device->softmax_sums(device, run->type, maximum, sum, target, logits, stride, labels, n, 0,
			     2); /* the call for a rank that has no columns of the vocabulary */
	fetch(device, found[0], maximum, n * sizeof(float));
	fetch(device, found[1], sum, n * sizeof(float));
	fetch(device, found[2], target, n * sizeof(float));
	for (uint64_t i = 0; i < n; i++)
		assert_true(found[0][i] == -INFINITY && found[1][i] == 0 && found[2][i] == 0);
}

/* Logits with a soft cap. Another rank has the first two columns. */
static void capped_logits(kernel_run *run, uint64_t n, uint64_t vocab, uint64_t stride)
{
	p4d_device *const device = run->device;
	enum { MOST = 40 };
	float *maximum = run_reals(run, n), *sum = run_reals(run, n), *target = run_reals(run, n);
	void *logits = run_elements(run, n * stride);
	int32_t of[MOST], *labels = run_memory(run, n * sizeof(*labels));

	assert_true(n <= MOST);
	for (uint64_t i = 0; i < n; i++)
		of[i] = (int32_t)(i * 7 % (vocab + 5)) - 1;
	put(device, labels, of, n * sizeof(*labels));
	device->soft_cap(device, run->type, logits, stride, n, vocab, 0.75f);
	record_result(run, "soft_cap", run->type, logits, n * stride);
	logits = run_elements(run, n * stride);
	device->scale(device, run->type, logits, 0.5f, n * stride);
	device->softmax_sums(device, run->type, maximum, sum, target, logits, stride, labels, n, vocab, 2);
	device->capped_gradient(device, run->type, logits, stride, maximum, sum, labels, n, vocab, 2, 0.25f,
				0.01f, 3);
	record_result(run, "capped_gradient", run->type, logits, n * stride);
}

/* Pairs of answers in `sequences` sequences, which also have tokens outside of the answers. */
static void pairs(kernel_run *run, uint64_t sequences, uint64_t n, uint64_t columns)
{
	p4d_device *const device = run->device;
	enum { MOST = 1024 };
	const uint64_t count = sequences * n;
	float *statistics[3], *factors = run_reals(run, count);
	float above[MOST];
	double host[3 * MOST], *sums = run_memory(run, 2 * sequences * sizeof(*sums)),
			       *reference = run_memory(run, 2 * sequences * sizeof(*sums)),
			       *totals = run_memory(run, 3 * sizeof(*totals));
	int32_t number[2][MOST], *labels = run_memory(run, count * sizeof(*labels)),
				 *documents = run_memory(run, count * sizeof(*documents));
	void *rows = run_elements(run, count * (columns + 3));

	assert_true(count <= MOST);
	for (int i = 0; i < 3; i++)
		statistics[i] = run_reals(run, count);
	for (uint64_t i = 0; i < count; i++) {
		above[i] = 1 + (float)(i % 11);
		number[0][i] = i % 5 ? 1 : -1;
		number[1][i] = (int32_t)(i % n * 3 / n);
		host[i] = (double)(i % 7) - 3;
	}
	put(device, statistics[1], above, count * sizeof(*above));
	put(device, labels, number[0], count * sizeof(*labels));
	put(device, documents, number[1], count * sizeof(*documents));
	put(device, reference, host, 2 * sequences * sizeof(*reference));
	put(device, totals, host, 3 * sizeof(*totals));
	device->pair_sums(device, run->type, sums, statistics[0], statistics[1], statistics[2], labels,
			  documents, sequences, n);
	for (uint64_t i = 0; i < 2 * sequences; i++)
		record_number(run, "pair_sums", sums + i);
	device->pair_factors(device, run->type, factors, totals, sums, reference, documents, sequences, n,
			     0.1f);
	record_result(run, "pair_factors", P4D_DT_FP32, factors, count);
	for (uint64_t i = 0; i < 3; i++)
		record_number(run, "pair_factors, totals", totals + i);
	factors = run_reals(run, count);
	device->scale_rows(device, run->type, rows, columns + 3, factors, count, columns);
	record_result(run, "scale_rows", run->type, rows, count * (columns + 3));
}

static void arrays(kernel_run *run, uint64_t count)
{
	p4d_device *const device = run->device;
	const p4d_adam adam = {0.01f, 0.9f, 0.95f, 1e-5f, 0.1f, 0.5f, 0.25f, 0.5f};
	void *a = run_elements(run, count), *b = run_elements(run, count), *y = run_elements(run, count);
	float *master = run_reals(run, count), *first = run_reals(run, count),
	      *second = run_reals(run, count), *gradient = run_reals(run, count);
	double *squares = run_memory(run, sizeof(*squares));
	uint64_t *nonfinite = run_memory(run, sizeof(*nonfinite));

	device->add(device, run->type, y, a, b, count);
	record_result(run, "add", run->type, y, count);
	device->accumulate(device, gradient, run->type, a, count);
	record_result(run, "accumulate", P4D_DT_FP32, gradient, count);
	kernel_square(run, second, count);
	gradient = run_reals(run, count);
	device->adam(device, run->type, b, run->type == P4D_DT_BF16 ? master : NULL, first, second, gradient,
		     count, &adam);
	record_result(run, "adam", run->type, b, count);
	record_result(run, "adam, master", P4D_DT_FP32, master, count);
	record_result(run, "adam, first moment", P4D_DT_FP32, first, count);
	record_result(run, "adam, second moment", P4D_DT_FP32, second, count);
	const p4d_rounding rounding = {.key = 7, .first = 3, .columns = 13, .stride = 29, .origin = 5};
	void *half[] = {run_memory(run, 2 * (count + run->off)), run_memory(run, 2 * (count + run->off))};
	uint16_t *const m = (uint16_t *)half[0] + run->off, *const v = (uint16_t *)half[1] + run->off;
	/* new numbers, because the devices have rounded the old ones differently */
	first = run_reals(run, count);
	second = run_reals(run, count);
	kernel_square(run, second, count);
	device->cast(device, P4D_DT_BF16, m, P4D_DT_FP32, first, count);
	device->cast(device, P4D_DT_BF16, v, P4D_DT_FP32, second, count);
	device->adam_half(device, run->type, b, run->type == P4D_DT_BF16 ? master : NULL, m, v, gradient,
			  count, &adam, &rounding);
	record_result(run, "adam_half", run->type, b, count);
	record_result(run, "adam_half, master", P4D_DT_FP32, master, count);
	record_result(run, "adam_half, first moment", P4D_DT_BF16, m, count);
	record_result(run, "adam_half, second moment", P4D_DT_BF16, v, count);
	kernel_bytes(run, count);
	kernel_muon(run, count);
	double of_squares = 3;
	put(device, squares, &of_squares, sizeof(of_squares));
	device->sum_squares(device, squares, gradient, count);
	record_number(run, "sum_squares", squares);
	if (count > 3) {
		static const float wrong[] = {NAN, INFINITY, -INFINITY};
		put(device, gradient, &wrong[0], sizeof(float));
		put(device, gradient + count - 1, &wrong[1], sizeof(float));
		put(device, gradient + count / 2, &wrong[2], sizeof(float));
	}
	uint64_t wrong_ones = 5;
	put(device, nonfinite, &wrong_ones, sizeof(wrong_ones));
	device->count_nonfinite(device, nonfinite, gradient, count);
	fetch(device, &wrong_ones, nonfinite, sizeof(wrong_ones));
	assert_int_equal(wrong_ones, count > 3 ? 8 : 5);
	device->sum_squares(device, squares, gradient, count);
	fetch(device, &of_squares, squares, sizeof(of_squares));
	assert_true(!isfinite(of_squares) == (count > 3));
	device->cast(device, P4D_DT_BF16, y, P4D_DT_FP32, master, count / 2);
	record_result(run, "cast", P4D_DT_BF16, y, count / 2);
	device->cast(device, run->type, y, run->type, a, count);
	record_result(run, "cast, same type", run->type, y, count);
}

static void rows_of(kernel_run *run, uint64_t rows, uint64_t columns, uint64_t apart)
{
	p4d_device *const device = run->device;
	char *to = run_elements(run, rows * apart), *from = run_elements(run, rows * apart);
	const uint64_t e = element_bytes(run->type);

	device->copy_rows(device, to, apart * e, from + (apart - columns) * e, apart * e, columns * e, rows);
	record_result(run, "copy_rows", run->type, to, rows * apart);
}

/* Decodes a rank's part of an nf4 tensor. All bytes are valid codes, and all numbers are valid scales. */
static void nf4(kernel_run *run, const p4d_nf4_shape *shape, uint64_t first_row, uint64_t first_column)
{
	p4d_device *const device = run->device;
	const p4d_nf4_tensor from = {*shape, first_row, first_column,
				     run_reals(run, p4d_nf4_bytes(shape) / sizeof(float))};
	void *to = run_elements(run, shape->rows * shape->columns);

	device->dequantize(device, run->type, to, &from);
	record_result(run, "dequantize", run->type, to, shape->rows * shape->columns);
}

static void nf4_cases(kernel_run *run)
{
	nf4(run, &(p4d_nf4_shape){7, 9, 7, 9}, 0, 0); /* an odd number of elements */
	nf4(run, &(p4d_nf4_shape){24, 72, 24, 72}, 0, 0);
	nf4(run, &(p4d_nf4_shape){300, 128, 300, 128}, 0, 0); /* three groups of blocks */
	nf4(run, &(p4d_nf4_shape){150, 128, 300, 128}, 150, 0);
	nf4(run, &(p4d_nf4_shape){300, 64, 300, 192}, 0, 128);
}

/* Dropout of rows that begin with token 3 of a sequence of 5, for a rank that has two chunks of each
 * sequence. Also dropout of a rank's columns of a wider matrix. */
static void drops(kernel_run *run, uint64_t n, uint64_t h)
{
	static const int32_t places[] = {4, 5, 6, 17, 18};
	p4d_device *const device = run->device;
	int32_t *position = run_memory(run, sizeof(places));
	void *x = run_elements(run, n * h), *y = run_elements(run, n * h);
	const p4d_dropout dropout = {.key = UINT64_C(0x123456789abcdef0),
				     .first = 3,
				     .length = 5,
				     .sequence = UINT64_C(1) << 30,
				     .seq_len = 24,
				     .position = position,
				     .first_column = h,
				     .all_columns = 3 * h,
				     .below = UINT32_C(1) << 30,
				     .factor = 4.0f / 3};

	put(device, position, places, sizeof(places));
	device->drop(device, run->type, y, x, &dropout, n, h);
	record_result(run, "drop", run->type, y, n * h);
	device->drop(device, run->type, x, x, &dropout, n, h);
	record_result(run, "drop, in place", run->type, x, n * h);
}

static void other_cases(kernel_run *run)
{
	drops(run, 1, 8);
	drops(run, 12, 77);
	drops(run, 9, 2064);
	nf4_cases(run);
	activation_cases(run, 1, 8);
	activation_cases(run, 3, 77);
	activation_cases(run, 2, 2064);
	embeddings(run, 300, 40, 9);
	embeddings(run, 30, 2064, 14);
	embeddings(run, 5, 7, 30);
	cross_entropy(run, 40, 24, 24);
	cross_entropy(run, 3, 301, 304);
	cross_entropy(run, 3, 301, 303);
	cross_entropy(run, 2, 9000, 9000);
	cross_entropy(run, 2, 9001, 9008);
	capped_logits(run, 40, 24, 24);
	capped_logits(run, 3, 301, 304);
	capped_logits(run, 3, 301, 303);
	capped_logits(run, 2, 9001, 9008);
	pairs(run, 1, 9, 5);
	pairs(run, 3, 300, 40);
	arrays(run, 0);
	arrays(run, 1);
	arrays(run, 4000);
	arrays(run, 40001);
	rows_of(run, 5, 16, 32);
	rows_of(run, 4, 3, 7);
}

static void norm_kernels(void **state)
{
	(void)state;
	/* the cpu device sums 12,296 squares of a row in fp32; the compiler chooses the order */
	check_kernels(kernel_norms, 2e-4);
}

static void heads_kernels(void **state)
{
	(void)state;
	check_kernels(heads_cases, 1e-5);
}

static void bias_kernels(void **state)
{
	(void)state;
	check_kernels(bias_cases, 1e-5);
}

static void other_kernels(void **state)
{
	(void)state;
	check_kernels(other_cases,
		      3e-5); /* without optimization, the cpu device adds 9,000 numbers one by one */
}

static void products(void **state)
{
	(void)state;
	check_kernels(kernel_products, 1e-5);
}

/* The sum of a part of an array does not depend on the address where the part begins. */
static void sums_do_not_depend_on_addresses(void **state)
{
	enum { COUNT = 5000, PLACES = 9 };
	float host[COUNT];
	double first = 0, sum;
	uint64_t random = 3;
	p4d_device cuda;

	(void)state;
	for (int k = 0; k < COUNT; k++)
		host[k] = (float)number(&random) * 1.1f;
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	float *x = make_memory(&cuda, (COUNT + PLACES) * sizeof(*x));
	double *to = make_memory(&cuda, sizeof(*to));
	for (int i = 0; i < PLACES; i++) {
		put(&cuda, x + i, host, sizeof(host));
		cuda.zero(&cuda, to, sizeof(*to));
		cuda.sum_squares(&cuda, to, x + i, COUNT);
		fetch(&cuda, &sum, to, sizeof(sum));
		first = i ? first : sum;
		assert_true(sum > 0 && sum == first);
	}
	drop_memory(&cuda, x);
	drop_memory(&cuda, to);
	cuda.close(&cuda);
}

/* A number of blocks above the limit of a grid must be an error. If it were cut to 32 bits, it would look
 * small. */
static void too_many_blocks_are_an_error(void **state)
{
	const uint64_t rows = ((uint64_t)1 << 32) + 1;
	p4d_device cuda;

	(void)state;
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	char *memory = make_memory(&cuda, 32);
#ifdef P4D_TEST_CUDA /* the shim ends the program in this case */
	const pid_t child = fork();
	int status = 0;
	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGABRT, SIG_DFL); /* cmocka's handler would continue with the tests */
		cuda.copy_rows(&cuda, memory, 0, memory + 16, 0, 16, rows);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
	p4d_error err;
	cuda.copy_rows(&cuda, memory, 0, memory + 16, 0, 16, rows);
	assert_true(cuda.sync(&cuda, &err) < 0);
#endif
	drop_memory(&cuda, memory);
	cuda.close(&cuda);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(norm_kernels),
	    cmocka_unit_test(heads_kernels),
	    cmocka_unit_test(bias_kernels),
	    cmocka_unit_test(other_kernels),
	    cmocka_unit_test(products),
	    cmocka_unit_test(sums_do_not_depend_on_addresses),
	    cmocka_unit_test(too_many_blocks_are_an_error),
	};

	select_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
