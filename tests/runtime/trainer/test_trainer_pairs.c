/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts that combine each two features with each other, and each four of the features that decide which
 * parameters a pass finds in the window. Their losses over a few steps, in FP8 over one step, are those of
 * one rank. The test draws layouts until each pair has occurred. p4d refuses some combinations, so a limited
 * number of pairs may have no layout. P4D_TEST_DRAW=N draws N more layouts with random features.
 * P4D_TEST_SEED=N changes the draw.
 */
#include "support/support.h"

#include "plan/parameters.h"
#include "support/training_curves.h"

#define MODEL "model=custom layers=8 hidden=48 ffn=96 heads=8 head-dim=6 vocab=203 seq-len=16 global-batch=8 "

enum { MODELS, PRECISION, TRAINING, TENSOR, CONTEXT, PIPELINE, RECOMPUTE, SHARDING, OFFLOAD, FACTORS = 17 };
enum { VOCABULARY = OFFLOAD + 1, SLICES, DOCUMENTS, RESIDENT, MICRO_BATCH, DATA, MOMENTS, OPTIMIZER };
enum { LEVELS = 9, PAIR_STEPS = 3, MOST_RANKS = 8, FOURS = 32 };

/* Levels of each factor. Most layouts have a factor's first level. */
static const char *const factors[FACTORS][LEVELS] = {
    [MODELS] =
	{PLAIN, GROUPED,
	 "kv-heads=4 tied=on bias=none qk-norm=off architecture=gemma2 activation=geglu sliding-window=5",
	 "kv-heads=4 tied=on bias=none qk-norm=on architecture=gemma3 activation=geglu sliding-window=5",
	 "kv-heads=8 tied=on bias=all qk-norm=off architecture=gpt2 norm=layernorm glu=off "
	 "activation=gelu positions=learned",
	 "kv-heads=4 tied=on bias=all qk-norm=off architecture=smollm3 embedding-scale=3 residual-scale=0.5 "
	 "attention-scale=0.3 logit-scale=0.5",
	 "kv-heads=4 tied=off bias=none qk-norm=wide architecture=olmo2",
	 "kv-heads=4 tied=off bias=none qk-norm=off architecture=phi3"},
    /* sizes that a rank has whole blocks of; later factors may have others */
    [PRECISION] = {"precision=fp32",
		   "precision=fp8 fp8-recipe=mxfp8 hidden=64 ffn=128 head-dim=16 seq-len=128"},
    [TRAINING] = {"finetune=full", "finetune=lora lora-rank=3",
		  "finetune=lora lora-rank=4 lora-targets=q_proj,v_proj,o_proj,down_proj",
		  /* each rank has whole blocks of 64 rows; a group of blocks ends within a rank's rows */
		  "finetune=qlora lora-rank=3 hidden=64 ffn=384 head-dim=16",
		  "finetune=lora lora-rank=3 lora-dropout=0.3", "workload=preference",
		  "workload=preference finetune=lora lora-rank=3 lora-dropout=0.3"},
    [TENSOR] = {"tp=1", "tp=2 sequence-parallel=on", "tp=2 sequence-parallel=off", "tp=2 tp-comm-overlap=on",
		"tp=2 tp-grid=1,2,1", "tp=2 tp-grid=1,1,2"},
    [CONTEXT] = {"cp=1", "cp=2", "cp=2 cp-comm=all-gather"},
    [PIPELINE] = {"pp=1 vpp=1", "pp=1 vpp=1 schedule=zb1p", "pp=2 vpp=1 schedule=1f1b",
		  "pp=2 vpp=1 schedule=gpipe", "pp=2 vpp=2 schedule=interleaved", "pp=2 vpp=1 schedule=zb1p",
		  "pp=2 vpp=2 schedule=zbv", "pp=2 vpp=2 schedule=v-half",
		  "pp=2 vpp=1 schedule=1f1b pipeline-split=5,3"},
    [RECOMPUTE] = {"recompute=none", "recompute=full", "recompute=mlp", "recompute=keep"},
    [SHARDING] = {"optimizer-sharding=states", "optimizer-sharding=off", "optimizer-sharding=gradients",
		  "optimizer-sharding=parameters", "optimizer-sharding=parameters shard-degree=2"},
    [OFFLOAD] = {"", "offload=optimizer", "offload=params", "offload=activations",
		 "offload=optimizer,params"},
    [VOCABULARY] = {"", "vocab-parallel=vocab-1", "vocab-parallel=vocab-2"},
    [SLICES] = {"", "token-slices=3 slice-lengths=7,6,3", "token-slices=3"},
    [DOCUMENTS] = {"", ""},
    [RESIDENT] = {"", "resident-layers=1", "resident-layers=3"},
    [MICRO_BATCH] = {"micro-batch=1", "micro-batch=2"},
    [DATA] = {"", "", ""},
    [MOMENTS] = {"", "optimizer-dtype=bf16"},
    /* each of two ranks has whole blocks of 256; some shards end inside a block */
    [OPTIMIZER] = {"", "optimizer=adamw-8bit hidden=128 ffn=512 head-dim=64", "optimizer=muon"},
};

typedef unsigned char drawing[FACTORS];

static unsigned levels_of(unsigned factor)
{
	unsigned count = 0;

	while (count < LEVELS && factors[factor][count])
		count++;
	return count;
}

static p4d_layout layout;

static uint64_t ranks_of(const drawing d)
{
	return (d[TENSOR] ? 2u : 1u) * (d[CONTEXT] ? 2u : 1u) * (d[PIPELINE] > 1 ? 2u : 1u) << d[DATA];
}

static void write_options(const drawing d, char *text, size_t size)
{
	int length = snprintf(text, size, "%s", MODEL);

	for (unsigned i = 0; i < FACTORS; i++)
		length += snprintf(text + length, size - (size_t)length, " %s", factors[i][d[i]]);
}

static bool is_possible(const drawing d)
{
	char options[1024];
	p4d_error err;

	if (ranks_of(d) > MOST_RANKS)
		return false;
	write_options(d, options, sizeof(options));
	return training_layout(options, ranks_of(d), &layout, &err) == 0;
}

/* ---- combinations that have already occurred ---- */

static bool met[FACTORS][LEVELS][FACTORS][LEVELS], met_four[FOURS];

/* The number of a combination of adapters, a schedule that splits backward passes, parameters in a window,
 * and recomputation. */
static unsigned four_of(const drawing d)
{
	const bool split = strstr(factors[PIPELINE][d[PIPELINE]], "schedule=z") || d[PIPELINE] == 7,
		   window = d[SHARDING] > 2 || strstr(factors[OFFLOAD][d[OFFLOAD]], "params");

	return (d[TRAINING] ? 16u : 0) + (split ? 8u : 0) + (window ? 4u : 0) + d[RECOMPUTE];
}

static unsigned count_new(const drawing d, bool meet)
{
	unsigned count = !met_four[four_of(d)];

	met_four[four_of(d)] |= meet;
	for (unsigned a = 0; a < FACTORS; a++)
		for (unsigned b = a + 1; b < FACTORS; b++) {
			count += !met[a][d[a]][b][d[b]];
			met[a][d[a]][b][d[b]] |= meet;
		}
	return count;
}

static uint64_t seed;

/* Draws random levels, mostly the first ones, which can be combined with everything. */
static void draw(drawing d)
{
	for (unsigned i = 0; i < FACTORS; i++)
		d[i] = forked_random(&seed) % 2 ? (unsigned char)(forked_random(&seed) % levels_of(i)) : 0;
}

enum { DRAWS = 100000, TRIES = 300, CANDIDATES = 25 };

/* Draws a layout with these levels (LEVELS: any level). Takes the one with the most combinations that have
 * not occurred. Returns false if it found none. */
static bool find(const unsigned char fixed[FACTORS], unsigned four, drawing best)
{
	unsigned most = 0, tries = 0, candidates = 0;

	for (unsigned i = 0; i < DRAWS && tries < TRIES && candidates < CANDIDATES; i++) {
		drawing d;
		draw(d);
		for (unsigned k = 0; k < FACTORS; k++)
			d[k] = fixed[k] < LEVELS ? fixed[k] : d[k];
		if (four < FOURS && four_of(d) != four)
			continue;
		tries++;
		if (!is_possible(d))
			continue;
		candidates++;
		const unsigned count = count_new(d, false);
		if (count > most)
			memcpy(best, d, FACTORS);
		most = count > most ? count : most;
	}
	return most > 0;
}

/* ---- a layout, compared with one rank ---- */

static bool masked;

static void nothing(void)
{
}

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;

	(void)size;
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	settings.net.document_mask = masked;
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(curve_train(trainer, &layout, layout.precision == P4D_FP8 ? 1 : PAIR_STEPS, rank, nothing, err));
	const p4d_plan *plan = p4d_trainer_plan(trainer);
	CHECK(device.allocated_bytes == plan->arena_bytes);
	CHECK(device.host_allocated_bytes == plan->host_bytes);
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

/* The curve on one rank, for the same model and the same trained weights. It is computed once. */
static const curve *alone(const drawing d)
{
	static curve known[LEVELS][2][LEVELS][2][2][4];
	curve *c = &known[d[MODELS]][d[PRECISION]][d[TRAINING]][d[DOCUMENTS]][d[MOMENTS]][d[OPTIMIZER]];
	drawing one = {[MODELS] = d[MODELS],
		       [PRECISION] = d[PRECISION],
		       [TRAINING] = d[TRAINING],
		       [MOMENTS] = d[MOMENTS],
		       [OPTIMIZER] = d[OPTIMIZER]};
	char options[1024];

	if (c->steps)
		return c;
	write_options(one, options, sizeof(options));
	*c = curve_of(options, 1, NULL, &layout, train);
	return c;
}

/* Whether the layout trains on pairs, whose two answers are documents. */
static bool learns_pairs(const drawing d)
{
	return strstr(factors[TRAINING][d[TRAINING]], "preference");
}

typedef struct difference {
	double loss, norm;
} difference;

/*
 * In FP8, where another order of fp32 sums moves a number past the middle between two codes, the number
 * changes by an eighth. On one rank, an epsilon of norms that differs by some millionths moves the loss by up
 * to 1.3e-4 and the gradient's norm by up to 9e-3 (OLMo 2), with pairs by 2e-2 and 8e-2. Layouts differed
 * less: by 2.3e-5 and 1.2e-2, with pairs by 4.2e-3 and 3.4e-3. test_trainer_fp8 has a model with smaller
 * errors.
 */
static difference most_of(const drawing d)
{
	const bool pairs = learns_pairs(d);

	if (d[PRECISION])
		return pairs ? (difference){3e-2, 1e-1} : (difference){2e-4, 3e-2};
	/* the loss of a pair is a difference of sums over many tokens, so its error is larger */
	return (difference){pairs ? 5e-6 : 2e-6, 1e-4};
}

/* In FP8, only the first step is compared: the next begin with other weights. */
static difference difference_of(const drawing d, const curve *one, const curve *other)
{
	difference is;

	is.loss = curve_off_by(one, other, &is.norm);
	if (d[PRECISION] && one->tokens == other->tokens)
		is.loss = curve_worst(one->loss, other->loss, 1);
	return is;
}

static difference worst[2]; /* in fp32 and in FP8 */
static unsigned wrong;

static void compare(const drawing d)
{
	const double began = forked_now();
	char options[1024];

	curve_documents = masked = d[DOCUMENTS] || learns_pairs(d);
	const curve *one = alone(d);
	write_options(d, options, sizeof(options));
	const curve other = curve_of(options, (uint32_t)ranks_of(d), NULL, &layout, train);
	const difference is = difference_of(d, one, &other), most = most_of(d);
	difference *w = &worst[d[PRECISION]];
	w->loss = fmax(w->loss, is.loss);
	w->norm = fmax(w->norm, is.norm);
	if (getenv("P4D_TEST_VERBOSE"))
		print_message("%.2g %.2g %.2f s %u ranks%s: %s\n", is.loss, is.norm, forked_now() - began,
			      (unsigned)ranks_of(d), masked ? ", documents" : "", options);
	if (is.loss < most.loss && is.norm < most.norm)
		return;
	wrong++;
	print_message("%u ranks%s: %s: loss off by %.3g, norm by %.3g\n", (unsigned)ranks_of(d),
		      masked ? ", documents" : "", options, is.loss, is.norm);
}

static unsigned layouts, impossible;

static void meet(const unsigned char fixed[FACTORS], unsigned four)
{
	drawing d;

	if (!find(fixed, four, d)) {
		impossible++;
		if (getenv("P4D_TEST_VERBOSE"))
			for (unsigned i = 0; i < FACTORS; i++)
				if (fixed[i] < LEVELS)
					print_message("never: %u %s\n", i, factors[i][fixed[i]]);
		return;
	}
	count_new(d, true);
	if (layouts++ % test_stride(1, 8) == 0)
		compare(d);
}

static void every_four_meet(void **state)
{
	unsigned char any[FACTORS];

	(void)state;
	memset(any, LEVELS, sizeof(any));
	for (unsigned i = 0; i < FOURS; i++)
		if (!met_four[i])
			meet(any, i);
	assert_int_equal(impossible, 0);
	assert_int_equal(wrong, 0);
}

static void every_pair_meets(void **state)
{
	unsigned char fixed[FACTORS];
	unsigned pairs = 0;

	(void)state;
	memset(fixed, LEVELS, sizeof(fixed));
	for (unsigned a = 0; a < FACTORS; a++)
		for (unsigned b = a + 1; b < FACTORS; b++)
			for (unsigned i = 0; i < levels_of(a); i++)
				for (unsigned k = 0; k < levels_of(b); k++, pairs++) {
					fixed[a] = (unsigned char)i;
					fixed[b] = (unsigned char)k;
					if (!met[a][i][b][k])
						meet(fixed, FOURS);
					fixed[a] = fixed[b] = LEVELS;
				}
	print_message(
	    "%u pairs in %u layouts, %u impossible; losses off by at most %.2g (FP8 %.2g), norms by "
	    "%.2g (FP8 %.2g)\n",
	    pairs, layouts, impossible, worst[0].loss, worst[1].loss, worst[0].norm, worst[1].norm);
	assert_true(impossible < pairs / 16);
	assert_int_equal(wrong, 0);
}

static void drawn(void **state)
{
	const char *count = getenv("P4D_TEST_DRAW");

	(void)state;
	for (int left = count ? atoi(count) : 0; left > 0;) {
		drawing d;
		draw(d);
		if (!is_possible(d))
			continue;
		compare(d);
		left--;
	}
	assert_int_equal(wrong, 0);
}

static int prepare(void **state)
{
	const char *other = getenv("P4D_TEST_SEED");

	seed = other ? strtoull(other, NULL, 10) : 42;
	return curve_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_four_meet),
	    cmocka_unit_test(every_pair_meets),
	    cmocka_unit_test(drawn),
	};
	return cmocka_run_group_tests_name("pairs of features", tests, prepare, NULL);
}
