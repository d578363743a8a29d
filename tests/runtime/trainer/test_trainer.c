/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and gradients on one rank, in each schedule that one rank can run, compared with JAX and PEFT in
 * float64. Training on pairs is compared with TRL in float32. */
#include "support/support.h"

#include <math.h>

#include "support/llama.h"
#include "support/training.h"
#include "support/trl_pairs.h"

enum { BATCH = 2, LENGTH = 24, VOCAB = 48 };

/* The model of tests/parity/make_oracle.py. */
#define ORACLE \
	"model=custom layers=2 hidden=16 ffn=40 heads=4 kv-heads=2 head-dim=4 vocab=48 tied=off bias=none " \
	"qk-norm=off seq-len=24 global-batch=2 tp=1 cp=1 pp=1 vpp=1 "

static int oracle_text(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
		       p4d_error *err)
{
	const p4d_layout *l = context;

	(void)step, (void)err;
	for (uint32_t k = 0; k < l->micro_batch; k++) {
		const uint32_t b = micro_batch * (uint32_t)l->micro_batch + k;
		for (uint32_t i = 0; i < LENGTH; i++) {
			if (batch->tokens)
				batch->tokens[k * LENGTH + i] = (int32_t)(llama_mixed(1000 + b, i) % VOCAB);
			if (batch->labels)
				batch->labels[k * LENGTH + i] =
				    i + 1 < LENGTH && i % 7 != 3
					? (int32_t)(llama_mixed(1000 + b, i + 1) % VOCAB)
					: -1;
		}
	}
	return 0;
}

/* The model of tests/parity/make_lora.py. */
#define LORA ORACLE "finetune=lora lora-rank=3 "
enum { ADAPTERS = 500 };

static FILE *open_oracle(const char *name)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/data/%s_oracle.txt", dir ? dir : ".", name);
	FILE *file = fopen(path, "r");
	if (!file)
		fail_msg("cannot read %s", path);
	return file;
}

typedef struct job {
	p4d_layout layout;
	p4d_device device;
	p4d_world *world;
	p4d_trainer *trainer;
} job;

static void open_job_with(job *j, const char *options, bool document_mask, const p4d_rope *rope)
{
	p4d_error err = {0};
	p4d_ranks ranks;

	if (training_layout(options, 1, &j->layout, &err) < 0 || p4d_ranks_local(&ranks, 1, &err) < 0 ||
	    p4d_world_open(&j->world, &ranks, &err) < 0 || p4d_device_cpu_open(&j->device, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	p4d_trainer_settings settings = training_settings(&j->layout, &j->device, j->world, VOCAB);
	settings.net.document_mask = document_mask;
	if (rope)
		settings.net.rope = *rope;
	if (j->layout.pairs) {
		settings.optimizer.weight_decay = 0;
		settings.optimizer.clip = 0;
	}
	if (p4d_trainer_open(&j->trainer, &settings, &err) < 0)
		fail_msg("%s: %s", options, err.text);
}

static void open_job(job *j, const char *options)
{
	open_job_with(j, options, false, NULL);
}

static void close_job(job *j)
{
	p4d_trainer_close(j->trainer);
	j->device.close(&j->device);
	p4d_world_close(j->world);
}

/* Writes the weights of the oracle. Tensors are numbered in the order of the flat buffer; adapters have
 * numbers of their own. */
static void write_weights_with(job *j, float matrices, float b)
{
	const p4d_weights *w = p4d_trainer_weights(j->trainer);
	const bool adapters = w->frozen > 0;
	float *values = calloc(w->elements + w->frozen, sizeof(*values));

	for (uint32_t i = 0; i < w->count; i++) {
		const p4d_weight *one = &w->weight[i];
		const bool norm = one->columns == 1,
			   is_b = p4d_weights_adapts(one->kind) && (one->kind - P4D_W_ADAPTER) % 2;
		const uint32_t number = !adapters ? i : one->frozen ? i - w->trained : ADAPTERS + i;
		for (uint64_t k = 0; k < one->rows * one->columns; k++)
			values[one->offset + k] =
			    llama_weight(number, (uint32_t)k, norm) * (norm ? 1 : matrices) * (is_b ? b : 1);
	}
	for (uint32_t i = 0; i < w->segments; i++)
		assert_int_equal(
		    p4d_trainer_write(j->trainer, i, P4D_STATE_MASTER, values + w->segment[i].offset, NULL),
		    0);
	assert_int_equal(p4d_trainer_restore(j->trainer, NULL), 0);
	p4d_trainer_write_frozen(j->trainer, w->elements, values + w->elements, w->frozen);
	free(values);
}

static void write_weights(job *j, float matrices)
{
	write_weights_with(j, matrices, 0.125f);
}

static double compare(const char *name, const char *options, double limit)
{
	p4d_step_result result;
	p4d_error err;
	char word[64];
	p4d_evaluated evaluated;
	double expected, worst = 0;
	job j;
	FILE *oracle = open_oracle(name);
	const float matrices = strncmp(name, "lora", 4) == 0 ? 0.5f : 1;

	open_job(&j, options);
	write_weights(&j, matrices);
	assert_int_equal(fscanf(oracle, "#%*[^\n] loss %lf", &expected), 1);
	if (p4d_trainer_evaluate(j.trainer, 1, oracle_text, &j.layout, &evaluated, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(fabs(evaluated.sum / (double)evaluated.tokens - expected) <= limit * expected);
	if (strcmp(name, "lora_dropout") == 0)
		assert_int_equal(fscanf(oracle, " dropped %lf", &expected), 1);
	if (p4d_trainer_step(j.trainer, 1, 0, oracle_text, &j.layout, &result, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(result.applied);
	if (!(fabs(result.loss - expected) <= limit * expected))
		fail_msg("%s: loss %.9g, not %.9g", options, result.loss, expected);
	const p4d_weights *w = p4d_trainer_weights(j.trainer);
	const double scale = (double)(BATCH * LENGTH) / (double)result.tokens;
	double squares = 0;
	for (uint32_t t = 0; t < w->trained; t++) {
		unsigned long long count;
		double difference = 0, length = 0;
		assert_int_equal(fscanf(oracle, " tensor %63s %llu", word, &count), 2);
		assert_int_equal(count, w->weight[t].rows * w->weight[t].columns);
		const float *gradient = p4d_trainer_gradients(j.trainer) + w->weight[t].offset;
		for (uint64_t i = 0; i < count; i++) {
			assert_int_equal(fscanf(oracle, "%lf", &expected), 1);
			const double off = (double)gradient[i] * scale - expected;
			difference += off * off;
			length += expected * expected;
		}
		squares += length;
		worst = fmax(worst, sqrt(difference / length));
		if (!(sqrt(difference / length) <= limit))
			fail_msg("%s: %s: off by %.3g", options, word, sqrt(difference / length));
	}
	if (!(fabs(result.gradient_norm - sqrt(squares)) <= limit * sqrt(squares)))
		fail_msg("%s: gradient norm %.9g, not %.9g", options, result.gradient_norm, sqrt(squares));
	assert_int_equal(fscanf(oracle, "%63s", word), EOF);
	fclose(oracle);
	close_job(&j);
	return worst;
}

static const char *const schedules[] = {
    "micro-batch=2 schedule=1f1b",
    "micro-batch=1 schedule=1f1b",
    "micro-batch=1 schedule=gpipe",
    "micro-batch=1 schedule=zb1p",
    "micro-batch=1 schedule=1f1b recompute=mlp",
    "micro-batch=1 schedule=1f1b recompute=full",
    "micro-batch=1 schedule=gpipe recompute=full",
    "micro-batch=1 schedule=zb1p recompute=mlp",
    "micro-batch=1 schedule=zb1p recompute=full",
    "micro-batch=2 schedule=1f1b optimizer-sharding=off",
};
enum { SCHEDULES = sizeof(schedules) / sizeof(*schedules) };

/* Compares the losses of all schedules with the oracle. bf16 has 8 significant bits, and some tens of
 * roundings follow each other. */
static void compare_schedules(const char *name, const char *model, double limit)
{
	char options[512];
	double worst = 0;

	for (size_t i = 0; i < SCHEDULES; i++) {
		snprintf(options, sizeof(options), "%sprecision=fp32 %s", model, schedules[i]);
		worst = fmax(worst, compare(name, options, limit));
	}
	print_message("worst tensor in fp32: %.3g\n", worst);
	snprintf(options, sizeof(options), "%sprecision=bf16 micro-batch=2 schedule=1f1b", model);
	print_message("in bf16: %.2g\n", compare(name, options, 5e-2));
}

static void agrees_with_the_oracle(void **state)
{
	(void)state;
	compare_schedules("llama", ORACLE, 1e-5);
}

static void adapters_agree_with_peft(void **state)
{
	(void)state;
	compare_schedules("lora", LORA, 2e-6);
}

/* Adapters with p4d-train's dropout masks, compared with PEFT. Evaluation has no dropout. */
static void dropout_agrees_with_peft(void **state)
{
	(void)state;
	compare_schedules("lora_dropout", LORA "lora-dropout=0.3 ", 2e-6);
}

#define PREFERENCE \
	"workload=preference model=custom layers=2 hidden=16 ffn=40 heads=4 kv-heads=2 head-dim=4 vocab=48 " \
	"tied=off bias=none qk-norm=off seq-len=48 global-batch=4 tp=1 cp=1 pp=1 vpp=1 precision=fp32 "

static void near(const char *what, double is, double expected, double limit)
{
	if (!(fabs(is - expected) <= limit))
		fail_msg("%s: %.9g, not %.9g", what, is, expected);
}

/* Trains on pairs. B of the adapters is 0 at first, so the policy then equals the reference. */
static double learn_pairs(const char *name, const char *options)
{
	static pairs from;
	double loss, margin, preferred, norm, worst = 0;
	FILE *oracle = open_oracle(name);
	p4d_step_result result;
	p4d_error err;
	job j;

	open_job_with(&j, options, true, NULL);
	assert_int_equal(p4d_trainer_initialize_trained(j.trainer, 1, NULL), 0); /* moments are 0 */
	write_weights_with(&j, 0.5f, 0);
	from = (pairs){.layout = &j.layout};
	assert_int_equal(fscanf(oracle, "#%*[^\n]"), 0);
	for (uint64_t step = 1; step <= PAIR_STEPS; step++)
		if (p4d_trainer_measure_pairs(j.trainer, step, pair_source, &from, from.reference[step - 1],
					      &err) < 0)
			fail_msg("%s", err.text);
	for (uint64_t step = 1; step <= PAIR_STEPS; step++) {
		assert_int_equal(
		    p4d_trainer_step(j.trainer, step, PAIR_RATE, pair_source, &from, &result, &err), 0);
		assert_int_equal(fscanf(oracle, " step %lf %lf %lf %lf", &loss, &margin, &preferred, &norm),
				 4);
		assert_int_equal(result.tokens, PAIRS);
		worst = fmax(worst, fabs(result.loss / loss - 1));
		near("loss", result.loss, loss, 2e-6 * loss);
		near("margin", result.margin, margin, 1e-5);
		near("norm", result.gradient_norm, norm, 2e-5 * norm);
		/* at first the margin is 0, and rounding decides which answer is preferred */
		if (step > 1)
			near("share", result.preferred, preferred, 1e-9);
	}
	assert_int_equal(j.device.allocated_bytes, p4d_trainer_plan(j.trainer)->arena_bytes);
	fclose(oracle);
	close_job(&j);
	return worst;
}

static void preferences_agree_with_trl(void **state)
{
	static const char *const layouts[] = {"micro-batch=4", "micro-batch=1 schedule=zb1p recompute=full",
					      "micro-batch=2 schedule=gpipe recompute=mlp"};
	char options[512];
	double worst = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(options, sizeof(options), PREFERENCE "%s", layouts[i]);
		worst = fmax(worst, learn_pairs("dpo", options));
		snprintf(options, sizeof(options), PREFERENCE "finetune=lora lora-rank=3 %s", layouts[i]);
		worst = fmax(worst, learn_pairs("dpo_lora", options));
	}
	print_message("worst loss of %d steps: %.3g\n", PAIR_STEPS, worst);
}

/* Trains adapters on some matrices only. The model's own weights have no gradients and no states, and do
 * not change. */
static void only_adapters_are_trained(void **state)
{
	static const char *const one[] = {"q_proj", "o_proj", "gate_proj,up_proj", "down_proj", "attention"};
	static const unsigned matrices[] = {1, 1, 2, 1, 4};
	p4d_step_result result;
	char options[512];
	double loss_without;
	FILE *oracle = open_oracle("llama");

	(void)state;
	assert_int_equal(fscanf(oracle, "#%*[^\n] loss %lf", &loss_without), 1);
	fclose(oracle);
	for (size_t i = 0; i < sizeof(one) / sizeof(*one); i++) {
		job j;
		snprintf(options, sizeof(options), LORA "precision=fp32 micro-batch=2 lora-targets=%s",
			 one[i]);
		open_job(&j, options);
		const p4d_weights *w = p4d_trainer_weights(j.trainer);
		assert_int_equal(w->trained, 2 * 2 * matrices[i]);
		assert_int_equal(p4d_plan_find(p4d_trainer_plan(j.trainer), B_GRADIENTS)->shape[0],
				 w->elements);
		assert_int_equal(p4d_plan_find(p4d_trainer_plan(j.trainer), B_PARAMETERS)->shape[0],
				 w->elements + w->frozen);
		write_weights(&j, 1);
		assert_int_equal(p4d_trainer_initialize_trained(j.trainer, 1, NULL), 0);
		for (uint64_t step = 1; step < 4; step++) {
			assert_int_equal(
			    p4d_trainer_step(j.trainer, step, 0.02f, oracle_text, &j.layout, &result, NULL),
			    0);
			assert_true(result.applied && result.gradient_norm > 0);
			/* with B = 0, adapters change nothing in the first step; afterwards all of them do */
			assert_true(step > 1 || fabs(result.loss - loss_without) < 1e-5);
		}
		assert_true(result.loss < loss_without - 0.01);
		close_job(&j);
	}
}

/* Several documents in one sequence, compared with a sequence for each document. */
enum { DOCUMENTS = 4, EVERY = -1 };
static const uint32_t document_starts[DOCUMENTS + 1] = {0, 7, 8, 17, LENGTH};

typedef struct documents_text {
	bool apart;
	int only; /* position of the only token whose label is not masked, or EVERY */
} documents_text;

static int source_of_documents(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
			       p4d_error *err)
{
	const documents_text *text = context;
	const uint32_t first = text->apart ? micro_batch : 0,
		       last = text->apart ? micro_batch : DOCUMENTS - 1;

	(void)step, (void)err;
	for (uint32_t i = 0; i < LENGTH; i++) { /* text after a document that is alone in its sequence */
		if (batch->tokens)
			batch->tokens[i] = (int32_t)(i % VOCAB);
		if (batch->labels)
			batch->labels[i] = -1;
	}
	for (uint32_t d = first; d <= last; d++)
		for (uint32_t i = document_starts[d]; i < document_starts[d + 1]; i++) {
			const uint32_t at = i - document_starts[first];
			const bool trained =
			    i + 1 < document_starts[d + 1] && (text->only == EVERY || text->only == (int)i);
			if (batch->tokens)
				batch->tokens[at] = (int32_t)(llama_mixed(77, i) % VOCAB);
			if (batch->labels && trained)
				batch->labels[at] = (int32_t)(llama_mixed(77, i + 1) % VOCAB);
			if (batch->documents)
				batch->documents[at] = (int32_t)d;
		}
	return 0;
}

static double loss_of(job *j, bool apart, int only)
{
	documents_text text = {apart, only};
	p4d_evaluated evaluated;
	p4d_error err;

	if (p4d_trainer_evaluate(j->trainer, 1, source_of_documents, &text, &evaluated, &err) < 0)
		fail_msg("%s", err.text);
	return evaluated.tokens ? evaluated.sum / (double)evaluated.tokens : 0;
}

/* Computes the gradients of the mean loss. The job stays open. */
static const float *gradients_of(job *j, bool apart, double *scale)
{
	documents_text text = {apart, EVERY};
	p4d_step_result result;
	p4d_error err;

	if (p4d_trainer_step(j->trainer, 1, 0, source_of_documents, &text, &result, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(result.tokens, LENGTH - DOCUMENTS);
	*scale = (double)(j->layout.global_batch * LENGTH) / (double)result.tokens;
	return p4d_trainer_gradients(j->trainer);
}

/* Each token has the same loss as if its document were alone in the sequence. The gradients are also the
 * same. */
static void documents_do_not_see_each_other(void **state)
{
	job together, apart, open;
	double scale, other_scale, difference = 0, length = 0;
	unsigned seen = 0;

	(void)state;
	open_job_with(&together, ORACLE "precision=fp32 micro-batch=1 global-batch=1 recompute=mlp", true,
		      NULL);
	open_job_with(&open, ORACLE "precision=fp32 micro-batch=1 global-batch=1", false, NULL);
	open_job_with(&apart, ORACLE "precision=fp32 micro-batch=1 global-batch=4", false, NULL);
	write_weights(&together, 1);
	write_weights(&open, 1);
	write_weights(&apart, 1);
	for (int i = 0; i < LENGTH; i++) {
		const double alone = loss_of(&apart, true, i), masked = loss_of(&together, false, i);
		assert_true(fabs(masked - alone) <= 1e-5 * alone);
		seen += fabs(loss_of(&open, false, i) - alone) > 1e-3 * alone;
	}
	assert_true(seen >= LENGTH / 2); /* most tokens must have seen other documents without the mask;
					  * otherwise the test would show nothing */
	const float *one = gradients_of(&together, false, &scale);
	const float *other = gradients_of(&apart, true, &other_scale);
	for (uint64_t i = 0; i < p4d_trainer_weights(apart.trainer)->elements; i++) {
		const double expected = (double)other[i] * other_scale,
			     off = (double)one[i] * scale - expected;
		difference += off * off;
		length += expected * expected;
	}
	assert_true(sqrt(difference / length) <= 1e-5);
	close_job(&together);
	close_job(&open);
	close_job(&apart);
}

/* One job gives its state to another job. Both then continue with the same bits. */
static void state_moves(void **state)
{
	static const char *const kinds[] = {ORACLE "precision=fp32 micro-batch=2",
					    ORACLE "precision=bf16 micro-batch=2"};
	p4d_step_result one, other;
	job from, to;

	(void)state;
	for (int k = 0; k < 2; k++) {
		uint64_t first, count;
		open_job(&from, kinds[k]);
		open_job(&to, kinds[k]);
		assert_int_equal(p4d_trainer_initialize(from.trainer, 1, NULL), 0);
		assert_int_equal(p4d_trainer_initialize(to.trainer, 2, NULL), 0);
		for (uint64_t step = 1; step < 4; step++)
			assert_int_equal(p4d_trainer_step(from.trainer, step, 0.01f, oracle_text,
							  &from.layout, &one, NULL),
					 0);
		const uint32_t segments = p4d_trainer_weights(from.trainer)->segments;
		for (uint32_t i = 0; i < segments; i++) {
			p4d_trainer_shard(from.trainer, i, &first, &count);
			float *values = calloc(count, sizeof(*values));
			for (p4d_state s = 0; s < P4D_MOST_STATES; s++) {
				const p4d_state which = s;
				assert_int_equal(p4d_trainer_read(from.trainer, i, which, values, NULL), 0);
				assert_int_equal(p4d_trainer_write(to.trainer, i, which, values, NULL), 0);
			}
			free(values);
		}
		assert_int_equal(p4d_trainer_read(from.trainer, segments, P4D_STATE_MASTER + 1, NULL, NULL),
				 -1);
		assert_int_equal(p4d_trainer_restore(to.trainer, NULL), 0);
		for (uint64_t step = 4; step < 7; step++) {
			p4d_trainer_step(from.trainer, step, 0.01f, oracle_text, &from.layout, &one, NULL);
			p4d_trainer_step(to.trainer, step, 0.01f, oracle_text, &to.layout, &other, NULL);
			assert_memory_equal(&one, &other, sizeof(one));
		}
		close_job(&from);
		close_job(&to);
	}
}

/* If a gradient is not finite, the step changes nothing, and the result says so. */
static void nonfinite_is_not_applied(void **state)
{
	p4d_step_result result;
	uint64_t first, count;
	job j;

	(void)state;
	open_job(&j, ORACLE "precision=fp32 micro-batch=2");
	assert_int_equal(p4d_trainer_initialize(j.trainer, 1, NULL), 0);
	p4d_trainer_shard(j.trainer, 0, &first, &count);
	float *good = calloc(count, sizeof(*good)), *bad = calloc(count, sizeof(*bad));
	assert_int_equal(p4d_trainer_read(j.trainer, 0, P4D_STATE_MASTER, good, NULL), 0);
	memcpy(bad, good, count * sizeof(*bad));
	bad[p4d_weights__find(p4d_trainer_weights(j.trainer), P4D_W_DOWN, 0)->offset] = INFINITY;
	assert_int_equal(p4d_trainer_write(j.trainer, 0, P4D_STATE_MASTER, bad, NULL), 0);
	assert_int_equal(p4d_trainer_step(j.trainer, 1, 0.01f, oracle_text, &j.layout, &result, NULL), 0);
	assert_false(result.applied);
	assert_true(result.nonfinite > 0);
	assert_int_equal(p4d_trainer_read(j.trainer, 0, P4D_STATE_MASTER, good, NULL), 0);
	assert_memory_equal(good, bad, count * sizeof(*bad));
	free(good);
	free(bad);
	close_job(&j);
}

/* The address of another row of the arena, computed from the address of the gradients. */
static const void *row_of(const job *j, p4d_buffer id)
{
	const p4d_plan *plan = p4d_trainer_plan(j->trainer);
	const char *gradients = (const char *)p4d_trainer_gradients(j->trainer);

	return gradients - p4d_plan_find(plan, B_GRADIENTS)->offset + p4d_plan_find(plan, id)->offset;
}

/* The tables of positions have the angles of the model's position encoding. Over 24 positions, angles make
 * a few turns. */
static void positions_are_turned_as_the_model_says(void **state)
{
	static const p4d_rope ropes[] = {{.theta = 10000},
					 {.theta = 3, P4D_ROPE_LINEAR, .factor = 4},
					 {.theta = 5, P4D_ROPE_LLAMA3, 8, 1, 4, 16}};
	const int d = 4;
	job j;

	(void)state;
	for (size_t k = 0; k < sizeof(ropes) / sizeof(*ropes); k++) {
		open_job_with(&j, ORACLE "precision=fp32 micro-batch=2", false, &ropes[k]);
		const float *table = row_of(&j, B_ROPE);
		for (int i = 0; i < LENGTH; i++)
			for (int pair = 0; pair < d / 2; pair++) {
				const double angle =
				    i * p4d_rope_frequency(&ropes[k], (uint64_t)d, (uint64_t)pair);
				assert_true(fabs((double)table[i * d + pair] - cos(angle)) < 1e-6);
				assert_true(fabs((double)table[i * d + d / 2 + pair] - sin(angle)) < 1e-6);
			}
		close_job(&j);
	}
}

static void wrong_plans_are_refused(void **state)
{
	p4d_error err = {0};
	p4d_trainer *trainer;
	p4d_layout layout;
	job j;

	(void)state;
	open_job(&j, ORACLE "precision=fp32 micro-batch=2");
	assert_int_equal(training_layout(ORACLE "precision=fp32 micro-batch=1", 2, &layout, &err), 0);
	p4d_trainer_settings settings = training_settings(&layout, &j.device, j.world, VOCAB);
	assert_int_equal(p4d_trainer_open(&trainer, &settings, &err), -1);
	assert_int_equal(err.code, P4D_E_WORLD);
	assert_int_equal(training_layout(ORACLE "precision=fp16 micro-batch=1", 1, &layout, &err), -1);
	assert_int_equal(err.code, P4D_E_VALUE);
	assert_string_equal(err.fix, "--p4d-precision=bf16");
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_the_oracle),
	    cmocka_unit_test(adapters_agree_with_peft),
	    cmocka_unit_test(dropout_agrees_with_peft),
	    cmocka_unit_test(preferences_agree_with_trl),
	    cmocka_unit_test(only_adapters_are_trained),
	    cmocka_unit_test(documents_do_not_see_each_other),
	    cmocka_unit_test(state_moves),
	    cmocka_unit_test(nonfinite_is_not_applied),
	    cmocka_unit_test(positions_are_turned_as_the_model_says),
	    cmocka_unit_test(wrong_plans_are_refused),
	};

	return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}
