/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training on the cuda device, its kernels compiled for the host, in the arena that a GPU's plan describes:
 * the losses are those of the cpu device. Its shim fills new memory with NaN, so nothing is read before it is
 * written.
 */
#include "support.h"

#include <math.h>
#include <sys/mman.h>

#include "device_under_test.h"
#include "forked.h"
#include "training.h"

enum { STEPS = 4, VOCAB = 67, SEED = 7 };

#define MODEL \
	"model=custom layers=2 hidden=24 ffn=40 heads=4 kv-heads=2 head-dim=8 vocab=67 seq-len=32 " \
	"global-batch=4 " \
	"micro-batch=2 pp=1 vpp=1 "
#define PLAIN MODEL "tied=off bias=none qk-norm=off "
#define GROUPED MODEL "tied=on bias=qkv qk-norm=on "

/* What rank 0 measured; shared with the parent. */
typedef struct curve {
	double loss[STEPS], norm[STEPS], evaluated;
} curve;

static curve *shared;
static p4d_layout layout;

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_step_result result;
	p4d_device device;
	curve mine;

	(void)size;
	TRY(layout.device == P4D_CPU ? p4d_device_cpu_open(&device, err)
				     : open_device_under_test(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	training_text text = {.layout = &layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB};
	TRY(p4d_trainer_initialize(trainer, SEED, err));
	for (uint64_t step = 1; step <= STEPS; step++) {
		TRY(p4d_trainer_step(trainer, step, 2e-3f, training_source, &text, &result, err));
		CHECK(result.applied);
		mine.loss[step - 1] = result.loss;
		mine.norm[step - 1] = result.gradient_norm;
	}
	TRY(p4d_trainer_evaluate(trainer, STEPS + 1, training_source, &text, &mine.evaluated, err));
	if (rank == 0)
		*shared = mine;
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static curve run(const char *options, uint32_t ranks)
{
	p4d_error err;
	forked f;

	if (training_layout(options, ranks, &layout, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	memset(shared, 0, sizeof(*shared));
	forked_init(&f, ranks, NULL);
	forked_start(&f, train);
	if (!forked_finish(&f, 300) || !forked_all_well(&f))
		fail_msg("%u ranks, %s", ranks, options);
	return *shared;
}

static void compare(const char *model, const char *parallel, uint32_t ranks, double limit)
{
	char options[512];

	snprintf(options, sizeof(options), "%s tp=1 cp=1 device=cpu", model);
	const curve cpu = run(options, 1);
	snprintf(options, sizeof(options), "%s %s device=cuda", model, parallel);
	const curve cuda = run(options, ranks);
	double worst = fabs(cuda.evaluated - cpu.evaluated) / cpu.evaluated;
	for (int i = 0; i < STEPS; i++) {
		worst = fmax(worst, fabs(cuda.loss[i] - cpu.loss[i]) / cpu.loss[i]);
		worst = fmax(worst, fabs(cuda.norm[i] - cpu.norm[i]) / cpu.norm[i] / 100);
	}
	print_message("%s: loss %.5f to %.5f, off by %.2g\n", parallel, cuda.loss[0], cuda.loss[STEPS - 1],
		      worst);
	assert_true(cuda.loss[STEPS - 1] < cuda.loss[0]);
	assert_true(worst <= limit);
}

static void one_gpu(void **state)
{
	(void)state;
	compare(PLAIN "precision=fp32", "tp=1 cp=1", 1, 1e-5);
	compare(GROUPED "precision=fp32", "tp=1 cp=1 recompute=full", 1, 1e-5);
	compare(GROUPED "precision=bf16", "tp=1 cp=1", 1, 2e-2);
}

/* With sequence parallelism, and the ring. */
static void several_gpus(void **state)
{
	(void)state;
	compare(GROUPED "precision=fp32", "tp=2 cp=1 sequence-parallel=on", 2, 1e-5);
	compare(PLAIN "precision=fp32", "tp=1 cp=2", 2, 1e-5);
	compare(PLAIN "precision=bf16", "tp=1 cp=2", 2, 2e-2);
}

static int make_shared(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_gpu),
	    cmocka_unit_test(several_gpus),
	};

	return cmocka_run_group_tests_name("training on the cuda device", tests, make_shared, NULL);
}
