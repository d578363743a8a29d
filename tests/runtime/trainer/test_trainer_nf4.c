/* SPDX-License-Identifier: Apache-2.0 */
/* QLoRA on one rank. Frozen matrices have the codes of bitsandbytes, and 20 steps with adapters have
 * PEFT's losses. test_trainer_pairs compares layouts. */
#include "support/support.h"

#include <math.h>

#include "model/buffers.h"
#include "support/llama.h"
#include "support/training.h"
#include "trainer/trainer_internal.h"

/* The sizes of tests/parity/make_qlora.py. */
enum { BATCH = 2, LENGTH = 24, VOCAB = 48, STEPS = 20, ADAPTERS = 500, LAYERS = 2 };
#define RATE 2e-4f
#define MODEL \
	"model=custom layers=2 hidden=128 ffn=384 heads=4 kv-heads=2 head-dim=32 vocab=48 tied=off " \
	"bias=none " \
	"qk-norm=off seq-len=24 global-batch=2 tp=1 cp=1 pp=1 vpp=1 finetune=qlora lora-rank=3 "

static int text(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch, p4d_error *err)
{
	const p4d_layout *l = context;

	(void)step, (void)err;
	for (uint32_t k = 0; k < l->micro_batch; k++) {
		const uint32_t b = micro_batch * (uint32_t)l->micro_batch + k;
		for (uint32_t i = 0; i < LENGTH; i++) {
			const int32_t next = (int32_t)(llama_mixed(1000 + b, i + 1) % VOCAB);
			if (batch->tokens)
				batch->tokens[k * LENGTH + i] = (int32_t)(llama_mixed(1000 + b, i) % VOCAB);
			if (batch->labels)
				batch->labels[k * LENGTH + i] = i + 1 < LENGTH && i % 7 != 3 ? next : -1;
		}
	}
	return 0;
}

typedef struct job {
	p4d_layout layout;
	p4d_device device;
	p4d_world *world;
	p4d_trainer *trainer;
	FILE *oracle;
} job;

static void open_job(job *j, const char *options)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	p4d_error err = {0};
	p4d_ranks ranks;
	char path[4096];

	if (training_layout(options, 1, &j->layout, &err) < 0 || p4d_ranks_local(&ranks, 1, &err) < 0 ||
	    p4d_world_open(&j->world, &ranks, &err) < 0 || p4d_device_cpu_open(&j->device, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	p4d_trainer_settings settings = training_settings(&j->layout, &j->device, j->world, VOCAB);
	settings.optimizer.weight_decay = 0;
	settings.optimizer.clip = 0;
	if (p4d_trainer_open(&j->trainer, &settings, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	snprintf(path, sizeof(path), "%s/tests/data/qlora_oracle.txt", dir ? dir : ".");
	j->oracle = fopen(path, "r");
	assert_non_null(j->oracle);
	assert_int_equal(fscanf(j->oracle, "#%*[^\n]"), 0);
}

static void close_job(job *j)
{
	fclose(j->oracle);
	p4d_trainer_close(j->trainer);
	j->device.close(&j->device);
	p4d_world_close(j->world);
}

/* ---- weights ---- */

/* An element of a tensor, as in make_qlora.py. Tensors are numbered in the order of the weights. The rows
 * of a layer's matrices have five lengths. */
static float number_of(const p4d_weight *w, uint32_t number, uint64_t i)
{
	if (w->columns == 1)
		return llama_weight(number, (uint32_t)i, true);
	if (!p4d_weights_layers_of(w->kind).count)
		return llama_weight(number, (uint32_t)i, false);
	return llama_weight(number, (uint32_t)i, false) * (float)(1 + i / w->columns % 5) / 4;
}

/* Writes a tensor in parts of a few elements. */
static void write_quantized(job *j, const p4d_weight *w, uint32_t number)
{
	enum { AT_ONCE = 4096 };
	float numbers[AT_ONCE];
	p4d_quantized_part parts[P4D_SLICES_OF_WEIGHT];
	const unsigned count = p4d_weights_quantized_parts(&j->layout, (p4d_place){0}, VOCAB, w, parts);
	uint64_t before = 0;

	for (unsigned k = 0; k < count; k++) {
		const uint64_t all = parts[k].slice.rows * parts[k].slice.columns;
		for (uint64_t at = 0; at < all; at += AT_ONCE) {
			for (uint64_t i = 0; i < AT_ONCE; i++)
				numbers[i] = number_of(w, number, before + at + i);
			assert_int_equal(
			    p4d_trainer_write_quantized(j->trainer, w, &parts[k], at, numbers, AT_ONCE, NULL),
			    0);
		}
		before += all;
	}
}

static void write_weights(job *j)
{
	const p4d_weights *w = p4d_trainer_weights(j->trainer);
	float *values = calloc(w->elements + w->frozen, sizeof(*values));

	assert_int_equal(p4d_trainer_initialize_trained(j->trainer, 1, NULL), 0); /* moments are 0 */
	for (uint32_t i = 0; i < w->count; i++) {
		const p4d_weight *one = &w->weight[i];
		const bool is_b = p4d_weights_adapts(one->kind) && (one->kind - P4D_W_ADAPTER) % 2;
		const uint32_t number = one->frozen ? i - w->trained : ADAPTERS + i;
		if (one->quantized)
			write_quantized(j, one, number);
		for (uint64_t k = 0; !one->quantized && k < one->rows * one->columns; k++)
			values[one->offset + k] =
			    one->frozen ? number_of(one, number, k)
					: llama_weight(number, (uint32_t)k, false) / (is_b ? 8 : 1);
	}
	for (uint32_t i = 0; i < w->segments; i++)
		assert_int_equal(
		    p4d_trainer_write(j->trainer, i, P4D_STATE_MASTER, values + w->segment[i].offset, NULL),
		    0);
	assert_int_equal(p4d_trainer_restore(j->trainer, NULL), 0);
	p4d_trainer_write_frozen(j->trainer, w->elements, values + w->elements, w->frozen);
	free(values);
}

/* ---- the codes of frozen matrices ---- */

static uint32_t crc32(const uint8_t *bytes, uint64_t count)
{
	uint32_t crc = UINT32_MAX;

	for (uint64_t i = 0; i < count; i++) {
		crc ^= bytes[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* Counts the codes that differ. On the CPU, bitsandbytes sometimes takes a neighbouring code. */
static unsigned compare_blocks(FILE *oracle, const char *name, const uint8_t *codes, uint64_t count)
{
	unsigned others = 0, code;

	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(fscanf(oracle, i ? "%2x" : " %2x", &code), 1);
		if (abs((int)code - codes[i]) > 1)
			fail_msg("%s: block %u has code %u, not %u", name, (unsigned)i, codes[i], code);
		others += code != codes[i];
	}
	return others;
}

static unsigned compare_tensor(FILE *oracle, const p4d_nf4_shape *s, const uint8_t *at)
{
	const uint64_t elements = s->rows * s->columns, groups = p4d_nf4_groups(s) + 1;
	uint32_t codes;
	unsigned long long count;
	const float *group = (const float *)at;
	char name[64];
	double expected;

	assert_int_equal(fscanf(oracle, " quantized %63s %" SCNu32 " %llu", name, &codes, &count), 3);
	if (crc32(at + p4d_nf4_codes_at(s), elements / 2) != codes)
		fail_msg("%s: other codes", name);
	assert_int_equal(count, groups);
	for (uint64_t i = 0; i < groups; i++) {
		assert_int_equal(fscanf(oracle, "%lf", &expected), 1);
		/* bitsandbytes adds the scales in another order */
		if (!(fabs((double)group[i] - expected) <= 2e-7 * expected))
			fail_msg("%s: scale %.9g, not %.9g", name, (double)group[i], expected);
	}
	return compare_blocks(oracle, name, at + p4d_nf4_block_codes_at(s), p4d_nf4_blocks(elements));
}

static void compare_codes(job *j)
{
	const uint8_t *at = p4d_buffers_at(&j->trainer->net, B_QUANTIZED);
	unsigned others = 0, expected;

	for (unsigned layer = 0; layer < LAYERS; layer++)
		for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
			const p4d_nf4_shape s = p4d_nf4_shape_of(&j->layout, i);
			others += compare_tensor(j->oracle, &s, at);
			at += p4d_nf4_bytes(&s);
		}
	assert_int_equal(fscanf(j->oracle, " others %u", &expected), 1);
	assert_int_equal(others, expected);
}

static void codes_are_those_of_bitsandbytes(void **state)
{
	p4d_weight_kind kind[] = {P4D_W_QKV, P4D_W_OUTPUT, P4D_W_GATE_UP, P4D_W_DOWN};
	job j;

	(void)state;
	open_job(&j, MODEL "precision=fp32 micro-batch=2");
	write_weights(&j);
	compare_codes(&j);
	/* all matrices of a layer are quantized */
	for (int i = 0; i < 4; i++)
		assert_null(p4d_buffers__weight(&j.trainer->net, kind[i], 0));
	close_job(&j);
}

/* ---- the training of adapters ---- */

static double worst;

static void near(const char *what, double is, double expected, double scale, double limit)
{
	const double off = fabs(is - expected) / scale;

	worst = fmax(worst, off);
	if (!(off <= limit))
		fail_msg("%s: %.9g, not %.9g", what, is, expected);
}

static void compare_adapters(job *j, double limit)
{
	const p4d_weights *w = p4d_trainer_weights(j->trainer);
	const float *parameters = p4d_buffers_at(&j->trainer->net, B_PARAMETERS);
	double length, total;
	char name[64];

	for (uint32_t t = 0; t < w->trained; t++) {
		const p4d_weight *one = &w->weight[t];
		double squares = 0, sum = 0;
		assert_int_equal(fscanf(j->oracle, " adapter %63s %lf %lf", name, &length, &total), 3);
		for (uint64_t i = 0; i < one->rows * one->columns; i++) {
			const double x = (double)parameters[one->offset + i];
			squares += x * x;
			sum += x;
		}
		near(name, sqrt(squares), length, length, limit);
		near(name, sum, total, length, 10 * limit);
	}
	assert_int_equal(fscanf(j->oracle, "%63s", name), EOF);
}

static void train_as_peft(const char *options, double limit, bool adapters)
{
	p4d_step_result result;
	double loss, norm;
	p4d_error err;
	job j;

	open_job(&j, options);
	write_weights(&j);
	assert_int_equal(j.device.allocated_bytes, p4d_trainer_plan(j.trainer)->arena_bytes);
	for (unsigned i = 0; i < LAYERS * P4D_ADAPTED_LAYERS; i++)
		assert_int_equal(fscanf(j.oracle, " quantized%*[^\n] %*s"), 0);
	assert_int_equal(fscanf(j.oracle, " others %*u"), 0);
	worst = 0;
	for (uint64_t step = 1; step <= STEPS; step++) {
		if (p4d_trainer_step(j.trainer, step, RATE, text, &j.layout, &result, &err) < 0)
			fail_msg("%s", err.text);
		assert_int_equal(fscanf(j.oracle, " step %lf %lf", &loss, &norm), 2);
		near("loss", result.loss, loss, loss, limit);
		near("norm", result.gradient_norm, norm, norm, 10 * limit);
	}
	if (adapters)
		compare_adapters(&j, limit);
	print_message("%s: off by at most %.2g\n", options + strlen(MODEL), worst);
	close_job(&j);
}

static void steps_are_those_of_peft(void **state)
{
	(void)state;
	train_as_peft(MODEL "precision=fp32 micro-batch=2", 2e-6, true);
	train_as_peft(MODEL "precision=fp32 micro-batch=1 schedule=zb1p recompute=mlp", 2e-6, true);
	train_as_peft(MODEL "precision=fp32 micro-batch=1 recompute=full", 2e-6, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(codes_are_those_of_bitsandbytes),
	    cmocka_unit_test(steps_are_those_of_peft),
	};
	return cmocka_run_group_tests_name("QLoRA", tests, NULL, NULL);
}
