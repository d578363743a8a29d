/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training in FP8 on the cpu gives the same model in all layouts whose shards are multiples of a block.
 * Layouts differ only in the order of fp32 sums. If such a difference moves a number past the middle
 * between two codes, one number of one operand changes by an eighth.
 */
#include "support/support.h"

#include "support/training_curves.h"

#define SIZES \
	"model=custom layers=2 hidden=128 ffn=256 heads=2 kv-heads=2 head-dim=128 vocab=203 seq-len=512 " \
	"global-batch=4 tied=off bias=qkv qk-norm=on "
#define MODEL SIZES "precision=fp8 "

static p4d_layout layout;
static unsigned steps;

enum { STEPS = 3 };

static void nothing(void)
{
}

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;
	p4d_plan plan;

	(void)size;
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(curve_train(trainer, &layout, steps, rank, nothing, err));
	TRY(p4d_plan_build(&layout, NULL, p4d_trainer_place(trainer).pp, &plan, err));
	CHECK(device.allocated_bytes == plan.arena_bytes);
	CHECK(p4d_trainer_arena_bytes(trainer) == plan.arena_bytes);
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

/* Layouts whose sums are split over ranks, or have another order. The last bit of a sum may differ. */
static const shape others[] = {
    {4, "tp=2 cp=2 pp=1 vpp=1 micro-batch=1"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=2"},
    {2, "tp=1 cp=2 pp=1 vpp=1 micro-batch=2"},
    {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1"},
    {2, "tp=1 cp=2 pp=1 vpp=1 micro-batch=1 cp-comm=all-gather"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=2 sequence-parallel=off recompute=full"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1 schedule=zb1p recompute=keep"},
    {4, "tp=2 cp=1 pp=2 vpp=1 micro-batch=1 schedule=zb1p"},
};
/* Layouts with exactly the same sums. */
static const shape same[] = {
    {2, "tp=1 cp=1 pp=2 vpp=1 micro-batch=2 recompute=mlp"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 recompute=full"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 recompute=keep schedule=zb1p"},
};

/* With recompute=keep, matrices are quantized once per step, for both micro-batches. */
static const shape keeps[] = {{1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 recompute=keep"}};

static size_t all_or(size_t few, size_t all)
{
	return getenv("P4D_TEST_ALL") ? all : getenv("P4D_TEST_FEW") ? 1 : few;
}

/* The losses on one rank. It remembers only the last model, so layouts of one model are compared in a row. */
static curve alone(const char *model)
{
	static char known[1024];
	static curve one;
	char options[1024];

	snprintf(options, sizeof(options), "%s tp=1 cp=1 pp=1 vpp=1 micro-batch=2", model);
	if (strcmp(options, known)) {
		one = curve_of(options, 1, NULL, &layout, train);
		snprintf(known, sizeof(known), "%s", options);
	}
	return one;
}

/* Allowed errors: first, of the loss with equal weights; norm, of its gradient's norm; whole, of the
 * losses of some steps. */
static void compare(const char *model, const shape *at, size_t count, double first, double norm, double whole)
{
	char options[1024];
	double worst[3] = {0, 0, 0};

	steps = STEPS;
	const curve one = alone(model);
	for (size_t i = 0; i < count; i++) {
		double unused;
		snprintf(options, sizeof(options), "%s %s", model, at[i].options);
		const curve other = curve_of(options, at[i].ranks, NULL, &layout, train);
		const double off[] = {curve_worst(one.loss, other.loss, 1),
				      curve_worst(one.norm, other.norm, 1),
				      curve_off_by(&one, &other, &unused)};
		if (getenv("P4D_TEST_VERBOSE"))
			print_message("%s: %.2g, norm %.2g, then %.2g\n", at[i].options, off[0], off[1],
				      off[2]);
		for (int k = 0; k < 3; k++)
			worst[k] = fmax(worst[k], off[k]);
	}
	print_message("loss %.5f off by at most %.2g, norm by %.2g, in %d steps by %.2g\n", one.loss[0],
		      worst[0], worst[1], STEPS, worst[2]);
	assert_true(worst[0] <= first);
	assert_true(worst[1] <= norm);
	assert_true(worst[2] <= whole);
	assert_true(one.loss[STEPS - 1] < one.loss[0]);
}

static void layouts_agree(void **state)
{
	(void)state;
	compare(MODEL, same, all_or(1, 3), 1e-12, 1e-12, 1e-12);
	compare(MODEL, keeps, 1, 1e-12, 1e-12, 1e-12);
	compare(MODEL, others, all_or(1, 8), 5e-6, 5e-4, 2e-3);
}

/* Layouts in which each rank has whole matrices, which QLoRA in FP8 requires. */
static const shape whole_matrices[] = {
    {2, "tp=1 cp=2 pp=1 vpp=1 micro-batch=2"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1 schedule=zb1p recompute=keep"},
    {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1"},
};

/* Each matmul decodes 4-bit matrices to bf16 and quantizes them to FP8. Except for FP8's rounding, the
 * loss is that of QLoRA in bf16. */
static void quantized_matrices_agree(void **state)
{
	(void)state;
	compare(MODEL "finetune=qlora lora-rank=8", same, all_or(1, 3), 1e-12, 1e-12, 1e-12);
	compare(MODEL "finetune=qlora lora-rank=8", whole_matrices, all_or(2, 3), 5e-6, 5e-4, 2e-3);
	const double fp8 = alone(MODEL "finetune=qlora lora-rank=8").loss[0],
		     bf16 = alone(SIZES "finetune=qlora lora-rank=8 precision=bf16").loss[0],
		     lora = alone(MODEL "finetune=lora lora-rank=8").loss[0];
	print_message("QLoRA in FP8 %.6f, in bf16 %.6f, LoRA in FP8 %.6f\n", fp8, bf16, lora);
	assert_true(fabs(fp8 / bf16 - 1) < 0.01 && fabs(fp8 / bf16 - 1) > 1e-7);
	assert_true(fabs(fp8 / lora - 1) < 0.01 && fabs(fp8 / lora - 1) > 1e-7);
}

/* A recipe with blocks of 32, and adapters on FP8 matrices. */
static void others_agree(void **state)
{
	(void)state;
	test_skip_where_few();
	compare(MODEL "fp8-recipe=mxfp8", others, all_or(1, 8), 5e-6, 5e-4, 2e-3);
	compare(MODEL "finetune=lora lora-rank=8", others, all_or(1, 8), 5e-6, 5e-4, 2e-3);
	/* the scale of a tensor is that of the rank's shard, so only layouts without shards agree */
	compare(MODEL "fp8-recipe=current", same, all_or(1, 3), 1e-12, 1e-12, 1e-12);
}

enum { LONG = 40, LONG_ALL = 300, LAST = 20 };

static int train_long(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const size_t whole = all_or(LONG, LONG_ALL);
	p4d_trainer *trainer;
	p4d_device device;
	p4d_step_result result;

	(void)rank, (void)size;
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	training_text text = {.layout = &layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB};
	TRY(p4d_trainer_initialize(trainer, SEED, err));
	for (uint64_t step = 1; step <= whole; step++) {
		const float warm = step < 20 ? (float)step / 20 : 1,
			    left = 1 - (float)step / (float)(whole + 1);
		TRY(p4d_trainer_step(trainer, step, 4e-3f * warm * left, training_source, &text, &result,
				     err));
		if (step > whole - LAST)
			curve_shared->loss[step - (whole - LAST) - 1] = result.loss;
	}
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

/* The mean of the last losses of a training with this precision. */
static double trained(const char *precision)
{
	char options[1024];
	double sum = 0;

	snprintf(
	    options, sizeof(options),
	    "model=custom layers=2 hidden=128 ffn=256 heads=2 kv-heads=2 head-dim=64 vocab=203 seq-len=128 "
	    "global-batch=4 micro-batch=4 tied=on bias=none qk-norm=off tp=1 cp=1 pp=1 vpp=1 %s",
	    precision);
	const curve one = curve_of(options, 1, NULL, &layout, train_long);
	for (int i = 0; i < LAST; i++)
		sum += one.loss[i];
	return sum / LAST;
}

/* Training in FP8 reaches the loss of training in bf16. */
static void learns(void **state)
{
	static const char *const recipes[] = {"blockwise", "mxfp8", "current"};
	char options[64];

	(void)state;
	test_skip_where_few();
	const double bf16 = trained("precision=bf16");
	for (size_t i = 0; i < all_or(1, 3); i++) {
		snprintf(options, sizeof(options), "precision=fp8 fp8-recipe=%s", recipes[i]);
		const double fp8 = trained(options);
		print_message("%s: %.4f after %zu steps, bf16 %.4f: %+.2f %%\n", recipes[i], fp8,
			      all_or(LONG, LONG_ALL), bf16, 100 * (fp8 / bf16 - 1));
		assert_true(bf16 < 3.5 && fabs(fp8 / bf16 - 1) <= 0.01);
	}
}

/* ---- compared with numpy: tests/parity/make_fp8.py ---- */

enum { ORACLE_SUMS = 6 };

/* Writes the weights of that model. */
static int put_weights(p4d_trainer *trainer, p4d_error *err)
{
	const p4d_weights *weights = p4d_trainer_weights(trainer);
	float *values = calloc(weights->elements, sizeof(*values));

	CHECK(values);
	for (uint32_t i = 0; i < weights->count; i++) {
		const p4d_weight *w = &weights->weight[i];
		for (uint64_t k = 0; k < w->rows * w->columns; k++) {
			const uint32_t bits = training_mixed(100 * w->layer + w->kind, k);
			values[w->offset + k] =
			    ((float)(bits >> 16) / 32768 - 1) / 4 + (w->columns == 1 ? 1.0f : 0.0f);
		}
	}
	for (uint32_t i = 0; i < weights->segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(trainer, i, &first, &count);
		TRY(p4d_trainer_write(trainer, i, P4D_STATE_MASTER, values + first, err));
	}
	free(values);
	return p4d_trainer_restore(trainer, err);
}

/* The norm of the difference from the oracle's gradient, divided by the norm of the oracle's gradient. */
static double off_by(const char *line, const float *gradient, uint64_t count)
{
	double length, squares = 0, worst = 0;
	unsigned long long elements;
	int at;

	CHECK(sscanf(line, "%*s %llu %lf%n", &elements, &length, &at) == 2 && elements == count);
	for (int i = 0; i < ORACLE_SUMS; i++) {
		double wanted, sum = 0;
		int more;
		CHECK(sscanf(line + at, "%lf%n", &wanted, &more) == 1);
		at += more;
		for (uint64_t k = 0; k < count; k++)
			sum += training_mixed(9000 + (uint64_t)i, k) & 1 ? -gradient[k] : gradient[k];
		worst = fmax(worst, fabs(sum - wanted) / length);
	}
	for (uint64_t k = 0; k < count; k++)
		squares += (double)gradient[k] * (double)gradient[k];
	return fmax(worst, fabs(sqrt(squares) - length) / length);
}

static const char *oracle_recipe;

/* Stores the error of the loss, and the largest error of a gradient. */
static int train_oracle(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	char path[4096], line[512], name[32] = "";
	const char *dir = getenv("P4D_TEST_SRCDIR");
	p4d_step_result result;
	p4d_trainer *trainer;
	p4d_device device;
	double loss = 0;

	(void)rank, (void)size;
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	training_text text = {.layout = &layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB};
	TRY(put_weights(trainer, err));
	TRY(p4d_trainer_step(trainer, 1, 0, training_source, &text, &result, err));
	snprintf(path, sizeof(path), "%s/tests/data/fp8_oracle.txt", dir ? dir : ".");
	FILE *file = fopen(path, "r");
	CHECK(file);
	while (strcmp(name, oracle_recipe) != 0) {
		CHECK(fgets(line, sizeof(line), file));
		if (sscanf(line, "recipe %31s loss %lf", name, &loss) != 2)
			name[0] = '\0';
	}
	curve_shared->loss[0] = fabs(result.loss - loss) / loss;
	const p4d_weights *w = p4d_trainer_weights(trainer);
	for (uint32_t i = 0; i < w->count; i++) {
		CHECK(fgets(line, sizeof(line), file));
		const double off = off_by(line, p4d_trainer_gradients(trainer) + w->weight[i].offset,
					  w->weight[i].rows * w->weight[i].columns);
		curve_shared->loss[1] = fmax(curve_shared->loss[1], off);
	}
	fclose(file);
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static curve of_oracle(const char *recipe, const char *precision)
{
	char options[1024];

	oracle_recipe = recipe;
	snprintf(
	    options, sizeof(options),
	    "model=custom layers=2 hidden=128 ffn=128 heads=2 kv-heads=2 head-dim=64 vocab=203 seq-len=128 "
	    "global-batch=2 micro-batch=2 tied=on bias=none qk-norm=off tp=1 cp=1 pp=1 vpp=1 precision=%s "
	    "optimizer-sharding=off",
	    precision);
	return curve_of(options, 1, NULL, &layout, train_oracle);
}

/* A few numbers are exactly in the middle between two codes in fp32, so numpy may round them differently. */
static void numpy_agrees(void **state)
{
	static const char *const recipes[] = {"blockwise", "mxfp8", "current"};
	char precision[64];

	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(precision, sizeof(precision), "fp8 fp8-recipe=%s", recipes[i]);
		const curve fp8 = of_oracle(recipes[i], precision), fp32 = of_oracle(recipes[i], "fp32");
		print_message("%s: loss off by %.2g, gradients by %.2g; without FP8 %.2g, %.2g\n", recipes[i],
			      fp8.loss[0], fp8.loss[1], fp32.loss[0], fp32.loss[1]);
		assert_true(fp8.loss[0] <= 1e-5 && fp8.loss[1] <= 2e-2);
		assert_true(fp32.loss[1] > 2e-1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numpy_agrees), cmocka_unit_test(layouts_agree),
					   cmocka_unit_test(quantized_matrices_agree),
					   cmocka_unit_test(others_agree), cmocka_unit_test(learns)};

	return cmocka_run_group_tests(tests, curve_setup, NULL);
}
