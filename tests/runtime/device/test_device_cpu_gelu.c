/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the cpu device that Llama does not need, in double. Gradients are compared with finite
 * differences. */
#include "support/support.h"

#include "support/numbers.h"

#define P4D_CPU_TYPE 64
#include "device/cpu/cpu_operations.h"

enum { ALL = 1 << 20, N = 3, H = 19 };
static const float epsilon = 1e-5f, cap = 1.5f;

typedef struct call {
	double *x, *y, *weight, *bias, *statistics,
	    *towards; /* the scalar function is the scalar product of y and `towards` */
} call;

static void open_call(call *c, uint64_t inputs, uint64_t outputs)
{
	*c = (call){.x = numbers(inputs, 1),
		    .y = numbers(outputs, 2),
		    .weight = numbers(H, 3),
		    .bias = numbers(H, 4),
		    .statistics = numbers(2 * N, 5),
		    .towards = numbers(outputs, 6)};
	for (uint64_t i = 0; i < inputs; i++)
		c->x[i] *= 4;
}

static void close_call(call *c)
{
	free(c->x), free(c->y), free(c->weight), free(c->bias), free(c->statistics), free(c->towards);
}

static double layer_norm(void *context)
{
	call *c = context;

	OP(layer_norm)(c->y, c->statistics, c->x, c->weight, c->bias, N, H, epsilon);
	return dot(c->y, c->towards, N * H);
}

static void layer_norm_gradients(void **state)
{
	double *dx = numbers(N * H, 7), *before = numbers(N * H, 7), dweight[H] = {0}, dbias[H] = {0};
	call c;

	(void)state;
	open_call(&c, N * H, N * H);
	layer_norm(&c);
	for (int i = 0; i < N; i++) { /* before weight and bias, a row has mean 0 and root mean square 1 */
		double sum = 0, squares = 0;
		for (int j = 0; j < H; j++) {
			const double z = (c.x[i * H + j] - c.statistics[i]) * c.statistics[N + i];
			sum += z;
			squares += z * z;
		}
		assert_true(fabs(sum) < 1e-12 && fabs(squares / H - 1) < 1e-4);
	}
	OP(layer_norm_backward)(dx, dweight, dbias, c.towards, c.x, c.weight, c.statistics, N, H);
	for (int i = 0; i < N * H; i++)
		dx[i] -= before[i];
	check_gradient("layer_norm, x", layer_norm, &c, c.x, dx, N * H, ALL);
	check_gradient("layer_norm, weight", layer_norm, &c, c.weight, dweight, H, ALL);
	check_gradient("layer_norm, bias", layer_norm, &c, c.bias, dbias, H, ALL);
	free(dx), free(before);
	close_call(&c);
}

static double unit_norm(void *context)
{
	call *c = context;

	OP(unit_norm)(c->y, c->statistics, c->x, c->weight, N, H, epsilon);
	return dot(c->y, c->towards, N * H);
}

/* A norm whose weight is stored as the difference from 1. */
static void unit_norm_gradients(void **state)
{
	double *dx = calloc(N * H, sizeof(*dx)), *y = calloc(N * H, sizeof(*y)), dweight[H] = {0}, plus[H],
	       rstd[N];
	call c;

	(void)state;
	open_call(&c, N * H, N * H);
	unit_norm(&c);
	for (int i = 0; i < H; i++)
		plus[i] = 1 + c.weight[i];
	OP(norm)(y, rstd, c.x, plus, N, H, epsilon);
	for (int i = 0; i < N * H; i++)
		assert_true(fabs(y[i] - c.y[i]) < 1e-14);
	OP(unit_norm_backward)(dx, dweight, c.towards, c.x, c.weight, c.statistics, N, H);
	check_gradient("unit_norm, x", unit_norm, &c, c.x, dx, N * H, ALL);
	check_gradient("unit_norm, weight", unit_norm, &c, c.weight, dweight, H, ALL);
	free(dx), free(y);
	close_call(&c);
}

static double geglu(void *context)
{
	call *c = context;

	OP(geglu)(c->y, c->x, N, H);
	return dot(c->y, c->towards, N * H);
}

static double gelu(void *context)
{
	call *c = context;

	OP(gelu)(c->y, c->x, N, H);
	return dot(c->y, c->towards, N * H);
}

static void gelu_gradients(void **state)
{
	double dx[2 * N * H], again[N * H];
	call c;

	(void)state;
	open_call(&c, 2 * N * H, N * H);
	gelu(&c);
	for (int i = 0; i < N * H; i++) {
		const double x = c.x[i], u = sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
		assert_true(fabs(c.y[i] - x / 2 * (1 + tanh(u))) < 1e-12);
	}
	memcpy(dx, c.x, sizeof(dx));
	OP(gelu_backward)(dx, NULL, c.towards, N, H);
	check_gradient("gelu", gelu, &c, c.x, dx, N * H, ALL);
	memcpy(dx, c.x, sizeof(dx));
	OP(geglu_backward)(dx, again, c.towards, N, H);
	geglu(&c);
	assert_memory_equal(again, c.y, sizeof(again)); /* a second call overwrites the gradients */
	check_gradient("geglu", geglu, &c, c.x, dx, 2 * N * H, ALL);
	close_call(&c);
}

static const int32_t labels[N] = {4, -1, H - 1};

/* The loss of capped logits. */
static double capped_loss(void *context)
{
	call *c = context;
	double maximum[N], sum[N], target[N], loss = 0;

	memcpy(c->y, c->x, N * H * sizeof(*c->y));
	OP(soft_cap)(c->y, H, N, H, cap);
	OP(softmax_sums)(maximum, sum, target, c->y, H, labels, N, H, 0);
	OP(losses)(&loss, maximum, sum, target, labels, N, 0.125f);
	return loss;
}

static void soft_cap_gradient(void **state)
{
	double maximum[N], sum[N], target[N];
	call c;

	(void)state;
	open_call(&c, N * H, N * H);
	capped_loss(&c);
	for (int i = 0; i < N * H; i++)
		assert_true(fabs(c.y[i] - (double)cap * tanh(c.x[i] / (double)cap)) < 1e-12);
	double *dx = calloc(N * H, sizeof(*dx));
	memcpy(dx, c.y, N * H * sizeof(*dx));
	OP(softmax_sums)(maximum, sum, target, dx, H, labels, N, H, 0);
	OP(capped_gradient)(dx, H, maximum, sum, labels, N, H, 0, 1, 0.125f, cap);
	check_gradient("soft_cap", capped_loss, &c, c.x, dx, N * H, ALL);
	free(dx);
	close_call(&c);
}

static void biases(void **state)
{
	double dbias[H], before[H];
	call c;

	(void)state;
	open_call(&c, N * H, N * H);
	memcpy(c.y, c.x, N * H * sizeof(*c.y));
	OP(add_bias)(c.y, c.bias, N, H);
	OP(scale)(c.y, 0.25f, N * H);
	for (int i = 0; i < N * H; i++)
		assert_true(fabs(c.y[i] - (c.x[i] + c.bias[i % H]) / 4) < 1e-15);
	memcpy(before, c.bias, sizeof(before));
	memcpy(dbias, c.bias, sizeof(dbias));
	OP(bias_backward)(dbias, c.towards, N, H);
	for (int j = 0; j < H; j++) {
		double sum = before[j];
		for (int i = 0; i < N; i++)
			sum += c.towards[i * H + j];
		assert_true(fabs(dbias[j] - sum) < 1e-13);
	}
	close_call(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(layer_norm_gradients),
	    cmocka_unit_test(unit_norm_gradients),
	    cmocka_unit_test(gelu_gradients),
	    cmocka_unit_test(soft_cap_gradient),
	    cmocka_unit_test(biases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
