/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each layout trains the same model: its losses are those of one rank. Ranks are processes. Each has the
 * arena of its plan, and allocates nothing after the first step. With P4D_TEST_ALL the model has 0.7 to
 * 0.9 million parameters and makes 20 steps. Otherwise it is narrower and makes three steps, because a
 * step may depend on what the previous step left in memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include "support/support.h"

#include <link.h>

#include "base/clock.h"
#include "support/training_curves.h"

#define MODEL \
	"model=custom layers=8 hidden=96 ffn=256 heads=8 head-dim=12 vocab=203 seq-len=16 global-batch=8 "

/* ---- allocations, counted ---- */

#ifndef __SANITIZE_ADDRESS__
static uint64_t allocations;

/* OpenBLAS allocates scratch memory for some small matmuls and frees it before it returns. The test does
 * not count this memory. */
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
void *aligned_alloc(size_t alignment, size_t size)
{
	count_for(__builtin_return_address(0));
	return __libc_memalign(alignment, size);
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

/* Bytes that the trainer allocated on the device. */
static uint64_t asked;
static int (*device_allocate)(p4d_device *, uint64_t, void **, p4d_error *);

/* The arena has garbage at first. Guard pages around it must not be written. */
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

static p4d_layout layout;
static bool masked; /* documents do not attend to each other */
static unsigned steps;
static bool narrow;
static uint64_t before;

static void count_from_here(void)
{
	before = allocations;
}

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;
	p4d_plan plan;

	TRY(p4d_device_cpu_open(&device, err));
	device_allocate = device.allocate;
	device.allocate = counting_allocate;
	device.release = guarded_release;
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	settings.net.document_mask = masked;
	TRY(p4d_trainer_open(&trainer, &settings, err));
	CHECK(size > 1 || narrow || layout.finetune != P4D_TUNE_FULL ||
	      p4d_trainer_weights(trainer)->elements > 700000);
	TRY(curve_train(trainer, &layout, steps, rank, count_from_here, err));
	CHECK(allocations == before);
	TRY(p4d_plan_build(&layout, NULL, p4d_trainer_place(trainer).pp, &plan, err));
	CHECK(asked == plan.arena_bytes);
	CHECK(p4d_trainer_arena_bytes(trainer) == asked);
	CHECK(guards_hold(asked));
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static curve run(const char *options, uint32_t ranks, const uint32_t *nodes)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s %s", options, narrow ? "hidden=48 ffn=128 head-dim=6" : "");
	return curve_of(text, ranks, nodes, &layout, train);
}

enum { NARROW_STEPS = 3, NARROW_LEARNS = 6 };
enum { FEW = 97, SOME = 20, EIGHTH = 8, QUARTER = 4, HALF = 2, ALL = 1 };

/* A model, the largest allowed errors of losses and of gradient norms after 20 steps, and the layouts:
 * every `each`-th layout of `at` or, if `at` is NULL, of all layouts. */
typedef struct trial {
	const char *model;
	double loss, norm;
	size_t each, shift;
	const shape *at;
	size_t count;
} trial;

/* Whether a layout is tried. P4D_TEST_ALL=1 tries all layouts of all models. P4D_TEST_LAYOUT=TEXT tries
 * the layouts with this text. */
static bool is_tried(const trial *t, const shape *at, size_t i)
{
	const char *only = getenv("P4D_TEST_LAYOUT");

	if (only)
		return strstr(at->options, only);
	return getenv("P4D_TEST_ALL") || (i + t->shift) % (getenv("P4D_TEST_FEW") ? FEW : t->each) == 0;
}

static size_t tried;

/* All other layouts are compared with the losses of this one. */
static const shape alone = {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2"};
static const shape *base = &alone;

static void all_equal(const trial *t)
{
	const shape *table = t->at ? t->at : shapes;
	const size_t count = t->at ? t->count : SHAPES;
	size_t first = 0;
	const double began = forked_now();
	/* the narrow model has a tenth of the allowed errors: fewer steps, and sums of fewer terms */
	const double loss = narrow ? t->loss / 10 : t->loss, most_norm = narrow ? t->norm / 10 : t->norm;
	double worst = 0, worst_norm = 0;
	unsigned wrong = 0, done = 0;
	const shape *worst_at = NULL;
	char options[1024];

	while (first < count && !is_tried(t, &table[first], first))
		first++;
	if (first == count)
		return; /* P4D_TEST_FEW or P4D_TEST_LAYOUT excludes all layouts of the table */
	snprintf(options, sizeof(options), "%s %s", t->model, base->options);
	const curve one = run(options, base->ranks, NULL);
	for (size_t i = first; i < count; i++) {
		const shape *at = &table[i];
		if (!is_tried(t, at, i))
			continue;
		tried++;
		const double start = forked_now();
		snprintf(options, sizeof(options), "%s %s", t->model, at->options);
		const curve other = run(options, at->ranks, NULL);
		double norm;
		const double off = curve_off_by(&one, &other, &norm);
		const bool bad = !(off <= loss) || !(norm <= most_norm);
		if (!done++ || off > worst)
			worst_at = at;
		worst = fmax(worst, off);
		worst_norm = fmax(worst_norm, norm);
		wrong += bad;
		if (bad || getenv("P4D_TEST_VERBOSE"))
			print_message("%u ranks, %s: loss off by %.2g, norm by %.2g, %.2f s\n", at->ranks,
				      at->options, off, norm, forked_now() - start);
	}
	print_message("loss %.4f to %.4f, %u layouts in %.0f s, off by at most %.2g (%u ranks, %s), norm by "
		      "%.2g\n",
		      one.loss[0], one.loss[steps - 1], done, forked_now() - began, worst,
		      worst_at ? worst_at->ranks : 0, worst_at ? worst_at->options : "", worst_norm);
	assert_int_equal(wrong, 0);
}

/* Checks that the compared model really learns. */
static void learns(void **state)
{
	static const char *const models[] = {MODEL PLAIN "precision=fp32 ", MODEL GROUPED "precision=fp32 ",
					     MODEL PLAIN "precision=bf16 "};
	const unsigned compared = steps;
	const bool compared_narrow = narrow;
	char options[1024];

	(void)state;
	test_skip_where_few();
	steps = CURVE_STEPS;
	narrow = false;
	for (int i = 0; i < 3; i++) {
		snprintf(options, sizeof(options), "%s tp=1 cp=1 pp=1 vpp=1 micro-batch=2", models[i]);
		const curve one = run(options, 1, NULL);
		assert_true(one.loss[CURVE_STEPS - 1] < 0.8 * one.loss[0]);
	}
	steps = compared;
	narrow = compared_narrow;
}

static void plain_model(void **state)
{
	(void)state;
	all_equal(&(trial){MODEL PLAIN "precision=fp32", 1e-5, 1e-3, EIGHTH, 0, NULL, 0});
}

static void grouped_model(void **state)
{
	(void)state;
	all_equal(&(trial){MODEL GROUPED "precision=fp32", 1e-5, 1e-3, SOME, 5, NULL, 0});
}

/* Adapters on both models, whose own weights are frozen. test_trainer_pairs tries more combinations and
 * other architectures. */
static void adapters(void **state)
{
	(void)state;
	all_equal(
	    &(trial){MODEL PLAIN "finetune=lora lora-rank=3 precision=fp32", 1e-5, 1e-3, FEW, 2, NULL, 0});
	all_equal(
	    &(trial){MODEL GROUPED
		     "finetune=lora lora-rank=4 lora-targets=q_proj,v_proj,o_proj,down_proj precision=fp32",
		     1e-5, 1e-3, FEW, 7, NULL, 0});
	all_equal(
	    &(trial){MODEL PLAIN "finetune=lora lora-rank=8 precision=bf16", 2e-2, 0.2, FEW, 3, NULL, 0});
}

/* Features that Llama lacks: windows in some layers, norms around blocks, soft caps, LayerNorm, biases,
 * learned positions. */
static void other_architectures(void **state)
{
	(void)state;
	all_equal(&(trial){MODEL
			   "kv-heads=4 tied=on bias=none qk-norm=off architecture=gemma2 activation=geglu "
			   "sliding-window=5 precision=fp32",
			   1e-5, 1e-3, FEW, 1, NULL, 0});
	all_equal(&(trial){MODEL "kv-heads=8 tied=on bias=all qk-norm=off architecture=gpt2 norm=layernorm "
				 "glu=off activation=gelu positions=learned precision=fp32",
			   1e-5, 1e-3, FEW, 4, NULL, 0});
	all_equal(&(trial){MODEL GROUPED "architecture=gemma2 activation=geglu bias=none qk-norm=off "
					 "sliding-window=3 precision=bf16",
			   2e-2, 0.2, FEW, 8, NULL, 0});
}

/* Token slices combined with each other feature, with different numbers of slices and with both models'
 * position encodings. */
static const shape sliced[] = {
#include "support/sliced_layouts.h"
};
enum { SLICED = sizeof(sliced) / sizeof(*sliced) };

static void token_slices(void **state)
{
	/* slices longer than attention's tiles, and no multiples of them */
	static const shape longer[] = {
	    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 token-slices=3 slice-lengths=97,70,33"},
	    {2, "tp=1 cp=1 pp=2 vpp=1 micro-batch=1 token-slices=4 slice-lengths=65,64,63,8 schedule=1f1b "
		"recompute=full"},
	    {4, "tp=2 cp=1 pp=2 vpp=1 micro-batch=2 token-slices=2 slice-lengths=130,70 schedule=gpipe"},
	};

	(void)state;
	/* each of these layouts is tried with at least one of the models */
	all_equal(&(trial){MODEL PLAIN "precision=fp32", 1e-5, 1e-3, QUARTER, 0, sliced, SLICED});
	all_equal(&(trial){MODEL GROUPED "precision=fp32", 1e-5, 1e-3, QUARTER, 1, sliced, SLICED});
	if (!getenv("P4D_TEST_FEW"))
		all_equal(&(trial){MODEL GROUPED "precision=fp32 seq-len=200", 1e-5, 1e-3, ALL, 0, longer,
				   sizeof(longer) / sizeof(*longer)});
	all_equal(&(trial){MODEL
			   "kv-heads=4 tied=on bias=none qk-norm=off architecture=gemma2 activation=geglu "
			   "sliding-window=5 precision=fp32",
			   1e-5, 1e-3, QUARTER, 2, sliced, SLICED});
	all_equal(&(trial){MODEL "kv-heads=8 tied=on bias=all qk-norm=off architecture=gpt2 norm=layernorm "
				 "glu=off activation=gelu positions=learned precision=fp32",
			   1e-5, 1e-3, QUARTER, 3, sliced, SLICED});
	all_equal(&(trial){MODEL PLAIN "precision=bf16", 2e-2, 0.2, QUARTER, 0, sliced, SLICED});
	all_equal(&(trial){MODEL PLAIN "finetune=lora lora-rank=3 precision=fp32", 1e-5, 1e-3, QUARTER, 1,
			   sliced, SLICED});
}

/* Documents that do not attend to each other. They end within sequences, within chunks of sequences and
 * within the rows of a tile. */
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
	    {2, "tp=1 cp=1 pp=2 vpp=1 micro-batch=2 schedule=1f1b token-slices=3 slice-lengths=7,6,3"},
	    {4, "tp=2 cp=1 pp=2 vpp=1 micro-batch=1 schedule=gpipe token-slices=4 recompute=full"},
	    {8,
	     "tp=2 cp=2 pp=2 vpp=2 micro-batch=1 schedule=v-half vocab-parallel=vocab-2 cp-comm=all-gather"},
	};

	(void)state;
	curve_documents = true;
	masked = false;
	const curve open = run(one_rank, 1, NULL);
	masked = true;
	const curve closed = run(one_rank, 1, NULL);
	assert_int_equal(open.tokens, closed.tokens);
	assert_true(fabs(open.loss[0] - closed.loss[0]) > 1e-3 * open.loss[0]);
	all_equal(&(trial){model, 1e-5, 1e-3, 1, 0, some, sizeof(some) / sizeof(*some)});
	if (getenv("P4D_TEST_ALL") || getenv("P4D_TEST_LAYOUT"))
		all_equal(&(trial){model, 1e-5, 1e-3, ALL, 0, NULL, 0});
	curve_documents = masked = false;
}

/* Losses of single stages. The stages define the model, and other parts of the layout change nothing. The
 * result differs from that of full backpropagation. */
static void local_losses(void **state)
{
	static const char model[] = MODEL PLAIN "precision=fp32 local-loss=stage";
	static const char tied[] = MODEL GROUPED "precision=fp32 local-loss=stage";
	static const shape two = {2, "tp=1 cp=1 pp=2 micro-batch=2"};
	static const shape four = {4, "tp=1 cp=1 pp=4 micro-batch=2 pipeline-split=1,3,2,2"};
	static const shape of_two[] = {
	    {2, "tp=1 cp=1 pp=2 micro-batch=1 recompute=full"},
	    {2, "tp=1 cp=1 pp=2 micro-batch=4 recompute=mlp optimizer-sharding=off"},
	    {4, "tp=2 cp=1 pp=2 micro-batch=2 sequence-parallel=off"},
	    {4, "tp=2 cp=1 pp=2 micro-batch=1 sequence-parallel=on recompute=keep"},
	    {4, "tp=1 cp=2 pp=2 micro-batch=1"},
	    {4, "tp=1 cp=2 pp=2 micro-batch=2 cp-comm=all-gather recompute=full"},
	    {4, "tp=1 cp=1 pp=2 micro-batch=2"},
	    {8, "tp=2 cp=2 pp=2 micro-batch=1 recompute=mlp"},
	    {8, "tp=2 cp=1 pp=2 micro-batch=1 tp-comm-overlap=on"},
	};
	static const shape of_four[] = {
	    {4, "tp=1 cp=1 pp=4 micro-batch=1 pipeline-split=1,3,2,2 recompute=full"},
	    {8, "tp=2 cp=1 pp=4 micro-batch=2 pipeline-split=1,3,2,2"},
	    {8, "tp=1 cp=1 pp=4 micro-batch=1 pipeline-split=1,3,2,2 optimizer-sharding=off"},
	};
	const size_t twos = sizeof(of_two) / sizeof(*of_two), fours = sizeof(of_four) / sizeof(*of_four);

	(void)state;
	base = &two;
	all_equal(&(trial){model, 1e-5, 1e-3, HALF, 1, of_two, twos});
	all_equal(&(trial){tied, 1e-5, 1e-3, HALF, 0, of_two, twos});
	base = &four;
	all_equal(&(trial){model, 1e-5, 1e-3, ALL, 0, of_four, fours});
	base = &alone;
	const unsigned compared = steps;
	steps = narrow ? NARROW_LEARNS : steps;
	const curve local = run(MODEL PLAIN "precision=fp32 tp=1 cp=1 pp=2 micro-batch=2 local-loss=stage", 2,
				NULL),
		    full = run(MODEL PLAIN "precision=fp32 tp=1 cp=1 pp=2 micro-batch=2", 2, NULL);
	assert_true(fabs(local.loss[0] - full.loss[0]) < 1e-6 * full.loss[0]);
	assert_true(fabs(local.loss[steps] - full.loss[steps]) > 1e-4 * full.loss[steps]);
	assert_true(local.loss[steps] < 0.99 * local.loss[0]);
	steps = compared;
}

/* Losses in bf16. Layouts round to 8 bits at different places. */
static void bf16_model(void **state)
{
	(void)state;
	all_equal(&(trial){MODEL PLAIN "precision=bf16", 2e-2, 0.2, SOME, 2, NULL, 0});
}

/* Moments in bf16. Stochastic rounding draws the same limit for a number in each layout. A moment may
 * still be rounded differently if a sum in another order moves it past this limit. */
static void half_moments(void **state)
{
	(void)state;
	all_equal(&(trial){MODEL PLAIN "precision=fp32 optimizer-dtype=bf16", 1e-5, 1e-3, SOME, 3, NULL, 0});
	all_equal(&(trial){MODEL GROUPED "precision=bf16 optimizer-dtype=bf16", 2e-2, 0.2, FEW, 9, NULL, 0});
}

/* Tensor parallelism in two and three dimensions. */
static const shape grids[] = {
    {2, "tp=2 tp-grid=1,2,1 cp=1 pp=1 vpp=1 micro-batch=2"},
    {4, "tp=4 tp-grid=2,2,1 cp=1 pp=1 vpp=1 micro-batch=2"},
    {4, "tp=4 tp-grid=2,2,1 cp=1 pp=1 vpp=1 micro-batch=1 sequence-parallel=off recompute=full"},
    {4, "tp=4 tp-grid=1,4,1 cp=1 pp=1 vpp=1 micro-batch=2 schedule=zb1p"},
    {8, "tp=4 tp-grid=2,2,1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=interleaved recompute=mlp"},
    {8, "tp=4 tp-grid=2,2,1 cp=2 pp=1 vpp=1 micro-batch=2"},
    {8, "tp=2 tp-grid=1,2,1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=zbv optimizer-sharding=off"},
    {2, "tp=2 tp-grid=1,1,2 cp=1 pp=1 vpp=1 micro-batch=2"},
    {4, "tp=4 tp-grid=1,1,4 cp=1 pp=1 vpp=1 micro-batch=4 recompute=full"},
    {4, "tp=4 tp-grid=2,1,2 cp=1 pp=1 vpp=1 micro-batch=2"},
    {4, "tp=4 tp-grid=1,2,2 cp=1 pp=1 vpp=1 micro-batch=2 schedule=zb1p"},
    {8, "tp=8 tp-grid=2,2,2 cp=1 pp=1 vpp=1 micro-batch=2"},
    {8, "tp=4 tp-grid=2,1,2 cp=1 pp=2 vpp=1 micro-batch=2 schedule=1f1b optimizer-sharding=off"},
    {8, "tp=4 tp-grid=1,2,2 cp=1 pp=2 vpp=2 micro-batch=2 schedule=zbv"},
    {8, "tp=2 tp-grid=1,1,2 cp=2 pp=2 vpp=2 micro-batch=2 schedule=v-half recompute=mlp"},
    {8, "tp=4 tp-grid=2,1,2 cp=1 pp=1 vpp=1 micro-batch=4 sequence-parallel=off"},
    {8, "tp=2 tp-grid=1,1,2 cp=1 pp=4 vpp=2 micro-batch=2 schedule=interleaved recompute=keep"},
};

static void grids_of_ranks(void **state)
{
	const size_t count = sizeof(grids) / sizeof(*grids);

	(void)state;
	/* each of these layouts with at least one model */
	all_equal(&(trial){MODEL PLAIN "precision=fp32", 1e-5, 1e-3, QUARTER, 0, grids, count});
	all_equal(&(trial){MODEL GROUPED "precision=fp32", 1e-5, 1e-3, QUARTER, 1, grids, count});
	all_equal(&(trial){MODEL
			   "kv-heads=4 tied=on bias=none qk-norm=off architecture=gemma2 activation=geglu "
			   "sliding-window=5 precision=fp32",
			   1e-5, 1e-3, QUARTER, 2, grids, count});
	all_equal(&(trial){MODEL PLAIN "precision=bf16", 2e-2, 0.2, QUARTER, 3, grids, count});
}

/* Ranks on different nodes use sockets, and ranks on one node use shared memory. Both give the same bits. */
static void nodes_change_nothing(void **state)
{
	static const uint32_t nodes[] = {0, 0, 1, 1};
	static const char *const options[] = {
	    MODEL GROUPED "precision=fp32 tp=2 cp=1 pp=2 vpp=1 micro-batch=1 schedule=1f1b",
	    MODEL PLAIN "precision=fp32 tp=1 cp=2 pp=2 vpp=2 micro-batch=1 schedule=zbv",
	    MODEL PLAIN "precision=fp32 tp=1 cp=4 pp=1 vpp=1 micro-batch=2 cp-comm=all-gather",
	    MODEL PLAIN "precision=fp32 tp=4 tp-grid=2,1,2 cp=1 pp=1 vpp=1 micro-batch=2",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const curve one = run(options[i], 4, NULL), two = run(options[i], 4, nodes);
		assert_memory_equal(&one, &two, sizeof(one));
	}
}

/* ---- a ring's gradients travel while the next block is computed ---- */

enum { RING_SECONDS = 60 };

static void (*backward_of_cpu)(p4d_device *, p4d_dtype, float *, float *, float *, const void *,
			       const float *, float *, const void *, const void *, const void *,
			       const p4d_attention_shape *, void *);
static bool second_rank, too_late;
static unsigned blocks_begun;

/* The second rank computes its first block only after the first rank has begun its second block. The first
 * rank must therefore not wait for the gradients of the second rank's first block. */
static void wait_for_the_next(p4d_device *device, p4d_dtype type, float *dq, float *dk, float *dv,
			      const void *d_o, const float *lse, float *row_sums, const void *q,
			      const void *k, const void *v, const p4d_attention_shape *s, void *workspace)
{
	const double end = p4d_clock_seconds() + RING_SECONDS;

	blocks_begun++;
	if (!second_rank)
		__atomic_store_n(&curve_shared->tokens, blocks_begun, __ATOMIC_RELEASE);
	while (second_rank && blocks_begun == 1 && !too_late &&
	       __atomic_load_n(&curve_shared->tokens, __ATOMIC_ACQUIRE) < 2)
		too_late = p4d_clock_seconds() > end;
	backward_of_cpu(device, type, dq, dk, dv, d_o, lse, row_sums, q, k, v, s, workspace);
}

static int train_in_ring(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;

	(void)size;
	TRY(p4d_device_cpu_open(&device, err));
	backward_of_cpu = device.attention_backward;
	device.attention_backward = wait_for_the_next;
	second_rank = rank == 1;
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(curve_train(trainer, &layout, 1, rank, count_from_here, err));
	CHECK(blocks_begun > 1 && !too_late);
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static void ring_gradients_travel_during_the_next_block(void **state)
{
	(void)state;
	(void)curve_of(MODEL PLAIN
		       "hidden=48 ffn=128 head-dim=6 precision=fp32 tp=1 cp=2 pp=1 vpp=1 micro-batch=2",
		       2, NULL, &layout, train_in_ring);
}

static int prepare(void **state)
{
	FIND_BLAS();
	narrow = !getenv("P4D_TEST_ALL");
	steps = narrow ? NARROW_STEPS : CURVE_STEPS;
	return curve_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(learns),
	    cmocka_unit_test(plain_model),
	    cmocka_unit_test(grouped_model),
	    cmocka_unit_test(other_architectures),
	    cmocka_unit_test(masked_documents),
	    cmocka_unit_test(bf16_model),
	    cmocka_unit_test(adapters),
	    cmocka_unit_test(nodes_change_nothing),
	    cmocka_unit_test(half_moments),
	    cmocka_unit_test(token_slices),
	    cmocka_unit_test(local_losses),
	    cmocka_unit_test(grids_of_ranks),
	    cmocka_unit_test(ring_gradients_travel_during_the_next_block),
	};

	const int failed = cmocka_run_group_tests_name("layouts of the trainer", tests, prepare, NULL);
	if (failed || tried || !getenv("P4D_TEST_LAYOUT"))
		return failed;
	fprintf(stderr, "P4D_TEST_LAYOUT: no layout contains \"%s\"\n", getenv("P4D_TEST_LAYOUT"));
	return 1;
}
