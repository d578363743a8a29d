/* SPDX-License-Identifier: Apache-2.0 */
/* The bits of the cpu device's results do not depend on the number of threads, in fp32 and bf16. */
#include "support/support.h"

#include <math.h>

#include "device/cpu/cpu_threads.h"
#include "device/device.h"

/* Large enough that all operations divide their work, and no multiple of a tile or block. */
enum { N = 610, H = 320, HEADS = 4, KV = 2, D = 80, COLUMNS = (HEADS + 2 * KV) * D, F = 700, V = 1030 };
enum { LENGTH = N / 2, ROOM = 8 << 20, MOST = 64, PARTS = 3 };

typedef struct run {
	p4d_device device;
	p4d_dtype type;
	uint64_t random;
	void *memory[MOST];
	uint64_t bytes[MOST];
	int used;
} run;

static void *take(run *r, uint64_t bytes)
{
	assert_true(r->used < MOST);
	r->bytes[r->used] = bytes;
	r->memory[r->used] = calloc(1, bytes);
	assert_non_null(r->memory[r->used]);
	return r->memory[r->used++];
}

/* Numbers in [-1, 1). */
static float *reals(run *r, uint64_t count)
{
	float *x = take(r, count * sizeof(*x));

	for (uint64_t i = 0; i < count; i++) {
		r->random = r->random * 6364136223846793005u + 1442695040888963407u;
		x[i] = (float)(r->random >> 40) / (1 << 23) - 1;
	}
	return x;
}

static void *elements(run *r, uint64_t count)
{
	float *x = reals(r, count);
	void *y = take(r, count * sizeof(float));

	r->device.cast(&r->device, r->type, y, P4D_DT_FP32, x, count);
	return y;
}

static void products(run *r)
{
	p4d_device *d = &r->device;
	void *x = elements(r, (uint64_t)N * H), *w = elements(r, (uint64_t)F * H);
	void *y = elements(r, (uint64_t)N * F), *dx = elements(r, (uint64_t)N * H);
	float *dw = reals(r, (uint64_t)F * H);

	d->linear(d, r->type, y, y, x, w, N, F, H);
	d->linear_input(d, r->type, dx, y, w, N, F, H, true);
	d->linear_weight(d, r->type, dw, y, x, N, F, H, true);
	d->columns(d, r->type, y, F, x, w, N, F - 37, H, 0.5f, false);
	d->columns_input(d, r->type, dx, y, F, w, N, F - 37, H, 0.5f);
	d->columns_weight(d, r->type, dw, y, F, x, N, F - 37, H, 0.5f, true);
}

/* Matmuls in FP8, with block scales and with one scale per tensor. */
static void fp8_products(run *r)
{
	static const int recipes[] = {P4D_FP8_BLOCKWISE, P4D_FP8_CURRENT};
	p4d_device *d = &r->device;
	void *x = elements(r, (uint64_t)N * H), *w = elements(r, (uint64_t)H * F);
	void *y = elements(r, (uint64_t)N * F);

	for (int i = 0; i < 2; i++) {
		const p4d_fp8_operand a = {p4d_fp8_shape_of(recipes[i], P4D_FP8_GRADIENT, N, H),
					   take(r, (uint64_t)N * H), take(r, (uint64_t)N * H)},
				      b = {p4d_fp8_shape_of(recipes[i], P4D_FP8_WEIGHT, F, H),
					   take(r, (uint64_t)F * H), take(r, (uint64_t)F * H)};
		d->quantize(d, r->type, &a, NULL, x);
		d->quantize(d, r->type, NULL, &b, w);
		d->product(d, r->type, y, y, &a, &b);
	}
}

static void attention(run *r)
{
	p4d_device *d = &r->device;
	int32_t *positions = take(r, LENGTH * sizeof(*positions));
	void *qkv = elements(r, (uint64_t)N * COLUMNS), *o = elements(r, (uint64_t)N * HEADS * D);
	void *d_o = elements(r, (uint64_t)N * HEADS * D), *dqkv = elements(r, (uint64_t)N * COLUMNS);
	float *lse = reals(r, (uint64_t)HEADS * N), *row_sums = reals(r, (uint64_t)HEADS * N);
	float *sums = reals(r, (uint64_t)N * COLUMNS), *rope = reals(r, (uint64_t)LENGTH * D);
	const uint64_t e = r->type == P4D_DT_BF16 ? 2 : 4, q = (uint64_t)HEADS * D, kv = (uint64_t)KV * D;
	const p4d_heads heads = {
	    .n = N, .length = LENGTH, .heads = HEADS, .kv_heads = KV, .head_dim = D, .rope = rope};
	p4d_attention_shape shape = {.batch = 2,
				     .queries = LENGTH,
				     .keys = LENGTH,
				     .heads = HEADS,
				     .kv_heads = KV,
				     .head_dim = D,
				     .query_position = positions,
				     .key_position = positions,
				     .query_stride = COLUMNS,
				     .key_stride = COLUMNS,
				     .scale = 0.1f};
	/* it depends on timing which thread uses which part of the scratch memory */
	void *workspace = calloc(1, ROOM);

	for (int i = 0; i < LENGTH; i++)
		positions[i] = i;
	d->heads(d, r->type, qkv, NULL, &heads);
	d->attention(d, r->type, o, lse, qkv, (char *)qkv + q * e, (char *)qkv + (q + kv) * e, &shape,
		     workspace);
	shape.output = o;
	d->attention_gradient(d, r->type, dqkv, sums, d_o, lse, row_sums, qkv, &shape, workspace);
	d->heads_backward(d, r->type, dqkv, qkv, NULL, &heads, NULL, NULL, NULL);
	d->heads_backward(d, r->type, dqkv, qkv, NULL, &heads, reals(r, COLUMNS), NULL, NULL);
	d->attention_merge(d, r->type, reals(r, (uint64_t)N * HEADS * D), reals(r, (uint64_t)HEADS * N), o,
			   lse, N, HEADS, D, false);
	free(workspace);
}

static void norms(run *r)
{
	p4d_device *d = &r->device;
	void *x = elements(r, (uint64_t)N * H), *y = elements(r, (uint64_t)N * H), *w = elements(r, H);
	void *b = elements(r, H), *dx = elements(r, (uint64_t)N * H);
	float *rstd = reals(r, 2 * (uint64_t)N), *dw = reals(r, H), *db = reals(r, H);

	d->norm(d, r->type, y, rstd, x, w, N, H, 1e-5f);
	d->norm_backward(d, r->type, dx, dw, y, x, w, rstd, N, H);
	d->unit_norm(d, r->type, y, rstd, x, w, N, H, 1e-5f);
	d->unit_norm_backward(d, r->type, dx, dw, y, x, w, rstd, N, H);
	d->layer_norm(d, r->type, y, rstd, x, w, b, N, H, 1e-5f);
	d->layer_norm_backward(d, r->type, dx, dw, db, y, x, w, rstd, N, H);
	d->add_bias(d, r->type, y, b, N, H);
	d->bias_backward(d, r->type, db, y, N, H);
	d->add(d, r->type, y, y, dx, (uint64_t)N * H);
	d->scale(d, r->type, y, 0.7f, (uint64_t)N * H);
}

static void activations(run *r)
{
	p4d_device *d = &r->device;
	void *gate_up = elements(r, (uint64_t)N * 2 * F), *act = elements(r, (uint64_t)N * F);
	void *up = elements(r, (uint64_t)N * F), *dact = elements(r, (uint64_t)N * F);
	void *other = elements(r, (uint64_t)N * 2 * F);

	d->swiglu(d, r->type, act, gate_up, N, F);
	d->swiglu_backward(d, r->type, gate_up, act, dact, N, F);
	d->geglu(d, r->type, act, other, N, F);
	d->geglu_backward(d, r->type, other, act, dact, N, F);
	d->gelu(d, r->type, act, up, N, F);
	d->gelu_backward(d, r->type, up, act, dact, N, F);
	d->soft_cap(d, r->type, up, F, N, F, 3);
}

static void losses_and_optimizer(run *r)
{
	p4d_device *d = &r->device;
	void *logits = elements(r, (uint64_t)N * V), *parameter = elements(r, (uint64_t)N * V);
	float *maximum = reals(r, N), *sum = reals(r, N), *target = reals(r, N);
	float *gradient = reals(r, (uint64_t)N * V), *first = reals(r, (uint64_t)N * V);
	float *second = reals(r, (uint64_t)N * V), *master = reals(r, (uint64_t)N * V);
	int32_t *labels = take(r, N * sizeof(*labels));
	uint16_t *half_first = take(r, (uint64_t)N * V * sizeof(*half_first)),
		 *half_second = take(r, (uint64_t)N * V * sizeof(*half_second));
	double *squares = take(r, sizeof(*squares));
	uint64_t *number = take(r, sizeof(*number));
	const p4d_adam adam = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f, 0.5f};

	for (int i = 0; i < N; i++)
		labels[i] = i % 7 ? i * 3 % V : -1;
	for (uint64_t i = 0; i < (uint64_t)N * V; i++)
		second[i] = fabsf(second[i]);
	d->softmax_sums(d, r->type, maximum, sum, target, logits, V, labels, N, V, 0);
	d->cross_entropy(d, r->type, maximum, sum, target, logits, V, labels, N, V, 0.1f, 0.01f);
	d->capped_gradient(d, r->type, logits, V, maximum, sum, labels, N, V, 0, 0.1f, 0.01f, 5);
	d->accumulate(d, gradient, r->type, logits, (uint64_t)N * V);
	d->sum_squares(d, squares, gradient, (uint64_t)N * V);
	d->adam(d, r->type, parameter, r->type == P4D_DT_BF16 ? master : NULL, first, second, gradient,
		(uint64_t)N * V, &adam);
	d->adam_half(d, r->type, parameter, r->type == P4D_DT_BF16 ? master : NULL, half_first, half_second,
		     gradient, (uint64_t)N * V, &adam,
		     &(p4d_rounding){.key = 9, .columns = (uint64_t)N * V, .stride = (uint64_t)N * V});
	gradient[5] = gradient[N * V - 1] = NAN;
	d->count_nonfinite(d, number, gradient, (uint64_t)N * V);
	assert_int_equal(*number, 2);
}

static run *run_with(uint32_t threads, p4d_dtype type, void (*cases)(run *))
{
	run *r = calloc(1, sizeof(*r));
	void *scratch = calloc(1, ROOM);
	p4d_error err;

	assert_non_null(r);
	assert_int_equal(p4d_device_cpu_open(&r->device, &err), 0);
	p4d_device_cpu_threads(threads);
	r->device.set_workspace(&r->device, scratch, ROOM, NULL, 0);
	r->type = type;
	cases(r);
	r->device.close(&r->device);
	free(scratch);
	return r;
}

static void same_with_any_number(void (*cases)(run *))
{
	static const p4d_dtype types[] = {P4D_DT_FP32, P4D_DT_BF16};

	for (int t = 0; t < 2; t++) {
		run *one = run_with(1, types[t], cases);
		for (uint32_t threads = 2; threads <= PARTS; threads++) {
			run *more = run_with(threads, types[t], cases);
			assert_int_equal(one->used, more->used);
			for (int i = 0; i < one->used; i++) {
				if (memcmp(one->memory[i], more->memory[i], one->bytes[i]) != 0)
					fail_msg("with %u threads memory %d differs, type %d", threads, i,
						 (int)types[t]);
				free(more->memory[i]);
			}
			free(more);
		}
		for (int i = 0; i < one->used; i++)
			free(one->memory[i]);
		free(one);
	}
}

#define CASES(name) \
	static void name##_are_the_same(void **state) \
	{ \
		(void)state; \
		same_with_any_number(name); \
	}
CASES(products)
CASES(fp8_products)
CASES(attention)
CASES(norms)
CASES(activations)
CASES(losses_and_optimizer)

/* Checks that the operations divide their work. Otherwise the tests above would show nothing. */
static void work_is_divided(void **state)
{
	(void)state;
	p4d_device_cpu_threads(PARTS);
	if (p4d_cpu_threads != PARTS) /* built without OpenMP */
		skip();
	assert_int_equal(p4d_cpu_team((uint64_t)N * H), PARTS);
	assert_int_equal(p4d_cpu_team(1000), 1);
	assert_int_equal(p4d_cpu_team_of(2, (uint64_t)N * H), 2);
	p4d_device_cpu_threads(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(products_are_the_same),    cmocka_unit_test(fp8_products_are_the_same),
	    cmocka_unit_test(attention_are_the_same),   cmocka_unit_test(norms_are_the_same),
	    cmocka_unit_test(activations_are_the_same), cmocka_unit_test(losses_and_optimizer_are_the_same),
	    cmocka_unit_test(work_is_divided),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
