/* SPDX-License-Identifier: Apache-2.0 */
/* All operations of a device together: loss and gradients of a tiny Llama, compared with JAX in float64. */
#include "support/support.h"

#include <math.h>

#include "support/device_under_test.h"
#include "support/llama.h"

enum { STEPS = 25, BATCH = 2, LENGTH = 24, VOCAB = 48 };

/* The sizes in tests/parity/make_oracle.py. */
static const llama_shape shape = {.layers = 2,
				  .hidden = 16,
				  .ffn = 40,
				  .heads = 4,
				  .kv_heads = 2,
				  .head_dim = 4,
				  .vocab = VOCAB,
				  .batch = BATCH,
				  .length = LENGTH};

static void text(int32_t *tokens, int32_t *labels)
{
	for (uint32_t b = 0; b < BATCH; b++)
		for (uint32_t i = 0; i < LENGTH; i++)
			tokens[b * LENGTH + i] = (int32_t)(llama_mixed(1000 + b, i) % VOCAB);
	for (uint32_t b = 0; b < BATCH; b++)
		for (uint32_t i = 0; i < LENGTH; i++)
			labels[b * LENGTH + i] =
			    i + 1 < LENGTH && i % 7 != 3 ? tokens[b * LENGTH + i + 1] : -1;
}

static FILE *open_oracle(void)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/data/llama_oracle.txt", dir ? dir : ".");
	FILE *file = fopen(path, "r");
	if (!file)
		fail_msg("cannot read %s", path);
	return file;
}

/* Compares the loss and the gradients of every tensor; relative errors (L2) are at most `limit`. */
static void compare(p4d_dtype type, double limit)
{
	int32_t tokens[BATCH * LENGTH], labels[BATCH * LENGTH];
	p4d_device device;
	char word[LLAMA_NAME];
	double expected, worst = 0;
	llama m;
	FILE *oracle = open_oracle();

	assert_int_equal(open_device_under_test(&device, NULL), 0);
	llama_open(&m, &device, type, &shape, 1);
	text(tokens, labels);
	const double loss = llama_gradients(&m, tokens, labels);
	float *gradients = malloc(m.parameters * sizeof(*gradients));
	assert_non_null(gradients);
	fetch(&device, gradients, m.gradients, m.parameters * sizeof(*gradients));
	assert_int_equal(fscanf(oracle, "#%*[^\n] loss %lf", &expected), 1);
	if (!(fabs(loss - expected) <= limit * expected))
		fail_msg("loss %.9g, not %.9g", loss, expected);
	for (uint64_t t = 0; t < m.tensors; t++) {
		unsigned long long count;
		double difference = 0, length = 0;
		assert_int_equal(fscanf(oracle, " tensor %31s %llu", word, &count), 2);
		assert_string_equal(word, m.tensor[t].name);
		assert_int_equal(count, m.tensor[t].count);
		for (uint64_t i = 0; i < count; i++) {
			assert_int_equal(fscanf(oracle, "%lf", &expected), 1);
			const double off = (double)gradients[m.tensor[t].offset + i] - expected;
			difference += off * off;
			length += expected * expected;
		}
		const double relative = sqrt(difference / length);
		worst = fmax(worst, relative);
		if (!(relative <= limit))
			fail_msg("%s: off by %.3g", word, relative);
	}
	print_message("worst tensor: %.2g\n", worst);
	assert_int_equal(fscanf(oracle, "%31s", word), EOF);
	fclose(oracle);
	free(gradients);
	llama_close(&m);
	device.close(&device);
}

static void fp32_agrees(void **state)
{
	(void)state;
	compare(P4D_DT_FP32, 1e-5);
}

/* Weights and activations have 8 significant bits, so each has an error of 2^-9, over some tens of
 * roundings in a row. */
static void bf16_agrees(void **state)
{
	(void)state;
	test_skip_where_few();
	compare(P4D_DT_BF16, 5e-2);
}

/* Training on one text lowers its loss, in fp32 and with a master copy. A second training gives the same
 * bits. */
static double train(p4d_dtype type, int steps)
{
	int32_t tokens[BATCH * LENGTH], labels[BATCH * LENGTH];
	p4d_device device;
	llama m;
	double loss = 0;

	assert_int_equal(open_device_under_test(&device, NULL), 0);
	llama_open(&m, &device, type, &shape, 1);
	text(tokens, labels);
	for (int i = 1; i <= steps; i++) {
		const p4d_adam adam = {.learning_rate = 0.02f,
				       .beta1 = 0.9f,
				       .beta2 = 0.95f,
				       .epsilon = 1e-8f,
				       .weight_decay = 0,
				       .correction1 = 1 - powf(0.9f, (float)i),
				       .correction2 = 1 - powf(0.95f, (float)i),
				       .gradient_scale = 1};
		loss = llama_gradients(&m, tokens, labels);
		llama_adam(&m, &adam);
	}
	llama_close(&m);
	device.close(&device);
	return loss;
}

static void learns(void **state)
{
	static const p4d_dtype types[] = {P4D_DT_FP32, P4D_DT_BF16};

	(void)state;
	test_skip_where_few();
	for (int i = 0; i < 2; i++) {
		const double first = train(types[i], 1), last = train(types[i], STEPS);
		print_message("loss %.4f -> %.4f\n", first, last);
		assert_true(last < first / 10);
		assert_true(train(types[i], 2) == train(types[i], 2));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fp32_agrees),
	    cmocka_unit_test(bf16_agrees),
	    cmocka_unit_test(learns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
