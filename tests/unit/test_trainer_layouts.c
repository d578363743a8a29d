/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every layout trains the same model: the loss over 20 steps is that of one rank. Ranks are processes. In
 * each of them the arena is the plan's, and after the first step nothing is allocated.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include "support.h"

#include <link.h>
#include <math.h>
#include <sys/mman.h>

#include "forked.h"
#include "training.h"

enum { STEPS = 20, VOCAB = 203, SEED = 7 };

#define MODEL \
	"model=custom layers=8 hidden=32 ffn=96 heads=4 kv-heads=4 head-dim=8 vocab=203 seq-len=32 " \
	"global-batch=8 "
#define PLAIN "tied=off bias=none qk-norm=off "
#define GROUPED "kv-heads=2 tied=on bias=qkv qk-norm=on "

/* ---- allocations, counted ---- */

#ifndef __SANITIZE_ADDRESS__
static uint64_t allocations;

/* OpenBLAS takes scratch for some small products, and gives it back before it returns: not ours to count. */
static uintptr_t blas_begin, blas_end;

static int find_blas(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size, (void)context;
	if (!info->dlpi_name || !strstr(info->dlpi_name, "openblas"))
		return 0;
	blas_begin = blas_end = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > blas_end)
			blas_end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
	return 1;
}

static void count_for(const void *caller)
{
	allocations += (uintptr_t)caller < blas_begin || (uintptr_t)caller >= blas_end;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *malloc(size_t size)
{
	count_for(__builtin_return_address(0));
	return __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
	count_for(__builtin_return_address(0));
	return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size)
{
	count_for(__builtin_return_address(0));
	return __libc_realloc(memory, size);
}
int posix_memalign(void **memory, size_t alignment, size_t size)
{
	count_for(__builtin_return_address(0));
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : 12;
}
#define FIND_BLAS() dl_iterate_phdr(find_blas, NULL)
#else
#define FIND_BLAS()
static const uint64_t allocations;
#endif

/* What the trainer asked the device for. */
static uint64_t asked;
static int (*device_allocate)(p4d_device *, uint64_t, void **, p4d_error *);

/* An arena begins as garbage, and between two of the guard's pages nothing may be written. */
enum { GUARD = 4096 };
static char *guarded;

static int counting_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	void *memory;

	asked += bytes;
	if (device_allocate(device, bytes + 2 * GUARD, &memory, err) < 0)
		return -1;
	guarded = memory;
	memset(guarded, 0x7f, bytes + 2 * GUARD);
	*arena = guarded + GUARD;
	return 0;
}

static void guarded_release(p4d_device *device, void *arena)
{
	(void)device;
	free((char *)arena - GUARD);
}

static bool guards_hold(uint64_t bytes)
{
	for (uint64_t i = 0; i < GUARD; i++)
		if (guarded[i] != 0x7f || guarded[GUARD + bytes + i] != 0x7f)
			return false;
	return true;
}

/* ---- one layout ---- */

/* What rank 0 measured; shared with the parent. */
typedef struct curve {
	double loss[STEPS], norm[STEPS], evaluated;
	uint64_t tokens;
} curve;

static curve *shared;
static p4d_layout layout;
static bool documents, masked; /* the text has several; which do not see each other */

/* New weights are so small that attention hardly matters. Norms are 1. */
static int strengthen(p4d_trainer *trainer, p4d_error *err)
{
	const p4d_weights *weights = p4d_trainer_weights(trainer);
	float *values = malloc(weights->elements * sizeof(*values));

	CHECK(values);
	for (uint32_t i = 0; i < weights->segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(trainer, i, &first, &count);
		TRY(p4d_trainer_read(trainer, i, P4D_STATE_MASTER, values, err));
		for (uint64_t k = 0; k < count; k++)
			values[k] *= values[k] == 1 ? 1 : 5;
		TRY(p4d_trainer_write(trainer, i, P4D_STATE_MASTER, values, err));
	}
	free(values);
	return p4d_trainer_restore(trainer, err);
}

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_step_result result;
	p4d_device device;
	p4d_plan plan;
	double loss;
	uint64_t before = 0;
	curve mine = {.tokens = 0};

	(void)size;
	TRY(p4d_device_cpu_open(&device, err));
	device_allocate = device.allocate;
	device.allocate = counting_allocate;
	device.release = guarded_release;
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	settings.document_mask = masked;
	TRY(p4d_trainer_open(&trainer, &settings, err));
	training_text text = {
	    .layout = &layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB, .documents = documents};
	TRY(p4d_trainer_initialize(trainer, SEED, err));
	if (documents)
		TRY(strengthen(trainer, err));
	for (uint64_t step = 1; step <= STEPS; step++) {
		TRY(p4d_trainer_step(trainer, step, 2e-3f, training_source, &text, &result, err));
		CHECK(result.applied);
		mine.loss[step - 1] = result.loss;
		mine.norm[step - 1] = result.gradient_norm;
		mine.tokens += result.tokens;
		if (step == 1)
			before = allocations;
	}
	TRY(p4d_trainer_evaluate(trainer, STEPS + 1, training_source, &text, &loss, err));
	mine.evaluated = loss;
	CHECK(allocations == before);
	TRY(p4d_plan_build(&layout, NULL, text.place.pp, &plan, err));
	CHECK(asked == plan.arena_bytes);
	CHECK(p4d_trainer_arena_bytes(trainer) == asked);
	CHECK(guards_hold(asked));
	if (rank == 0)
		*shared = mine;
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

/* nodes: of each rank; NULL: all on one */
static curve run(const char *options, uint32_t ranks, const uint32_t *nodes)
{
	p4d_error err;
	forked f;

	if (training_layout(options, ranks, &layout, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	memset(shared, 0, sizeof(*shared));
	forked_init(&f, ranks, nodes);
	forked_start(&f, train);
	if (!forked_finish(&f, 60) || !forked_all_well(&f))
		fail_msg("%u ranks, %s", ranks, options);
	return *shared;
}

static double off_by(const curve *one, const curve *other)
{
	double worst = fabs(other->evaluated - one->evaluated) / one->evaluated;

	for (int i = 0; i < STEPS; i++) {
		worst = fmax(worst, fabs(other->loss[i] - one->loss[i]) / one->loss[i]);
		worst = fmax(worst, fabs(other->norm[i] - one->norm[i]) / one->norm[i] / 100);
	}
	return isnan(worst) ? INFINITY : worst;
}

typedef struct shape {
	uint32_t ranks;
	const char *options;
} shape;

static const shape shapes[] = {
#include "training_layouts.h"
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

/* All layouts take minutes; without P4D_TEST_ALL every `each`th from `from` on is run. */
enum { EACH = 10 };

static void all_equal(const char *model, const shape *at, size_t count, size_t each, size_t from,
		      double limit)
{
	const char *only = getenv("P4D_TEST_LAYOUT");
	char options[1024];
	double worst = 0;
	unsigned wrong = 0, done = 0;

	snprintf(options, sizeof(options), "%s tp=1 cp=1 pp=1 vpp=1 micro-batch=2", model);
	const curve one = run(options, 1, NULL);
	print_message("one rank: loss %.6f to %.6f\n", one.loss[0], one.loss[STEPS - 1]);
	assert_true(one.loss[STEPS - 1] < 0.98 * one.loss[0]);
	for (size_t i = 0; i < count; i++) {
		if (only ? !strstr(at[i].options, only) : !getenv("P4D_TEST_ALL") && i % each != from)
			continue;
		done++;
		snprintf(options, sizeof(options), "%s %s", model, at[i].options);
		const double start = forked_now();
		const curve other = run(options, at[i].ranks, NULL);
		const double off = off_by(&one, &other);
		worst = fmax(worst, off);
		if (getenv("P4D_TEST_VERBOSE"))
			print_message("%u ranks, %-60s %.1e %.2f s\n", at[i].ranks, at[i].options, off,
				      forked_now() - start);
		if (!(off <= limit) || other.tokens != one.tokens) {
			print_message("%u ranks, %s: off by %.3g\n", at[i].ranks, at[i].options, off);
			wrong++;
		}
	}
	print_message("%u layouts, worst relative difference %.2g\n", done, worst);
	assert_int_equal(wrong, 0);
}

static void plain_model(void **state)
{
	(void)state;
	all_equal(MODEL PLAIN "precision=fp32", shapes, SHAPES, EACH, 0, 1e-5);
}

static void grouped_model(void **state)
{
	(void)state;
	all_equal(MODEL GROUPED "precision=fp32", shapes, SHAPES, EACH, 5, 1e-5);
}

/* Documents that end within sequences, pieces of them and the rows of a tile, and do not see each other. */
static void masked_documents(void **state)
{
	static const char model[] = MODEL GROUPED "precision=fp32";
	static const char one_rank[] = MODEL GROUPED "precision=fp32 tp=1 cp=1 pp=1 vpp=1 micro-batch=2";
	static const shape some[] = {
	    {2, "tp=1 cp=2 pp=1 vpp=1 micro-batch=2"},
	    {4, "tp=1 cp=4 pp=1 vpp=1 micro-batch=2 recompute=full"},
	    {4, "tp=1 cp=4 pp=1 vpp=1 micro-batch=2 cp-comm=all-gather"},
	    {4, "tp=2 cp=2 pp=1 vpp=1 micro-batch=1 cp-comm=all-gather"},
	    {4, "tp=2 cp=1 pp=2 vpp=2 micro-batch=2 schedule=interleaved"},
	    {4, "tp=1 cp=2 pp=2 vpp=1 micro-batch=1 schedule=zb1p recompute=mlp"},
	    {8,
	     "tp=2 cp=2 pp=2 vpp=2 micro-batch=1 schedule=v-half vocab-parallel=vocab-2 cp-comm=all-gather"},
	};

	(void)state;
	documents = true;
	masked = false;
	const curve open = run(one_rank, 1, NULL);
	masked = true;
	const curve closed = run(one_rank, 1, NULL);
	assert_int_equal(open.tokens, closed.tokens);
	assert_true(fabs(open.loss[0] - closed.loss[0]) > 1e-3 * open.loss[0]);
	all_equal(model, some, sizeof(some) / sizeof(*some), 1, 0, 1e-5);
	if (getenv("P4D_TEST_ALL"))
		all_equal(model, shapes, SHAPES, EACH, 0, 1e-5);
	documents = masked = false;
}

/* Rounded to 8 bits in other places. */
static void bf16_model(void **state)
{
	(void)state;
	all_equal(MODEL PLAIN "precision=bf16", shapes, SHAPES, EACH, 8, 2e-2);
}

/* Between nodes ranks talk by sockets, in a node by shared memory: the same bits. */
static void nodes_change_nothing(void **state)
{
	static const uint32_t nodes[] = {0, 0, 1, 1};
	static const char *const options[] = {
	    MODEL GROUPED "precision=fp32 tp=2 cp=1 pp=2 vpp=1 micro-batch=1 schedule=1f1b",
	    MODEL PLAIN "precision=fp32 tp=1 cp=2 pp=2 vpp=2 micro-batch=1 schedule=zbv",
	    MODEL PLAIN "precision=fp32 tp=1 cp=4 pp=1 vpp=1 micro-batch=2 cp-comm=all-gather",
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		const curve one = run(options[i], 4, NULL), two = run(options[i], 4, nodes);
		assert_memory_equal(&one, &two, sizeof(one));
	}
}

static int make_shared(void **state)
{
	(void)state;
	FIND_BLAS();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_model),          cmocka_unit_test(grouped_model),
	    cmocka_unit_test(masked_documents),     cmocka_unit_test(bf16_model),
	    cmocka_unit_test(nodes_change_nothing),
	};

	return cmocka_run_group_tests_name("layouts of the trainer", tests, make_shared, NULL);
}
