/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of the cpu device's operations except attention, in double, compared with finite differences. */
#include "support/support.h"

#include "support/numbers.h"

#define P4D_CPU_TYPE 64
#include "device/cpu/cpu_operations.h"

enum { ALL = 1 << 20 };

/* Arguments and result of the scalar function of an operation. Each test uses only some of the members. */
typedef struct call {
	uint64_t n, out, in;
	double *x, *y, *w, *weight, *bias, *rstd, *towards; /* the scalar function is the scalar product
							     * of y and `towards` */
	p4d_heads heads;
	bool norm;
	int32_t *tokens;
} call;

static double linear(void *context)
{
	call *c = context;

	OP(linear)(NULL, c->y, NULL, c->x, c->w, c->n, c->out, c->in);
	return dot(c->y, c->towards, c->n * c->out);
}

static void linear_case(uint64_t n, uint64_t out, uint64_t in)
{
	call c = {.n = n, .out = out, .in = in};
	double *dx = numbers(n * in, 5), *dw = numbers(out * in, 6), *dx0 = numbers(n * in, 5),
	       *dw0 = numbers(out * in, 6);

	c.x = numbers(n * in, 1);
	c.w = numbers(out * in, 2);
	c.y = numbers(n * out, 3);
	c.towards = numbers(n * out, 4);
	/* these calls add to the previous content */
	OP(linear_input)(NULL, dx, c.towards, c.w, n, out, in, true);
	OP(linear_weight)(NULL, dw, c.towards, c.x, n, out, in, true);
	for (uint64_t i = 0; i < n * in; i++)
		dx[i] -= dx0[i];
	for (uint64_t i = 0; i < out * in; i++)
		dw[i] -= dw0[i];
	check_gradient("linear, x", linear, &c, c.x, dx, n * in, ALL);
	check_gradient("linear, w", linear, &c, c.w, dw, out * in, ALL);
	OP(linear_input)(NULL, dx, c.towards, c.w, n, out, in, false);
	check_gradient("linear, x, set", linear, &c, c.x, dx, n * in, ALL);
	OP(linear_weight)(NULL, dw, c.towards, c.x, n, out, in, false);
	check_gradient("linear, w, set", linear, &c, c.w, dw, out * in, ALL);
	free(dx), free(dw), free(dx0), free(dw0);
	free(c.x), free(c.w), free(c.y), free(c.towards);
}

static void linear_gradients(void **state)
{
	(void)state;
	linear_case(1, 1, 1);
	linear_case(7, 5, 3);
	linear_case(2, 17, 33);
}

typedef struct columns_call {
	uint64_t n, out, in, stride;
	double *x, *w, *y, *towards;
} columns_call;

enum { FIRST_COLUMN = 2 };
static const float columns_scale = 0.75f;

static double columns(void *context)
{
	const columns_call *c = context;
	double *y = calloc(c->n * c->stride, sizeof(*y));

	OP(columns)(NULL, y + FIRST_COLUMN, c->stride, c->x, c->w, c->n, c->out, c->in, columns_scale, true);
	const double sum = dot(y, c->towards, c->n * c->stride);
	free(y);
	return sum;
}

/* An operation on columns of a wider matrix, which multiplies them by a number. */
static void columns_gradients(void **state)
{
	enum { N = 6, OUT = 5, IN = 3, STRIDE = 11 };
	columns_call c = {
	    N, OUT, IN, STRIDE, numbers(N * IN, 1), numbers(OUT * IN, 2), NULL, numbers(N * STRIDE, 4)};
	double *dx = numbers(N * IN, 5), *dw = numbers(OUT * IN, 6), *dw0 = numbers(OUT * IN, 6);
	double *y = numbers(N * STRIDE, 7), *y0 = numbers(N * STRIDE, 7);

	(void)state;
	OP(columns_input)(NULL, dx, c.towards + FIRST_COLUMN, STRIDE, c.w, N, OUT, IN, columns_scale);
	OP(columns_weight)(NULL, dw, c.towards + FIRST_COLUMN, STRIDE, c.x, N, OUT, IN, columns_scale, true);
	for (uint64_t i = 0; i < OUT * IN; i++)
		dw[i] -= dw0[i];
	check_gradient("columns, x", columns, &c, c.x, dx, N * IN, ALL);
	check_gradient("columns, w", columns, &c, c.w, dw, OUT * IN, ALL);
	OP(columns)(NULL, y + FIRST_COLUMN, STRIDE, c.x, c.w, N, OUT, IN, columns_scale, true);
	for (int i = 0; i < N * STRIDE; i++) {
		const int column = i % STRIDE - FIRST_COLUMN;
		double sum = y0[i];
		for (int k = 0; column >= 0 && column < OUT && k < IN; k++)
			sum += 0.75 * c.x[i / STRIDE * IN + k] * c.w[column * IN + k];
		assert_true(fabs(y[i] - sum) < 1e-12);
	}
	free(dx), free(dw), free(dw0), free(y), free(y0);
	free(c.x), free(c.w), free(c.towards);
}

/* A linear layer, compared with y = x w^T in plain loops. */
static void linear_is_the_product(void **state)
{
	enum { N = 3, OUT = 4, IN = 5 };
	double *x = numbers(N * IN, 1), *w = numbers(OUT * IN, 2), *y = numbers(N * OUT, 3),
	       *y0 = numbers(N * OUT, 3);

	(void)state;
	/* first the output itself is the addend; then another matrix, which must not change */
	for (int twice = 0; twice < 2; twice++) {
		OP(linear)(NULL, y, twice ? y0 : y, x, w, N, OUT, IN);
		for (int i = 0; i < N; i++)
			for (int j = 0; j < OUT; j++) {
				double sum = y0[i * OUT + j];
				for (int k = 0; k < IN; k++)
					sum += x[i * IN + k] * w[j * IN + k];
				assert_true(fabs(y[i * OUT + j] - sum) < 1e-12);
			}
	}
	free(x), free(w), free(y), free(y0);
}

static double norm(void *context)
{
	call *c = context;

	OP(norm)(c->y, c->rstd, c->x, c->weight, c->n, c->in, 1e-5f);
	return dot(c->y, c->towards, c->n * c->in);
}

/* A row in two parts: with the sum of both parts' squares, results equal those of one norm. */
static void split_norm_case(uint64_t n, uint64_t h)
{
	const uint64_t part[2] = {h / 3, h - h / 3};
	double *x = numbers(n * h, 1), *weight = numbers(h, 2), *dy = numbers(n * h, 4);
	double *y = calloc(n * h, sizeof(*y)), *dx = calloc(n * h, sizeof(*dx)), *dw = calloc(h, sizeof(*dw));
	double rstd[2][16], dots[2][16], whole[16];
	double *parts[2][5]; /* x, dy, y, dx and weight of each part; dw comes after y */

	assert_true(n <= 16);
	OP(norm)(y, whole, x, weight, n, h, 1e-5f);
	OP(norm_backward)(dx, dw, dy, x, weight, whole, n, h);
	for (int p = 0; p < 2; p++) {
		const uint64_t w = part[p], from = p ? part[0] : 0;
		for (int k = 0; k < 5; k++)
			parts[p][k] = calloc(n * w + w, sizeof(double));
		for (uint64_t i = 0; i < n; i++)
			for (uint64_t j = 0; j < w; j++) {
				parts[p][0][i * w + j] = x[i * h + from + j];
				parts[p][1][i * w + j] = dy[i * h + from + j];
			}
		memcpy(parts[p][4], weight + from, w * sizeof(double));
		OP(row_dots)(rstd[p], parts[p][0], parts[p][0], NULL, n, w, 1);
		OP(row_dots)(dots[p], parts[p][1], parts[p][0], parts[p][4], n, w, 0);
	}
	for (uint64_t i = 0; i < n; i++) {
		rstd[0][i] = rstd[1][i] = rstd[0][i] + rstd[1][i];
		dots[0][i] = dots[1][i] = dots[0][i] + dots[1][i];
	}
	for (int p = 0; p < 2; p++) {
		const uint64_t w = part[p], from = p ? part[0] : 0;
		OP(split_norm)(parts[p][2], rstd[p], parts[p][0], parts[p][4], n, w, h, 1e-5f, 0);
		OP(split_norm_backward)
		(parts[p][3], parts[p][2] + n * w, parts[p][1], parts[p][0], parts[p][4], rstd[p], dots[p], n,
		 w, h, 0);
		for (uint64_t i = 0; i < n; i++)
			for (uint64_t j = 0; j < w; j++) {
				assert_true(fabs(parts[p][2][i * w + j] - y[i * h + from + j]) < 1e-12);
				assert_true(fabs(parts[p][3][i * w + j] - dx[i * h + from + j]) < 1e-12);
			}
		for (uint64_t j = 0; j < w; j++)
			assert_true(fabs(parts[p][2][n * w + j] - dw[from + j]) < 1e-12);
		for (int k = 0; k < 5; k++)
			free(parts[p][k]);
	}
	free(x), free(weight), free(dy), free(y), free(dx), free(dw);
}

static void norm_case(uint64_t n, uint64_t h)
{
	call c = {.n = n, .in = h};
	double *dx = numbers(n * h, 5), *before = numbers(n * h, 5), *dweight = calloc(h, sizeof(*dweight));

	c.x = numbers(n * h, 1);
	c.weight = numbers(h, 2);
	c.y = numbers(n * h, 3);
	c.rstd = numbers(n, 3);
	c.towards = numbers(n * h, 4);
	norm(&c);
	OP(norm_backward)(dx, dweight, c.towards, c.x, c.weight, c.rstd, n, h);
	for (uint64_t i = 0; i < n * h; i++)
		dx[i] -= before[i];
	check_gradient("norm, x", norm, &c, c.x, dx, n * h, ALL);
	check_gradient("norm, weight", norm, &c, c.weight, dweight, h, ALL);
	free(dx), free(before), free(dweight);
	free(c.x), free(c.weight), free(c.y), free(c.rstd), free(c.towards);
}

static void norm_gradients(void **state)
{
	(void)state;
	norm_case(1, 2);
	norm_case(5, 19);
	norm_case(3, 64);
	split_norm_case(1, 4);
	split_norm_case(7, 65);
}

/* `heads` changes its input, so the function begins with a copy. */
static double heads(void *context)
{
	call *c = context;

	memcpy(c->y, c->x, c->n * c->in * sizeof(double));
	OP(heads)(c->y, c->norm ? c->rstd : NULL, &c->heads);
	return dot(c->y, c->towards, c->n * c->in);
}

static void heads_case(uint64_t n, uint64_t length, uint64_t a, uint64_t k, uint64_t d, bool bias, bool norms)
{
	const uint64_t columns = (a + 2 * k) * d;
	call c = {.n = n, .in = columns, .norm = norms};
	double *db = calloc(columns, sizeof(*db)), *dq = calloc(2 * d, sizeof(*dq)), *dx, *dk = dq + d;
	float *rope = calloc(length * d, sizeof(*rope));

	for (uint64_t i = 0; i < length; i++)
		for (uint64_t j = 0; j < d / 2; j++) {
			rope[i * d + j] = cosf((float)(i * (j + 1)));
			rope[i * d + d / 2 + j] = sinf((float)(i * (j + 1)));
		}
	c.x = numbers(n * columns, 1);
	c.y = numbers(n * columns, 2);
	c.rstd = numbers(n * (a + k), 3);
	c.bias = numbers(columns, 4);
	c.weight = numbers(2 * d, 5);
	for (uint64_t i = 0; i < 2 * d; i++) /* device.h: the weights must not be 0 */
		c.weight[i] = 1 + c.weight[i] / 2;
	c.towards = numbers(n * columns, 6);
	dx = numbers(n * columns, 6);
	c.heads = (p4d_heads){.n = n,
			      .length = length,
			      .heads = a,
			      .kv_heads = k,
			      .head_dim = d,
			      .bias = bias ? c.bias : NULL,
			      .query_weight = norms ? c.weight : NULL,
			      .key_weight = norms ? c.weight + d : NULL,
			      .epsilon = 1e-5f,
			      .rope = rope};
	heads(&c);
	OP(heads_backward)(dx, c.y, norms ? c.rstd : NULL, &c.heads, bias ? db : NULL, dq, dk);
	check_gradient("heads, x", heads, &c, c.x, dx, n * columns, ALL);
	if (bias)
		check_gradient("heads, bias", heads, &c, c.bias, db, columns, ALL);
	if (norms)
		check_gradient("heads, norm weights", heads, &c, c.weight, dq, 2 * d, ALL);
	free(db), free(dq), free(dx), free(rope);
	free(c.x), free(c.y), free(c.rstd), free(c.bias), free(c.weight), free(c.towards);
}

static void heads_gradients(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		heads_case(1, 1, 1, 1, 2, i & 1, i & 2);
		heads_case(6, 3, 4, 2, 6, i & 1, i & 2);
	}
}

/* `heads` compared with its steps on one head of one token: bias, RMSNorm, rotation. */
static void heads_in_order(void **state)
{
	enum { D = 2, COLUMNS = 3 * D };
	const double bias[COLUMNS] = {0.5, -1, 2, 0.25, 3, -2}, query[D] = {2, 3}, key[D] = {0.5, -1};
	const float rope[D] = {0.6f, 0.8f};
	double x[COLUMNS] = {1, 2, -3, 0.5, 7, 8}, rstd[2];
	const double before[COLUMNS] = {1, 2, -3, 0.5, 7, 8};
	const p4d_heads shape = {.n = 1,
				 .length = 1,
				 .heads = 1,
				 .kv_heads = 1,
				 .head_dim = D,
				 .bias = bias,
				 .query_weight = query,
				 .key_weight = key,
				 .epsilon = 0.125f,
				 .rope = rope};

	(void)state;
	OP(heads)(x, rstd, &shape);
	for (int head = 0; head < 2; head++) {
		const double *weight = head == 0 ? query : key;
		const double a = before[2 * head] + bias[2 * head],
			     b = before[2 * head + 1] + bias[2 * head + 1];
		const double scale = 1 / sqrt((a * a + b * b) / 2 + 0.125);
		const double ya = a * scale * weight[0], yb = b * scale * weight[1];
		assert_true(fabs(rstd[head] - scale) < 1e-15);
		assert_true(fabs(x[2 * head] - (ya * (double)rope[0] - yb * (double)rope[1])) < 1e-14);
		assert_true(fabs(x[2 * head + 1] - (yb * (double)rope[0] + ya * (double)rope[1])) < 1e-14);
	}
	assert_true(x[4] == 10 && x[5] == 6);
}

/* Rotation does not change the columns of values, and changes nothing at position 0. */
static void rotation_keeps_position_0(void **state)
{
	enum { D = 4, COLUMNS = 3 * D };
	float rope[2 * D] = {1, 1, 0, 0, 0, -1, 1, 0};
	double *x = numbers(2 * COLUMNS, 1), *y = numbers(2 * COLUMNS, 1);
	const p4d_heads shape = {.n = 2, .length = 2, .heads = 1, .kv_heads = 1, .head_dim = D, .rope = rope};

	(void)state;
	OP(heads)(y, NULL, &shape);
	for (int i = 0; i < COLUMNS; i++)
		assert_true(y[i] == x[i]);
	for (int i = COLUMNS + 2 * D; i < 2 * COLUMNS; i++)
		assert_true(y[i] == x[i]);
	/* pair (0, 2) is turned by a quarter turn, pair (1, 3) by half a turn */
	assert_true(y[COLUMNS] == -x[COLUMNS + 2] && y[COLUMNS + 2] == x[COLUMNS]);
	assert_true(y[COLUMNS + 1] == -x[COLUMNS + 1] && y[COLUMNS + 3] == -x[COLUMNS + 3]);
	free(x), free(y);
}

static double swiglu(void *context)
{
	call *c = context;

	OP(swiglu)(c->y, c->x, c->n, c->in);
	return dot(c->y, c->towards, c->n * c->in);
}

static void swiglu_case(uint64_t n, uint64_t f)
{
	call c = {.n = n, .in = f};
	double *dx = numbers(2 * n * f, 1);

	c.x = numbers(2 * n * f, 1);
	c.y = numbers(n * f, 2);
	c.towards = numbers(n * f, 3);
	for (uint64_t i = 0; i < 2 * n * f; i++)
		dx[i] = c.x[i] *= 5;
	double *again = numbers(2 * n * f, 1), *product = numbers(n * f, 4);
	memcpy(again, dx, 2 * n * f * sizeof(*again));
	OP(swiglu_backward)(dx, NULL, c.towards, n, f);
	check_gradient("swiglu", swiglu, &c, c.x, dx, 2 * n * f, ALL);
	OP(swiglu_backward)(again, product, c.towards, n, f);
	OP(swiglu)(c.y, c.x, n, f);
	for (uint64_t i = 0; i < 2 * n * f; i++)
		assert_true(fabs(again[i] - dx[i]) <= 1e-14 * fabs(dx[i]));
	for (uint64_t i = 0; i < n * f; i++)
		assert_true(fabs(product[i] - c.y[i]) <= 1e-14 * fabs(c.y[i]));
	free(again), free(product);
	free(dx), free(c.x), free(c.y), free(c.towards);
}

static void swiglu_gradients(void **state)
{
	(void)state;
	swiglu_case(1, 1);
	swiglu_case(3, 37);
}

enum { FIRST = 4, ROWS = 5 };

static double embed(void *context)
{
	call *c = context;

	OP(embed)(c->y, c->w, c->tokens, c->n, c->in, FIRST, ROWS);
	return dot(c->y, c->towards, c->n * c->in);
}

/* Tokens outside of this rank's rows of the table, a rank without rows, and a token that occurs twice. */
static void embedding_gradients(void **state)
{
	int32_t tokens[] = {3, 4, 8, 9, -1, 4, 5, 6, 7};
	call c = {.n = 9, .in = 3, .tokens = tokens};
	double *dtable = calloc(ROWS * c.in, sizeof(*dtable));

	(void)state;
	c.w = numbers(ROWS * c.in, 1);
	c.y = numbers(c.n * c.in, 2);
	c.towards = numbers(c.n * c.in, 3);
	OP(embed_backward)(dtable, c.towards, tokens, c.n, c.in, FIRST, ROWS);
	check_gradient("embedding", embed, &c, c.w, dtable, ROWS * c.in, ALL);
	embed(&c);
	for (uint64_t i = 0; i < c.n; i++)
		for (uint64_t j = 0; j < c.in; j++) {
			const int row = tokens[i] - FIRST;
			const double expected = row >= 0 && row < ROWS ? c.w[(uint64_t)row * c.in + j] : 0;
			assert_true(c.y[i * c.in + j] == expected);
		}
	free(dtable), free(c.w), free(c.y), free(c.towards);
}

/* Two ranks with unequal parts of the vocabulary: columns 0 .. CUT-1, and the other columns. */
enum { VOCAB = 11, CUT = 4, TOKENS = 6, PARTS = 2 };
static const uint64_t part_first[] = {0, CUT}, part_size[] = {CUT, VOCAB - CUT};

typedef struct entropy {
	double *logits[PARTS]; /* (TOKENS, columns of the rank) */
	double maximum[TOKENS], sum[TOKENS], target[TOKENS];
	int32_t labels[TOKENS];
	float z_loss;
} entropy;

static double loss(void *context)
{
	entropy *e = context;
	double maximum[PARTS][TOKENS], sum[PARTS][TOKENS], target[PARTS][TOKENS], total = 0;

	for (int p = 0; p < PARTS; p++)
		OP(softmax_sums)
	(maximum[p], sum[p], target[p], e->logits[p], part_size[p], e->labels, TOKENS, part_size[p],
	 part_first[p]);
	for (int i = 0; i < TOKENS; i++)
		e->maximum[i] = fmax(maximum[0][i], maximum[1][i]);
	for (int p = 0; p < PARTS; p++)
		OP(rescale)(sum[p], maximum[p], e->maximum, TOKENS);
	for (int i = 0; i < TOKENS; i++) {
		e->sum[i] = sum[0][i] + sum[1][i];
		e->target[i] = target[0][i] + target[1][i];
	}
	OP(losses)(&total, e->maximum, e->sum, e->target, e->labels, TOKENS, e->z_loss);
	return total;
}

static void cross_entropy_gradients(void **state)
{
	entropy e = {.labels = {0, CUT - 1, CUT, VOCAB - 1, -1, -100}};
	double gradient[TOKENS * VOCAB];
	const float scale = 0.25f;

	(void)state;
	for (int p = 0; p < PARTS; p++) {
		e.logits[p] = numbers(TOKENS * part_size[p], (uint64_t)p + 1);
		for (uint64_t i = 0; i < TOKENS * part_size[p]; i++)
			e.logits[p][i] *= 4;
	}
	for (int z = 0; z < 2; z++) {
		e.z_loss = z ? 0.125f : 0;
		/* the expected sum over all columns, in plain loops */
		double expected = 0;
		for (int i = 0; i < 4; i++) {
			double all = 0, target = 0;
			for (int p = 0; p < PARTS; p++)
				for (uint64_t j = 0; j < part_size[p]; j++) {
					const double x = e.logits[p][(uint64_t)i * part_size[p] + j];
					all += exp(x);
					if (part_first[p] + j == (uint64_t)e.labels[i])
						target = x;
				}
			expected += log(all) - target + (double)e.z_loss * log(all) * log(all);
		}
		assert_true(fabs(loss(&e) - expected) < 1e-12 * fabs(expected));
		for (int p = 0; p < PARTS; p++) {
			const uint64_t count = TOKENS * part_size[p];
			memcpy(gradient, e.logits[p], count * sizeof(*gradient));
			OP(logits_gradient)
			(gradient, part_size[p], e.maximum, e.sum, e.labels, TOKENS, part_size[p],
			 part_first[p], scale, e.z_loss);
			for (uint64_t i = 0; i < count; i++)
				gradient[i] /= (double)scale;
			check_gradient("cross-entropy", loss, &e, e.logits[p], gradient, count, ALL);
			for (uint64_t i = 4 * part_size[p]; i < count; i++)
				assert_true(gradient[i] == 0);
		}
	}
	for (int p = 0; p < PARTS; p++)
		free(e.logits[p]);
}

/* AdamW compared with algorithm 2 of Loshchilov and Hutter 2019, line by line. */
static void adam_by_the_book(void **state)
{
	enum { N = 5, STEPS = 3 };
	double *x = numbers(N, 1), *expected = numbers(N, 1), m[N] = {0}, v[N] = {0}, em[N] = {0},
	       ev[N] = {0};

	(void)state;
	for (int step = 1; step <= STEPS; step++) {
		double *g = numbers(N, (uint64_t)step + 1);
		p4d_adam adam = {.learning_rate = 0.125f,
				 .beta1 = 0.75f,
				 .beta2 = 0.875f,
				 .epsilon = 0.0625f,
				 .weight_decay = 0.25f,
				 .gradient_scale = 0.5f};
		adam.correction1 = (float)(1 - pow(0.75, step));
		adam.correction2 = (float)(1 - pow(0.875, step));
		OP(adam)(x, NULL, m, v, g, N, &adam);
		for (int i = 0; i < N; i++) {
			const double scaled = 0.5 * g[i];
			em[i] = 0.75 * em[i] + 0.25 * scaled;
			ev[i] = 0.875 * ev[i] + 0.125 * scaled * scaled;
			const double mean = em[i] / (double)adam.correction1,
				     square = ev[i] / (double)adam.correction2;
			expected[i] -= 0.125 * (mean / (sqrt(square) + 0.0625) + 0.25 * expected[i]);
			assert_true(fabs(x[i] - expected[i]) < 1e-7);
			assert_true(fabs(m[i] - em[i]) < 1e-15 && fabs(v[i] - ev[i]) < 1e-15);
		}
		free(g);
	}
	free(x), free(expected);
}

/* Stochastic rounding is right on average, and never changes a number that bf16 represents exactly. */
static void rounding_is_unbiased(void **state)
{
	enum { COUNT = 1 << 16 };

	(void)state;
	for (uint64_t key = 1; key < 40; key++) {
		uint64_t random = key;
		const double x = number(&random) + 1e-3 * (double)key, width = 0x1p-8 * fabs(x);
		const float exact = p4d_from_bf16(p4d_to_bf16((float)x));
		double sum[2] = {0};
		for (uint64_t i = 0; i < COUNT; i++) {
			const uint32_t up = p4d_rounding_bits(key << 32 | 7, i << (key / 2));
			const uint16_t low = p4d_round_to_bf16((float)x, up & 0xffff),
				       high = p4d_round_to_bf16((float)x, up >> 16);
			sum[0] += (double)p4d_from_bf16(low) - x;
			sum[1] += (double)p4d_from_bf16(high) - x;
			assert_true(fabs((double)p4d_from_bf16(low) - x) <= 2 * width);
			assert_int_equal(p4d_round_to_bf16(exact, up & 0xffff), p4d_to_bf16(exact));
		}
		/* the mean error is below five standard deviations of a mean */
		assert_true(fabs(sum[0]) / COUNT < 5 * width / sqrt(COUNT));
		assert_true(fabs(sum[1]) / COUNT < 5 * width / sqrt(COUNT));
	}
}

/* bf16 moments equal fp32 moments up to one rounding, whichever part of a tensor a rank has. */
static void adam_with_half_moments(void **state)
{
	enum { LINES = 6, WIDTH = 10, LEFT = 4, N = LINES * WIDTH };
	const p4d_adam adam = {0.01f, 0.9f, 0.95f, 1e-5f, 0.1f, 0.5f, 0.25f, 0.5f};
	double *x = numbers(N, 1), *y = numbers(N, 1), *g = numbers(N, 2), m[N] = {0}, v[N] = {0};
	uint16_t whole_m[N] = {0}, whole_v[N] = {0}, half_m[2][N] = {{0}}, half_v[2][N] = {{0}};

	(void)state;
	OP(adam)(x, NULL, m, v, g, N, &adam);
	OP(adam_half)
	(y, NULL, whole_m, whole_v, g, N, &adam,
	 &(p4d_rounding){.key = 9, .columns = WIDTH, .stride = WIDTH});
	for (int i = 0; i < N; i++) {
		assert_true(x[i] == y[i]); /* compared before a rounding has an effect */
		assert_true(fabs((double)p4d_from_bf16(whole_m[i]) - m[i]) <= 0x1p-7 * fabs(m[i]));
		assert_true(fabs((double)p4d_from_bf16(whole_v[i]) - v[i]) <= 0x1p-7 * v[i]);
	}
	/* the left columns, and in a second call the right columns except their first two */
	for (int side = 0; side < 2; side++) {
		const uint64_t columns = side ? WIDTH - LEFT : LEFT, first = side ? LEFT : 0;
		double part_x[N], part_g[N];
		for (uint64_t i = 0; i < LINES * columns; i++) {
			const uint64_t from = i / columns * WIDTH + first + i % columns;
			part_x[i] = 1;
			part_g[i] = g[from];
		}
		p4d_rounding r = {.key = 9, .columns = columns, .stride = WIDTH, .origin = first};
		OP(adam_half)(part_x, NULL, half_m[side], half_v[side], part_g, 2, &adam, &r);
		r.first = 2;
		OP(adam_half)
		(part_x + 2, NULL, half_m[side] + 2, half_v[side] + 2, part_g + 2, LINES * columns - 2, &adam,
		 &r);
		for (uint64_t i = 0; i < LINES * columns; i++) {
			const uint64_t from = i / columns * WIDTH + first + i % columns;
			assert_int_equal(half_m[side][i], whole_m[from]);
			assert_int_equal(half_v[side][i], whole_v[from]);
		}
	}
	free(x), free(y), free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(linear_is_the_product),   cmocka_unit_test(linear_gradients),
	    cmocka_unit_test(columns_gradients),       cmocka_unit_test(norm_gradients),
	    cmocka_unit_test(heads_gradients),         cmocka_unit_test(heads_in_order),
	    cmocka_unit_test(rounding_is_unbiased),    cmocka_unit_test(adam_with_half_moments),
	    cmocka_unit_test(adam_by_the_book),        cmocka_unit_test(rotation_keeps_position_0),
	    cmocka_unit_test(swiglu_gradients),        cmocka_unit_test(embedding_gradients),
	    cmocka_unit_test(cross_entropy_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
