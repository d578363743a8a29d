/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers other than AdamW on one rank: 20 steps of bitsandbytes' AdamW8bit, with the same codes of
 * moments, and of PyTorch's Muon. test_trainer_pairs compares layouts. */
#include "support/support.h"

#include <math.h>
#include <sys/mman.h>

#include "support/forked.h"
#include "support/llama.h"
#include "support/training.h"
#include "trainer/trainer_internal.h"

/* The sizes of tests/parity/make_optimizers.py. */
enum { BATCH = 2, LENGTH = 24, VOCAB = 47, STEPS = 20, LAYERS = 2 };
#define SHOWN "model.layers.0.self_attn.k_proj.weight"
#define MODEL \
	"model=custom layers=2 hidden=120 ffn=100 heads=4 kv-heads=2 head-dim=30 vocab=47 tied=off " \
	"bias=none qk-norm=off seq-len=24 global-batch=2 tp=1 cp=1 pp=1 vpp=1 precision=fp32 "

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
	float rate, epsilon;
} job;

/* Moves in the oracle's file to the line after the name of this run. */
static void find_run(job *j, const char *wanted)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	char path[4096], word[64], name[64];

	snprintf(path, sizeof(path), "%s/tests/data/optimizers_oracle.txt", dir ? dir : ".");
	j->oracle = fopen(path, "r");
	assert_non_null(j->oracle);
	while (fscanf(j->oracle, "%63s", word) == 1)
		if (!strcmp(word, "run") &&
		    fscanf(j->oracle, "%63s %f %f", name, &j->rate, &j->epsilon) == 3 &&
		    !strcmp(name, wanted))
			return;
	fail_msg("no run %s", wanted);
}

static void open_job(job *j, const char *options, const char *run)
{
	p4d_error err = {0};
	p4d_ranks ranks;

	if (training_layout(options, 1, &j->layout, &err) < 0 || p4d_ranks_local(&ranks, 1, &err) < 0 ||
	    p4d_world_open(&j->world, &ranks, &err) < 0 || p4d_device_cpu_open(&j->device, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	p4d_trainer_settings settings = training_settings(&j->layout, &j->device, j->world, VOCAB);
	find_run(j, run);
	settings.optimizer.clip = 0;
	settings.optimizer.epsilon = j->epsilon;
	if (p4d_trainer_open(&j->trainer, &settings, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	assert_int_equal(j->device.allocated_bytes, p4d_trainer_plan(j->trainer)->arena_bytes);
}

static void close_job(job *j)
{
	fclose(j->oracle);
	p4d_trainer_close(j->trainer);
	j->device.close(&j->device);
	p4d_world_close(j->world);
}

/* An element of a tensor, as in make_optimizers.py. Tensors are numbered in the order of the weights. The
 * rows of a layer's matrices have five lengths. */
static float number_of(const p4d_weight *w, uint32_t number, uint64_t i)
{
	if (w->columns == 1)
		return llama_weight(number, (uint32_t)i, true);
	if (!p4d_weights_layers_of(w->kind).count)
		return llama_weight(number, (uint32_t)i, false);
	return llama_weight(number, (uint32_t)i, false) * (float)(1 + i / w->columns % 5) / 16;
}

static void write_weights(job *j)
{
	const p4d_weights *w = p4d_trainer_weights(j->trainer);
	float *values = calloc(w->elements, sizeof(*values));

	assert_int_equal(p4d_trainer_initialize(j->trainer, 1, NULL), 0); /* moments are 0 */
	for (uint32_t i = 0; i < w->count; i++)
		for (uint64_t k = 0; k < w->weight[i].rows * w->weight[i].columns; k++)
			values[w->weight[i].offset + k] = number_of(&w->weight[i], i, k);
	for (uint32_t i = 0; i < w->segments; i++)
		assert_int_equal(
		    p4d_trainer_write(j->trainer, i, P4D_STATE_MASTER, values + w->segment[i].offset, NULL),
		    0);
	assert_int_equal(p4d_trainer_restore(j->trainer, NULL), 0);
	free(values);
}

static double worst;

static void near(const char *what, double is, double expected, double scale, double limit)
{
	const double off = fabs(is - expected) / scale;

	worst = fmax(worst, off);
	if (!(off <= limit))
		fail_msg("%s: %.9g, not %.9g", what, is, expected);
}

static void near_norm(double is, double expected)
{
	if (!(fabs(is - expected) <= 1e-4 * expected))
		fail_msg("norm: %.9g, not %.9g", is, expected);
}

/* Reads a state of the only segment. The caller frees the result. */
static float *state_of(job *j, p4d_state state)
{
	const p4d_weights *w = p4d_trainer_weights(j->trainer);
	float *values = calloc(w->elements, sizeof(*values));

	assert_int_equal(w->segments, 1);
	assert_int_equal(p4d_trainer_read(j->trainer, 0, state, values, NULL), 0);
	return values;
}

static p4d_weight_slice slice_of(job *j, const char *name)
{
	const p4d_weights *w = p4d_trainer_weights(j->trainer);
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];

	for (uint32_t i = 0; i < w->count; i++) {
		const unsigned count =
		    p4d_weight_slices_of(&j->layout, (p4d_place){0}, VOCAB, &w->weight[i], slices);
		for (unsigned k = 0; k < count; k++)
			if (!strcmp(slices[k].name, name))
				return slices[k];
	}
	fail_msg("no tensor %s", name);
	return slices[0];
}

static void compare_tensors(job *j, double limit)
{
	float *parameters = state_of(j, P4D_STATE_MASTER);
	double length, total;
	char name[96];

	while (fscanf(j->oracle, " tensor %95s %lf %lf", name, &length, &total) == 3) {
		const p4d_weight_slice s = slice_of(j, name);
		double squares = 0, sum = 0;
		for (uint64_t i = 0; i < s.rows * s.columns; i++) {
			const double x = (double)parameters[s.offset + i];
			squares += x * x;
			sum += x;
		}
		near(name, sqrt(squares), length, length, limit);
		/* an element with a slightly different code drifts away later */
		near(name, sum, total, length, 50 * limit);
	}
	free(parameters);
}

static void train_as(job *j, double limit)
{
	p4d_step_result result;
	double loss, norm;
	p4d_error err;

	write_weights(j);
	worst = 0;
	for (uint64_t step = 1; step <= STEPS; step++) {
		if (p4d_trainer_step(j->trainer, step, j->rate * (float)step / STEPS, text, &j->layout,
				     &result, &err) < 0)
			fail_msg("%s", err.text);
		assert_int_equal(fscanf(j->oracle, " step %lf %lf", &loss, &norm), 2);
		if (getenv("P4D_TEST_VERBOSE"))
			print_message("%u %.9g %.9g: %.2g %.2g\n", (unsigned)step, loss, norm,
				      fabs(result.loss - loss) / loss,
				      fabs(result.gradient_norm - norm) / norm);
		near("loss", result.loss, loss, loss, limit);
		/* rounding in fp32: 3e-6 before the first update */
		near_norm(result.gradient_norm, norm);
	}
	compare_tensors(j, limit);
}

/* ---- moments in 8 bits ---- */

/* Number of a moment's codes that differ from the oracle's. If a value is in the middle between two codes,
 * it may be rounded to either. In later steps, the codes of the same element then also differ. */
static unsigned compare_moment(job *j, unsigned moment)
{
	const p4d_weight_slice s = slice_of(j, SHOWN);
	float *scales = state_of(j, 1 + moment), *codes = state_of(j, P4D_MOST_STORED - 1);
	unsigned others = 0, code;
	unsigned long long count;
	double expected;

	assert_int_equal(fscanf(j->oracle, " scales %llu", &count), 1);
	assert_int_equal(count, (s.rows * s.columns + P4D_BYTE_BLOCK - 1) / P4D_BYTE_BLOCK);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(fscanf(j->oracle, "%lf", &expected), 1);
		near("scale", (double)scales[s.offset + i * P4D_BYTE_BLOCK], expected, expected, 2e-5);
	}
	assert_int_equal(fscanf(j->oracle, " codes %llu ", &count), 1);
	assert_int_equal(count, s.rows * s.columns);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t both;
		memcpy(&both, &codes[s.offset + i], sizeof(both));
		const uint8_t mine = (uint8_t)(both >> 8 * moment);
		assert_int_equal(fscanf(j->oracle, "%2x", &code), 1);
		if (abs((int)code - mine) > 3)
			fail_msg("moment %u, element %u has code %u, not %u", moment, (unsigned)i, mine,
				 code);
		others += code != mine;
	}
	free(scales);
	free(codes);
	return others;
}

static void steps_are_those_of_bitsandbytes(void **state)
{
	const char *const options[] = {MODEL "optimizer=adamw-8bit micro-batch=2",
				       MODEL "optimizer=adamw-8bit micro-batch=1 recompute=full"};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		job j;
		open_job(&j, options[i], "adamw-8bit");
		train_as(&j, 2e-6);
		const double off = worst;
		const unsigned first = compare_moment(&j, 0), second = compare_moment(&j, 1);
		print_message("%s: off by at most %.2g; of 7200 codes %u and %u are others\n",
			      options[i] + strlen(MODEL), off, first, second);
		assert_true(first + second <= 36);
		close_job(&j);
	}
}

/* ---- Muon ---- */

static void steps_are_those_of_pytorchs_muon(void **state)
{
	const char *const options[] = {MODEL "optimizer=muon micro-batch=2",
				       MODEL "optimizer=muon micro-batch=1 recompute=full"};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		job j;
		open_job(&j, options[i], "muon");
		train_as(&j, 2e-6);
		print_message("%s: off by at most %.2g\n", options[i] + strlen(MODEL), worst);
		close_job(&j);
	}
}

/* ---- shards that end within blocks ---- */

enum { SHARED_STEPS = 3, MOST_ELEMENTS = 1 << 18 };
#define UNEVEN \
	"model=custom layers=2 hidden=72 ffn=80 heads=4 kv-heads=2 head-dim=18 vocab=47 tied=off bias=none " \
	"qk-norm=on seq-len=24 global-batch=12 micro-batch=1 tp=1 cp=1 pp=1 vpp=1 precision=fp32 " \
	"optimizer=adamw-8bit "

/* The optimizer states except the master copy, in memory that the forked ranks share. Each state has
 * MOST_ELEMENTS floats, in the order of the flat buffer. */
static float *shared;
static p4d_layout shared_layout;

static int leave_states(p4d_trainer *t, p4d_error *err)
{
	const p4d_segment *s = &p4d_trainer_weights(t)->segment[0];
	uint64_t first, count;

	CHECK(p4d_trainer_weights(t)->segments == 1 && s->padded <= MOST_ELEMENTS);
	p4d_trainer_shard(t, 0, &first, &count);
	for (p4d_state i = 1; i < P4D_MOST_STORED; i++)
		TRY(p4d_trainer_read(t, 0, i, shared + (i - 1) * MOST_ELEMENTS + first, err));
	return 0;
}

static int train_shard(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_step_result result;
	p4d_trainer *trainer;
	p4d_device device;

	(void)rank, (void)size;
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&shared_layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(p4d_trainer_initialize(trainer, 7, err));
	training_text words = {&shared_layout, p4d_trainer_place(trainer), VOCAB, false};
	for (uint64_t step = 1; step <= SHARED_STEPS; step++)
		TRY(p4d_trainer_step(trainer, step, 1e-4f, training_source, &words, &result, err));
	TRY(leave_states(trainer, err));
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static void train_shards(const char *options, uint32_t ranks)
{
	p4d_error err;
	forked f;

	memset(shared, 0, (P4D_MOST_STORED - 1) * MOST_ELEMENTS * sizeof(*shared));
	if (training_layout(options, ranks, &shared_layout, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	forked_init(&f, ranks, NULL);
	forked_start(&f, train_shard);
	if (!forked_finish(&f, 60) || !forked_all_well(&f))
		fail_msg("%u ranks", ranks);
}

/* All scales and nearly all codes equal those of one rank. */
static void ranks_agree_on_blocks(void **state)
{
	static const uint32_t ranks[] = {2, 3, 4, 12};
	const uint64_t bytes = (P4D_MOST_STORED - 1) * MOST_ELEMENTS * sizeof(float);
	float *const one = malloc(bytes);

	(void)state;
	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(one && shared != MAP_FAILED);
	train_shards(UNEVEN, 1);
	memcpy(one, shared, bytes);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++) {
		unsigned others = 0, scales = 0;
		train_shards(UNEVEN "optimizer-sharding=states", ranks[i]);
		for (uint64_t k = 0; k < 2 * (uint64_t)MOST_ELEMENTS; k++)
			scales += !(fabsf(shared[k] - one[k]) <= 1e-4f * fabsf(one[k]) + 1e-12f);
		for (uint64_t k = 2 * (uint64_t)MOST_ELEMENTS; k < 3 * (uint64_t)MOST_ELEMENTS; k++)
			others += memcmp(&shared[k], &one[k], sizeof(*one)) != 0;
		print_message("%u ranks: %u elements have other scales, %u other codes\n", ranks[i], scales,
			      others);
		assert_true(scales <= 20); /* moments in fp32 that are near 0; a block has 256 */
		assert_true(others <= 200);
	}
	munmap(shared, bytes);
	free(one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ranks_agree_on_blocks),
	    cmocka_unit_test(steps_are_those_of_bitsandbytes),
	    cmocka_unit_test(steps_are_those_of_pytorchs_muon),
	};
	return cmocka_run_group_tests_name("optimizers", tests, NULL, NULL);
}
