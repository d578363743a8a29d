/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one thread of the cpu device: matmuls alone, attention alone, and whole training steps compared
 * with the rate of matmuls in the same run. It only prints: a long time is no failure. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/products.h"
#include "support/llama.h"

enum { ROUNDS = 5 };

static double seconds_of(void (*f)(void *), void *context)
{
	const double start = thread_seconds();

	f(context);
	return thread_seconds() - start;
}

/* FLOP/s of f, which computes `flop` FLOPs, and FLOP/s of matmuls. Both run in turn, because the machine's
 * speed changes during the test. */
typedef struct rates {
	double f, products;
} rates;

static rates measure(const products *p, void (*f)(void *), void *context, double flop)
{
	double product_flop = 0, product_seconds = 0, seconds = 0;

	f(context);
	for (int i = 0; i < ROUNDS; i++) {
		const double took = seconds_of(f, context);
		seconds += took;
		products_run(p, took, &product_flop, &product_seconds);
	}
	return (rates){ROUNDS * flop / seconds, product_flop / product_seconds};
}

static const char *name_of(p4d_dtype type)
{
	return type == P4D_DT_BF16 ? "bf16" : "fp32";
}

typedef struct attention {
	p4d_device *device;
	p4d_dtype type;
	p4d_attention_shape shape;
	void *qkv, *o, *workspace;
	float *sums, *lse;
} attention;

static char *column(const attention *a, uint64_t at)
{
	return (char *)a->qkv + at * (a->type == P4D_DT_BF16 ? 2 : 4);
}

static void attention_forward(void *context)
{
	attention *a = context;
	const uint64_t q = a->shape.heads * a->shape.head_dim, kv = a->shape.kv_heads * a->shape.head_dim;

	a->device->attention(a->device, a->type, a->o, a->lse, a->qkv, column(a, q), column(a, q + kv),
			     &a->shape, a->workspace);
}

static void attention_backward(void *context)
{
	attention *a = context;
	const uint64_t q = a->shape.heads * a->shape.head_dim, kv = a->shape.kv_heads * a->shape.head_dim;

	/* The output replaces its gradient, and the lse replaces the row sums. The values do not matter
	 * for the time. */
	a->device->attention_backward(a->device, a->type, a->sums, a->sums + q, a->sums + q + kv, a->o,
				      a->lse, a->lse, a->qkv, column(a, q), column(a, q + kv), &a->shape,
				      a->workspace);
}

static void attention_speed(p4d_device *device, p4d_dtype type, uint64_t length, const products *p)
{
	enum { TOKENS = 2048, HEADS = 4, KV_HEADS = 2, D = 64, COLUMNS = (HEADS + 2 * KV_HEADS) * D };
	int32_t *positions = calloc(length, sizeof(*positions));
	attention a = {.device = device,
		       .type = type,
		       .shape = {.batch = TOKENS / length,
				 .queries = length,
				 .keys = length,
				 .heads = HEADS,
				 .kv_heads = KV_HEADS,
				 .head_dim = D,
				 .query_position = positions,
				 .key_position = positions,
				 .query_stride = COLUMNS,
				 .key_stride = COLUMNS,
				 .scale = 0.125f},
		       .qkv = numbers(TOKENS * COLUMNS),
		       .o = numbers(TOKENS * HEADS * D),
		       .workspace = numbers(P4D_ATTENTION_TILE * (2 * P4D_ATTENTION_TILE + 5 * D)),
		       .sums = numbers(TOKENS * COLUMNS),
		       .lse = numbers(TOKENS * HEADS)};
	/* With a causal mask, a query sees half of all keys. The forward pass has 2 matmuls and the
	 * backward pass 5, with 2 FLOPs for each element of a pair. */
	const double pairs = 0.5 * TOKENS * (double)length * HEADS * D * 2;

	if (!positions)
		abort();
	for (uint64_t i = 0; i < length; i++)
		positions[i] = (int32_t)i;
	if (type == P4D_DT_BF16) {
		float *from = numbers(TOKENS * COLUMNS);
		device->cast(device, type, a.qkv, P4D_DT_FP32, from, TOKENS * COLUMNS);
		device->cast(device, type, a.o, P4D_DT_FP32, from, TOKENS * HEADS * D);
		free(from);
	}
	const rates ahead = measure(p, attention_forward, &a, 2 * pairs);
	const rates back = measure(p, attention_backward, &a, 5 * pairs);
	printf(
	    "device_speed: attention %s, %4u tokens: forward %.1f GFLOP/s, backward %.1f (%.2f and %.2f of "
	    "products)\n",
	    name_of(type), (unsigned)length, ahead.f / 1e9, back.f / 1e9, ahead.f / ahead.products,
	    back.f / back.products);
	free(positions), free(a.qkv), free(a.o), free(a.workspace), free(a.sums), free(a.lse);
}

typedef struct step {
	llama model;
	int32_t *tokens, *labels;
} step;

static void one_step(void *context)
{
	step *s = context;
	const p4d_adam adam = {.learning_rate = 1e-4f,
			       .beta1 = 0.9f,
			       .beta2 = 0.95f,
			       .epsilon = 1e-8f,
			       .weight_decay = 0.1f,
			       .correction1 = 1,
			       .correction2 = 1,
			       .gradient_scale = 1};
	double squares = 0;

	llama_gradients(&s->model, s->tokens, s->labels);
	s->model.device->sum_squares(s->model.device, &squares, s->model.gradients, s->model.parameters);
	llama_adam(&s->model, &adam);
}

static void step_speed(p4d_device *device, p4d_dtype type, const products *p)
{
	const llama_shape shape = {.layers = 4,
				   .hidden = 256,
				   .ffn = 896,
				   .heads = 4,
				   .kv_heads = 4,
				   .head_dim = 64,
				   .vocab = 256,
				   .batch = 8,
				   .length = 256};
	step s;

	llama_open(&s.model, device, type, &shape, 0.1f);
	s.tokens = calloc(s.model.n, sizeof(*s.tokens));
	s.labels = calloc(s.model.n, sizeof(*s.labels));
	if (!s.tokens || !s.labels)
		abort();
	for (uint32_t i = 0; i < s.model.n; i++) {
		s.tokens[i] = (int32_t)(llama_mixed(1, i) % shape.vocab);
		s.labels[i] = (int32_t)(llama_mixed(2, i) % shape.vocab);
	}
	const double flop = llama_flop(&shape);
	const rates r = measure(p, one_step, &s, flop);
	printf("device_speed: step %s, %.1fM parameters, %u sequences of %u: %.0f ms, %.0f tokens/s, %.1f "
	       "GFLOP/s of %.1f: %.2f of products (target 0.60)\n",
	       name_of(type), (double)s.model.parameters / 1e6, (unsigned)shape.batch, (unsigned)shape.length,
	       1e3 * flop / r.f, (double)s.model.n * r.f / flop, r.f / 1e9, r.products / 1e9,
	       r.f / r.products);
	free(s.tokens), free(s.labels);
	llama_close(&s.model);
}

static void one_product(void *context)
{
	const products *p = context;
	double flop = 0, seconds = 0;

	products_run(p, 0, &flop, &seconds);
}

int main(void)
{
	static const p4d_dtype types[] = {P4D_DT_FP32, P4D_DT_BF16};
	p4d_device device;
	void *workspace;

	if (p4d_device_cpu_open(&device, NULL) < 0 ||
	    device.allocate(&device, P4D_CPU_PRODUCT_BYTES, &workspace, NULL) < 0)
		return 1;
	device.set_workspace(&device, workspace, P4D_CPU_PRODUCT_BYTES, NULL, 0);
	products fp32 = products_make(&device, P4D_DT_FP32), bf16 = products_make(&device, P4D_DT_BF16);
	const rates r = measure(&fp32, one_product, &bf16, 2.0 * PRODUCT_SIZE * PRODUCT_SIZE * PRODUCT_SIZE);
	printf("device_speed: products of %d x %d: fp32 %.1f GFLOP/s, bf16 %.1f\n", PRODUCT_SIZE,
	       PRODUCT_SIZE, r.products / 1e9, r.f / 1e9);
	for (int i = 0; i < 2; i++) {
		attention_speed(&device, types[i], 256, &fp32);
		attention_speed(&device, types[i], 2048, &fp32);
		step_speed(&device, types[i], &fp32);
	}
	products_free(&fp32);
	products_free(&bf16);
	device.release(&device, workspace);
	device.close(&device);
	return 0;
}
