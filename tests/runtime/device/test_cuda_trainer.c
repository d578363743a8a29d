/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training on the cuda device, in the arena of a GPU's plan, gives the losses of the cpu device. Kernels
 * are compiled for the host or, by tests/gpu/run, for a GPU, which two ranks then share. New memory has
 * NaN, so a read before the first write changes a loss.
 */
#include "support/support.h"

#include "comm/transport/transport_open.h"
#include "support/device_under_test.h"
#include "support/training_curves.h"

#ifdef P4D_TEST_GPU
enum { STEPS = CURVE_STEPS };
#else
enum { STEPS = 2 }; /* the second step reads memory that the first step has written */
#endif

#define MODEL \
	"model=custom layers=2 hidden=32 ffn=48 heads=4 head-dim=8 vocab=203 seq-len=16 global-batch=4 " \
	"micro-batch=2 " \
	"pp=1 vpp=1 "
#define PLAIN_MODEL MODEL "kv-heads=4 tied=off bias=none qk-norm=off "
#define GROUPED_MODEL MODEL "kv-heads=2 tied=on bias=qkv qk-norm=on "

static p4d_layout layout;

static void nothing(void)
{
}

/* Makes the other cases run without the shim's guard, which makes training four times slower. The cases
 * before it are enough to find wrong accesses of the host. */
static void rest_of_cases(void)
{
	test_skip_where_few();
	unsetenv("P4D_SHIM_GUARD");
}

static const char *guard;

static int find_guard(void **state)
{
	guard = getenv("P4D_SHIM_GUARD") ? strdup(getenv("P4D_SHIM_GUARD")) : NULL;
	return curve_setup(state);
}

static int guard_again(void **state)
{
	(void)state;
	return guard ? setenv("P4D_SHIM_GUARD", guard, 1) : 0;
}

static p4d_group *open_all(p4d_world *world, uint32_t size, p4d_error *err)
{
	uint32_t ranks[FORKED_MOST];
	p4d_group *all;

	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	return p4d_group_open(&all, world, ranks, size, err) < 0 ? NULL : all;
}

#ifndef P4D_TEST_GPU
/* Whether cuDNN computes the layout's attention. It supports windows only in whole sequences and with
 * gathered keys. */
static bool is_fused(void)
{
	const bool parts = layout.cp > 1 && layout.cp_comm != P4D_CP_ALL_GATHER;

	return layout.precision != P4D_FP32 && !curve_documents && layout.architecture->attention_cap <= 0 &&
	       !(parts && layout.sliding_window);
}
#endif

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *all = open_all(world, size, err);
	p4d_transport *transport = NULL;
	p4d_trainer *trainer;
	p4d_device device, host;
	p4d_plan plan;

	if (!all)
		return -1;
	if (layout.device == P4D_CPU) {
		TRY(p4d_device_cpu_open(&device, err));
	} else {
		TRY(open_device_under_test(&device, err));
		/* ranks that share a GPU communicate through the host's memory */
		TRY(p4d_comm_transport_open(&transport, all, &device, P4D_TRANSPORT_STAGED, NULL, err));
	}
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	settings.net.transport = transport;
	settings.net.document_mask = curve_documents;
	if (layout.offload) {
		TRY(p4d_device_cpu_open(&host, err));
		settings.net.host = &host;
	}
	TRY(p4d_trainer_open(&trainer, &settings, err));
#ifndef P4D_TEST_GPU
	/* the warm-up has asked cuDNN for all shapes of the run */
	CHECK(layout.device == P4D_CPU || !strstr(device.attention_text, "own kernels") == is_fused());
#endif
	TRY(curve_train(trainer, &layout, STEPS, rank, nothing, err));
	TRY(p4d_plan_build(&layout, NULL, p4d_trainer_place(trainer).pp, &plan, err));
	CHECK(device.allocated_bytes == plan.arena_bytes && device.host_allocated_bytes == plan.host_bytes);
	p4d_trainer_close(trainer);
	if (layout.offload)
		host.close(&host);
	p4d_comm_transport_close(transport);
	p4d_group_close(all);
	device.close(&device);
	return 0;
}

static void compare(const char *model, const char *parallel, uint32_t ranks, double limit)
{
	char options[512];
	double norm;

	snprintf(options, sizeof(options), "%s tp=1 cp=1 device=cpu", model);
	const curve cpu = curve_of(options, 1, NULL, &layout, train);
	snprintf(options, sizeof(options), "%s %s device=cuda", model, parallel);
	const curve cuda = curve_of(options, ranks, NULL, &layout, train);
	const double off = curve_off_by(&cpu, &cuda, &norm);
	print_message("%s: loss %.5f to %.5f, off by %.2g\n", parallel, cuda.loss[0], cuda.loss[STEPS - 1],
		      off);
	assert_true(off <= limit && norm <= 100 * limit);
}

static void one_gpu(void **state)
{
	(void)state;
	compare(PLAIN_MODEL "precision=fp32", "tp=1 cp=1", 1, 1e-5);
	rest_of_cases();
	compare(GROUPED_MODEL "precision=fp32", "tp=1 cp=1 recompute=full", 1, 1e-5);
	compare(GROUPED_MODEL "precision=bf16", "tp=1 cp=1", 1, 2e-2);
	compare(GROUPED_MODEL "precision=bf16", "tp=1 cp=1 recompute=keep", 1, 2e-2);
	/* adapters only: norms have no gradients */
	compare(GROUPED_MODEL "precision=fp32 finetune=lora lora-rank=3", "tp=1 cp=1 recompute=full", 1,
		1e-5);
}

/* As in Gemma 2: RMSNorm that adds 1 to its weights, before and after blocks, GeGLU, windows in some
 * layers, soft caps. */
#define GEMMA2_MODEL \
	MODEL "kv-heads=2 tied=on bias=none qk-norm=off architecture=gemma2 activation=geglu " \
	      "sliding-window=5 "
#define GEMMA3_MODEL \
	MODEL "kv-heads=2 layers=7 tied=on bias=none qk-norm=on architecture=gemma3 activation=geglu " \
	      "sliding-window=5 "
#define GPT2_MODEL \
	MODEL "kv-heads=4 tied=on bias=all qk-norm=off architecture=gpt2 norm=layernorm glu=off " \
	      "activation=gelu " \
	      "positions=learned max-seq-len=16 "
#define PHI3_MODEL MODEL "kv-heads=2 tied=off bias=none qk-norm=off architecture=phi3 sliding-window=7 "

/* Features of other families: biases, layers without positions, scale factors, norms after blocks, norms
 * over all heads, windows, soft caps, LayerNorm, learned positions. */
static void families(void **state)
{
	(void)state;
	rest_of_cases();
	compare(GEMMA2_MODEL "precision=fp32", "tp=1 cp=1", 1, 1e-5);
	compare(GEMMA2_MODEL "precision=bf16", "tp=2 cp=1", 2, 5e-4);
	compare(GEMMA2_MODEL "precision=fp32", "tp=1 cp=2 cp-comm=p2p recompute=full", 2, 1e-5);
	compare(GEMMA3_MODEL "precision=fp32", "tp=2 cp=1 recompute=mlp", 2, 1e-5);
	compare(GEMMA3_MODEL "precision=bf16", "tp=1 cp=1", 1, 5e-4);
	compare(GEMMA3_MODEL "precision=bf16", "tp=1 cp=2 cp-comm=all-gather", 2, 5e-4);
	compare(GEMMA3_MODEL "precision=bf16", "tp=1 cp=2 cp-comm=p2p", 2, 5e-4);
	compare(GPT2_MODEL "precision=fp32", "tp=1 cp=1", 1, 1e-5);
	compare(GPT2_MODEL "precision=fp32", "tp=2 cp=1 sequence-parallel=on recompute=full", 2, 1e-5);
	compare(GPT2_MODEL "precision=bf16", "tp=1 cp=2 cp-comm=p2p", 2, 5e-4);
	compare(GPT2_MODEL "precision=fp32 finetune=lora lora-rank=3", "tp=1 cp=1", 1, 1e-5);
	compare(PHI3_MODEL "precision=bf16", "tp=1 cp=1 token-slices=2 slice-lengths=10,6", 1, 5e-4);
	curve_documents = true;
	compare(PHI3_MODEL "precision=bf16", "tp=1 cp=1", 1, 5e-4);
	compare(GPT2_MODEL "precision=fp32", "tp=1 cp=1", 1, 1e-5);
	compare(PLAIN_MODEL "precision=fp32 workload=preference", "tp=1 cp=1", 1, 1e-5);
	compare(GEMMA2_MODEL "precision=fp32 workload=preference finetune=lora lora-rank=3", "tp=2 cp=1", 2,
		1e-5);
	curve_documents = false;
	compare(MODEL "kv-heads=2 tied=on bias=all qk-norm=off architecture=smollm3 layers=4 precision=fp32 "
		      "embedding-scale=3 residual-scale=0.5 attention-scale=0.3 logit-scale=0.5",
		"tp=2 cp=1", 2, 1e-5);
	compare(MODEL "kv-heads=2 tied=off bias=none qk-norm=wide architecture=olmo2 precision=fp32",
		"tp=2 cp=1", 2, 1e-5);
}

/* Offloaded tensors are copied in both directions, on streams of their own. */
static void offloaded(void **state)
{
	(void)state;
	compare(PLAIN_MODEL "precision=fp32 offload=optimizer,params", "tp=1 cp=1", 1, 1e-5);
	compare(GROUPED_MODEL "layers=5 precision=fp32 offload=activations", "tp=1 cp=1", 1, 1e-5);
	rest_of_cases();
	compare(GROUPED_MODEL "precision=bf16 offload=params", "tp=1 cp=1 recompute=full", 1, 2e-2);
	compare(GROUPED_MODEL "precision=bf16 offload=optimizer,params", "tp=1 cp=2 cp-comm=p2p", 2, 2e-2);
	compare(PLAIN_MODEL "precision=fp32 offload=params finetune=lora lora-rank=3", "tp=2 cp=1", 2, 1e-5);
}

/* Each stage has its own head and loss. Each of its two layers is a segment. */
static void local_losses(void **state)
{
	static const char staged[] = PLAIN_MODEL "precision=fp32 tp=1 cp=1 layers=4 pp=2 local-loss=stage ";
	double norm;

	(void)state;
	const curve cpu = curve_of(staged, 2, NULL, &layout, train);
	char options[512];
	snprintf(options, sizeof(options), "%s device=cuda", staged);
	const curve cuda = curve_of(options, 2, NULL, &layout, train);
	const double off = curve_off_by(&cpu, &cuda, &norm);
	print_message("local losses: loss %.5f to %.5f, off by %.2g\n", cuda.loss[0], cuda.loss[STEPS - 1],
		      off);
	assert_true(off <= 1e-5 && norm <= 1e-3);
}

#define FP8_MODEL \
	"model=custom layers=2 hidden=128 ffn=256 heads=2 kv-heads=2 head-dim=64 vocab=203 seq-len=128 " \
	"global-batch=4 micro-batch=2 pp=1 vpp=1 tied=off bias=none qk-norm=off precision=fp8 "

static void refused(const char *model, const char *fix)
{
	char options[600];
	p4d_device device;
	p4d_error err;
	p4d_net net;

	snprintf(options, sizeof(options), "%s tp=1 cp=1 device=cuda", model);
	assert_int_equal(training_layout(options, 1, &layout, &err), 0);
	assert_int_equal(open_device_under_test(&device, &err), 0);
	const p4d_trainer_settings settings = training_settings(&layout, &device, NULL, VOCAB);
	assert_int_equal(p4d_net_open(&net, &settings.net, 0, &err), -1);
	assert_int_equal(err.code, P4D_E_PRECISION);
	assert_non_null(strstr(err.text, "cuBLASLt has no matmuls for fp8-recipe="));
	if (fix)
		assert_string_equal(err.fix, fix);
	device.close(&device);
}

/* The compute capability of the device under test; the shim simulates a GPU with this one. */
static int sm_under_test(int wanted)
{
#ifdef P4D_TEST_GPU
	p4d_device device;

	(void)wanted;
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	const int sm = device.sm;
	device.close(&device);
	return sm;
#else
	return p4d_shim_gpu.sm = wanted;
#endif
}

/* In FP8 formats that the GPU supports, losses are those of the cpu device. For other formats, the message
 * names the format. */
static void in_fp8(void **state)
{
	static const struct {
		int recipe, sm;
		const char *fix;
	} cases[] = {{P4D_FP8_BLOCKWISE, 90, NULL},
		     {P4D_FP8_MXFP8, 100, NULL},
		     {P4D_FP8_CURRENT, 89, NULL},
		     {P4D_FP8_BLOCKWISE, 100, "--fp8-recipe=mxfp8"},
		     {P4D_FP8_MXFP8, 90, "--fp8-recipe=blockwise"},
		     {P4D_FP8_BLOCKWISE, 80, "--precision=bf16"}};

	(void)state;
	rest_of_cases();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const int recipe = cases[i].recipe, sm = sm_under_test(cases[i].sm);
		char model[512];
		snprintf(model, sizeof(model), FP8_MODEL "fp8-recipe=%s", p4d_fp8_recipes[recipe].name);
		if (p4d_fp8_trains(recipe, sm))
			compare(model, i ? "tp=1 cp=1" : "tp=1 cp=1 recompute=keep", 1, 2e-2);
		else
			refused(model, sm == cases[i].sm ? cases[i].fix : NULL);
	}
	(void)sm_under_test(90);
}

#ifndef P4D_TEST_GPU
static int open_evaluation(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_device device;
	p4d_net net = {.n = 0};

	(void)size;
	TRY(open_device_under_test(&device, err));
	const p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	p4d_shim_gpu.launches = 0;
	TRY(p4d_net_open(&net, &settings.net, rank, err));
	curve_shared->tokens = p4d_shim_gpu.launches;
	p4d_net_close(&net);
	device.close(&device);
	return 0;
}

static uint64_t launches_of_evaluation(const char *precision)
{
	char options[600];
	p4d_error err;
	forked f;

	snprintf(options, sizeof(options), FP8_MODEL "tp=1 cp=1 device=cuda precision=%s", precision);
	assert_int_equal(training_layout(options, 1, &layout, &err), 0);
	layout.evaluates = true;
	layout.recompute = P4D_RECOMPUTE_FULL;
	forked_init(&f, 1, NULL);
	forked_start(&f, open_evaluation);
	assert_true(forked_finish(&f, 60) && forked_all_well(&f));
	return curve_shared->tokens;
}

/* The plan of an evaluation has only operands of forward passes: two for each of four matmuls. */
static void evaluation_in_fp8(void **state)
{
	(void)state;
	assert_int_equal(launches_of_evaluation("fp8"), launches_of_evaluation("bf16") + 4 * 2);
}
#endif

/* Two ranks: sequence parallelism, a ring, and gathered keys. */
static void several_ranks(void **state)
{
	(void)state;
	rest_of_cases();
	compare(GROUPED_MODEL "precision=fp32", "tp=2 cp=1 sequence-parallel=on", 2, 1e-5);
	compare(PLAIN_MODEL "precision=bf16", "tp=1 cp=2 cp-comm=p2p", 2, 2e-2);
	compare(PLAIN_MODEL "precision=fp32 finetune=lora lora-rank=8", "tp=2 cp=1", 2, 1e-5);
	compare(GROUPED_MODEL "precision=fp32 optimizer-dtype=bf16", "tp=2 cp=1", 2, 1e-5);
	compare(GROUPED_MODEL "precision=bf16", "tp=1 cp=4 cp-comm=p2p", 4, 2e-2);
	compare(GROUPED_MODEL "precision=bf16", "tp=1 cp=4 cp-comm=all-gather", 4, 2e-2);
	compare(PLAIN_MODEL "precision=fp32", "tp=1 cp=2 cp-comm=all-gather", 2, 1e-5);
}

/* A slice has fewer queries than keys. It adds to the gradients of all keys before it. */
static void token_slices(void **state)
{
	(void)state;
	compare(PLAIN_MODEL "precision=fp32", "tp=1 cp=1 token-slices=3 slice-lengths=7,6,3", 1, 1e-5);
	rest_of_cases();
	compare(GROUPED_MODEL "precision=bf16", "tp=1 cp=1 token-slices=2 slice-lengths=10,6 recompute=full",
		1, 2e-2);
	compare(GROUPED_MODEL "precision=fp32", "tp=2 cp=1 pp=2 token-slices=4 schedule=1f1b", 4, 1e-5);
	curve_documents = true;
	compare(PLAIN_MODEL "precision=fp32", "tp=1 cp=1 pp=2 token-slices=2 schedule=gpipe", 2, 1e-5);
	curve_documents = false;
}

static void documents(void **state)
{
	(void)state;
	rest_of_cases();
	curve_documents = true;
	compare(PLAIN_MODEL "precision=fp32", "tp=1 cp=1", 1, 1e-5);
	compare(PLAIN_MODEL "precision=bf16", "tp=1 cp=2 cp-comm=p2p", 2, 2e-2);
	curve_documents = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(one_gpu, guard_again),
	    cmocka_unit_test_setup(families, guard_again),
	    cmocka_unit_test_setup(offloaded, guard_again),
	    cmocka_unit_test_setup(local_losses, guard_again),
	    cmocka_unit_test_setup(in_fp8, guard_again),
#ifndef P4D_TEST_GPU
	    cmocka_unit_test_setup(evaluation_in_fp8, guard_again),
#endif
	    cmocka_unit_test_setup(several_ranks, guard_again),
	    cmocka_unit_test_setup(documents, guard_again),
	    cmocka_unit_test_setup(token_slices, guard_again),
	};

	return cmocka_run_group_tests_name("training on the cuda device", tests, find_guard, NULL);
}
