/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that a training step of a model of real size queues on a GPU: launches, bytes, and their
 * seconds by the formulas of the cost model. P4D_STEP_REPORT=1 prints all operations. */
#include "support/support.h"

#include <math.h>
#include <sys/mman.h>

#include "comm/transport/transport_open.h"
#include "cost/cost.h"
#include "doubles/counted_device.h"
#include "doubles/cuda/cuda_runtime_api.h"
#include "support/forked.h"
#include "support/training.h"

#define LLAMA \
	"model=custom vocab=128256 tied=on bias=none qk-norm=off kv-heads=8 seq-len=4096 precision=bf16 " \
	"device=cuda tp=1 cp=1 pp=1 vpp=1 "
#define LLAMA_1B LLAMA "layers=16 hidden=2048 ffn=8192 heads=32 head-dim=64 micro-batch=4 "
#define LLAMA_3B LLAMA "layers=28 hidden=3072 ffn=8192 heads=24 head-dim=128 micro-batch=2 "

static p4d_layout layout;
static p4d_gpus gpus;
static counted_step *shared;
static uint64_t document_length; /* tokens of a document; 0: documents are not masked */

static int source(void *context, uint64_t number, uint32_t micro_batch, const p4d_batch *batch,
		  p4d_error *err)
{
	const uint64_t tokens = layout.micro_batch * layout.seq_len / layout.cp;

	(void)context, (void)number, (void)micro_batch, (void)err;
	for (uint64_t i = 0; i < tokens; i++) {
		if (batch->tokens)
			batch->tokens[i] = (int32_t)(i % layout.vocab);
		if (batch->labels)
			batch->labels[i] = (int32_t)(i % layout.vocab);
		if (batch->documents)
			batch->documents[i] = (int32_t)(i % layout.seq_len / document_length);
	}
	return 0;
}

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const p4d_gpu *gpu = p4d_gpu_find(&gpus, "h200-141gb", NULL);
	p4d_step_result result;
	p4d_trainer *trainer;
	p4d_device device;

	p4d_transport *transport = NULL;
	p4d_group *all;

	CHECK(gpu && size <= 2);
	TRY(p4d_group_open(&all, world, (const uint32_t[]){0, 1}, size, err));
	TRY(counted_device_open(&device, &layout, gpu, err));
	if (size > 1)
		TRY(p4d_comm_transport_open(&transport, all, &device, P4D_TRANSPORT_STAGED, NULL, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, layout.vocab);
	settings.net.gpu = gpu;
	settings.net.transport = transport;
	settings.net.document_mask = document_length > 0;
	TRY(p4d_trainer_open(&trainer, &settings, err));
	CHECK(!device.attention_slow);
	(void)counted_device_take();
	TRY(p4d_trainer_step(trainer, 1, 1e-3f, source, NULL, &result, err));
	const counted_step counted = counted_device_take();
	CHECK(p4d_shim_gpu.target == (layout.tp_comm_overlap ? 132 - P4D_TP_BLOCKS : 0));
	if (rank == 0)
		*shared = counted;
	p4d_trainer_close(trainer);
	p4d_comm_transport_close(transport);
	p4d_group_close(all);
	device.close(&device);
	return 0;
}

static counted_step step_on(uint32_t ranks, const char *options)
{
	p4d_error err;
	forked f;

	if (training_layout(options, ranks, &layout, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	memset(shared, 0, sizeof(*shared));
	forked_init(&f, ranks, NULL);
	forked_start(&f, train);
	if (!forked_finish(&f, 60) || !forked_all_well(&f))
		fail_msg("%s", options);
	if (getenv("P4D_STEP_REPORT")) {
		printf("\n%s\n%-20s %7s %9s %9s %9s\n", options, "operation", "calls", "launches", "GB",
		       "ms");
		for (unsigned i = 0; i < shared->operations; i++) {
			const counted_operation *o = &shared->operation[i];
			printf("%-20s %7llu %9llu %9.2f %9.2f\n", o->name, (unsigned long long)o->calls,
			       (unsigned long long)o->launches, o->bytes / 1e9, 1e3 * o->seconds);
		}
		printf("%-20s %7s %9llu %9.2f %9.2f\n", "sum", "", (unsigned long long)shared->launches,
		       shared->bytes / 1e9, 1e3 * shared->seconds);
	}
	return *shared;
}

static counted_step step_of(const char *options)
{
	return step_on(1, options);
}

/* The cost model's seconds for the step that was counted last. */
static double estimated(void)
{
	p4d_timeline_work work = {0};
	p4d_step step;

	assert_int_equal(p4d_cost_step(&layout, p4d_gpu_find(&gpus, "h200-141gb", NULL), &work, &step, NULL),
			 0);
	p4d_timeline_work_free(&work);
	return step.seconds;
}

/* MFU as NVIDIA computes it: the model's FLOPs divided by the bf16 peak. */
static double mfu(const counted_step *step)
{
	const p4d_gpu *gpu = p4d_gpu_find(&gpus, "h200-141gb", NULL);

	return p4d_cost_model_flops(&layout) / step->seconds / gpu->peak_bf16_flops;
}

/* Checks that launches, bytes and seconds of a step are at most these, and that `p4d estimate` gives the
 * same seconds within 5 %. */
static void check(const char *options, uint64_t most_launches, double most_gigabytes, double most_seconds)
{
	const counted_step step = step_of(options);

	const double estimate = estimated();
	print_message("%llu launches, %.1f GB, %.4f s, MFU %.1f %%; estimated %.4f s\n",
		      (unsigned long long)step.launches, step.bytes / 1e9, step.seconds, 100 * mfu(&step),
		      estimate);
	assert_true(fabs(estimate / step.seconds - 1) <= 0.05);
	assert_true(step.launches > 0 && step.launches <= most_launches);
	assert_true(step.bytes / 1e9 <= most_gigabytes && step.seconds <= most_seconds);
}

/* The limits are the counts after the last improvement. */
static void steps(void **state)
{
	(void)state;
	check(LLAMA_1B "recompute=keep global-batch=4", 738, 206.1, 0.2496);
	check(LLAMA_1B "recompute=keep global-batch=32", 3601, 1388.7, 1.9197);
	check(LLAMA_3B "recompute=keep global-batch=2", 1258, 281.7, 0.3247);
	check(LLAMA_3B "recompute=keep global-batch=16", 6081, 1578.9, 2.4048);
	/* blockwise FP8; the matmuls of head and attention stay in bf16 */
	check(LLAMA_1B "recompute=keep global-batch=32 precision=fp8", 4433, 1329.9, 1.5279);
	check(LLAMA_3B "recompute=keep global-batch=16 precision=fp8", 7537, 1530.1, 1.7831);
}

/* The gain from FP8 is also the one that `p4d estimate` predicts. */
static void gain_of_fp8(void **state)
{
	static const char *const models[] = {LLAMA_1B "recompute=keep global-batch=32",
					     LLAMA_1B "recompute=none global-batch=32",
					     LLAMA_3B "recompute=keep global-batch=16"};
	char options[512];

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		const double bf16 = step_of(models[i]).seconds, estimate = estimated();
		snprintf(options, sizeof(options), "%s precision=fp8", models[i]);
		const double gain = bf16 / step_of(options).seconds, said = estimate / estimated();
		print_message("FP8 is %.3f times as fast as bf16, estimated %.3f\n", gain, said);
		assert_true(fabs(said / gain - 1) <= 0.01);
	}
}

static uint64_t calls(const counted_step *step, const char *name)
{
	for (unsigned i = 0; i < step->operations; i++)
		if (!strcmp(step->operation[i].name, name))
			return step->operation[i].calls;
	return 0;
}

/* A step needs no copies: matmuls add residuals, and cuDNN computes attention's row sums. Only small
 * gradients are zeroed. */
static void no_copies(void **state)
{
	const counted_step step = step_of(LLAMA_1B "global-batch=4");

	(void)state;
	assert_int_equal(calls(&step, "copy"), 0);
	assert_int_equal(calls(&step, "copy_rows"), 0);
	assert_int_equal(calls(&step, "attention_row_sums"), 0);
	for (unsigned i = 0; i < step.operations; i++)
		if (!strcmp(step.operation[i].name, "zero"))
			assert_true(step.operation[i].bytes < 100e6);
}

/* Number of launches of one layer in both passes and in the update. */
static uint64_t launches_of_layer(const char *recompute)
{
	char options[512];

	snprintf(options, sizeof(options), LLAMA_1B "global-batch=4 recompute=%s", recompute);
	const uint64_t more = step_of(options).launches;
	snprintf(options, sizeof(options), LLAMA_1B "global-batch=4 layers=15 recompute=%s", recompute);
	return more - step_of(options).launches;
}

static void a_layer(void **state)
{
	/* the update has AdamW, the norm and two ranges to zero */
	const uint64_t update = 6 + 2 * 6 + 2;

	(void)state;
	assert_int_equal(launches_of_layer("keep"), 24 + update);
	/* the backward pass recomputes two norms; the product of gate and up is computed together with
	 * their gradient */
	assert_int_equal(launches_of_layer("none"), 26 + update);
	/*
	 * FP8 quantizes for each of four matmuls its input and the gradient of its result (both ways at
	 * once), and computes SwiGLU and its gradient meanwhile; `none` quantizes the input again. It also
	 * quantizes the matrix, once per step (both ways at once) or in each pass
	 */
	assert_int_equal(launches_of_layer("keep precision=fp8"), 24 - 2 + 4 * 2 + 4 + update);
	assert_int_equal(launches_of_layer("none precision=fp8"), 26 - 2 + 4 * 3 + 4 * 2 + update);
}

/* Launches of layers of other families, in both passes and the update. */
static void families(void **state)
{
#define FAMILY \
	"model=custom tied=on device=cuda tp=1 cp=1 pp=1 vpp=1 precision=bf16 recompute=keep seq-len=1024 " \
	"max-seq-len=1024 global-batch=4 micro-batch=4 "
	static const struct {
		const char *name, *model;
		unsigned layers; /* number of layers after which the kinds of layers repeat */
		uint64_t launches;
	} cases[] = {
	    {"GPT-2",
	     FAMILY "architecture=gpt2 vocab=50257 hidden=768 ffn=3072 heads=12 kv-heads=12 head-dim=64 "
		    "norm=layernorm glu=off activation=gelu positions=learned bias=all qk-norm=off",
	     1, 80},
	    {"Gemma 3 1B",
	     FAMILY "architecture=gemma3 vocab=262144 hidden=1152 ffn=6912 heads=4 kv-heads=1 head-dim=256 "
		    "bias=none qk-norm=on activation=geglu sliding-window=512",
	     6, 414},
	    {"Phi-3 mini",
	     FAMILY
	     "architecture=phi3 tied=off vocab=32064 hidden=3072 ffn=8192 heads=32 kv-heads=32 head-dim=96 "
	     "bias=none qk-norm=off sliding-window=512",
	     1, 44},
	};

	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t launches[2];
		for (unsigned k = 0; k < 2; k++) {
			char options[600];
			snprintf(options, sizeof(options), "%s layers=%u", cases[i].model,
				 (k + 1) * cases[i].layers);
			launches[k] = step_of(options).launches;
		}
		print_message("%s: %llu launches of %u layers\n", cases[i].name,
			      (unsigned long long)(launches[1] - launches[0]), cases[i].layers);
		wrong += launches[1] - launches[0] != cases[i].launches;
	}
	assert_int_equal(wrong, 0);
}

/*
 * Packed documents. If the plan has a mean length, cuDNN computes them, with two uploads and otherwise the
 * launches of whole sequences. A second call of cuDNN adds a launch to each pass. Without a mean length,
 * p4d's own kernels compute documents.
 */
static void documents(void **state)
{
#define PACKED \
	LLAMA "layers=4 hidden=3072 ffn=8192 heads=24 head-dim=128 micro-batch=1 seq-len=8192 " \
	      "global-batch=2 "
	enum { MICRO_BATCHES = 2, PASSES = 4 * MICRO_BATCHES, UPLOADS = 2 };
	const counted_step whole = step_of(PACKED);
	const double whole_mfu = mfu(&whole);

	(void)state;
	document_length = 1024;
	const counted_step fused = step_of(PACKED "document-len=1k");
	const double fused_mfu = mfu(&fused);
	/* cuDNN gets 4 documents in each call */
	const counted_step twice = step_of(PACKED "document-len=8k");
	const counted_step own = step_of(PACKED);
	document_length = 0;
	print_message(
	    "launches: %llu whole, %llu documents by cuDNN (%llu in two calls), %llu by own kernels\n"
	    "GB: %.2f whole, %.2f documents; MFU %.1f and %.1f %%\n",
	    (unsigned long long)whole.launches, (unsigned long long)fused.launches,
	    (unsigned long long)twice.launches, (unsigned long long)own.launches, whole.bytes / 1e9,
	    fused.bytes / 1e9, 100 * whole_mfu, 100 * fused_mfu);
	assert_int_equal(fused.launches, whole.launches + UPLOADS * MICRO_BATCHES);
	assert_int_equal(twice.launches, fused.launches + 2 * PASSES);
	assert_true(own.launches > whole.launches);
	assert_true(fabs(fused_mfu - whole_mfu) < 0.05);
}

/* A step without the copies of NCCL's stand-in through the host. */
static counted_step on_gpu(const counted_step *step)
{
	counted_step rest = *step;

	for (unsigned i = 0; i < step->operations; i++) {
		const counted_operation *o = &step->operation[i];
		if (strcmp(o->name, "upload") && strcmp(o->name, "download"))
			continue;
		rest.launches -= o->launches;
		rest.bytes -= o->bytes;
	}
	return rest;
}

/* With tp-comm-overlap, eight matmuls of a layer are computed in halves: those with gathered inputs and
 * those with summed results. All other operations stay the same. */
static void halves(void **state)
{
#define TWO \
	LLAMA "layers=1 hidden=2048 ffn=8192 heads=32 head-dim=64 micro-batch=1 global-batch=1 tp=2 " \
	      "recompute=keep "
	const counted_step whole = step_on(2, TWO), half = step_on(2, TWO "tp-comm-overlap=on");
	static const char *const products[] = {"linear", "linear_input"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(calls(&whole, products[i]), 4);
		assert_int_equal(calls(&half, products[i]), 8);
	}
	for (unsigned i = 0; i < whole.operations; i++) {
		const counted_operation *o = &whole.operation[i];
		if (strcmp(o->name, "linear") && strcmp(o->name, "linear_input") &&
		    strcmp(o->name, "upload") && strcmp(o->name, "download"))
			assert_int_equal(calls(&half, o->name), o->calls);
	}
	/* computed in halves, each of the four matrices is read once more in each pass; with two ranks, a
	 * rank has half of each */
	const double matrices = 2048 * (2048 + 2 * 512 + 2048 + 3 * 8192) / 2;
	print_message("%.3f GB in halves, %.3f whole\n", on_gpu(&half).bytes / 1e9,
		      on_gpu(&whole).bytes / 1e9);
	assert_true(fabs(on_gpu(&half).bytes - on_gpu(&whole).bytes - 2 * 2 * matrices) < 1);
}

/*
 * Context parallelism on two ranks, each with half of the tokens, compared with one rank: launches and bytes
 * without messages. A rank's own block of keys and the other rank's block are two calls of attention, each
 * with a merge; backward, the gradients of keys and values are summed in fp32. With all-gather there is one
 * call for all keys. p4d's own kernels compute packed documents there, in one launch for each call.
 */
static void context_parallel(void **state)
{
#define HALF PACKED "recompute=keep cp="
	static const struct {
		const char *name, *options;
		uint64_t document, launches;
		double gigabytes;
	} cases[] = {
	    {"whole", HALF "1", 0, 310, 112.53},
	    {"ring", HALF "2", 0, 448, 69.47},
	    {"all-gather", HALF "2 cp-comm=all-gather", 0, 408, 64.60},
	    {"documents, ring", HALF "2 document-len=1k", 1024, 416, 69.47},
	    {"documents, all-gather", HALF "2 cp-comm=all-gather document-len=1k", 1024, 360, 64.60},
	    {"FP8, whole", HALF "1 precision=fp8", 0, 374, 112.00},
	    {"FP8, ring", HALF "2 precision=fp8", 0, 512, 69.20},
	    {"FP8, all-gather", HALF "2 precision=fp8 cp-comm=all-gather", 0, 472, 64.33},
	};
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		document_length = cases[i].document;
		const counted_step all = step_on(strstr(cases[i].options, "cp=2") ? 2 : 1, cases[i].options),
				   step = on_gpu(&all);
		const double gigabytes = step.bytes / 1e9;
		print_message("%s: %llu launches, %.2f GB\n", cases[i].name,
			      (unsigned long long)step.launches, gigabytes);
		wrong += step.launches != cases[i].launches || fabs(gigabytes - cases[i].gigabytes) > 0.005;
	}
	document_length = 0;
	assert_int_equal(wrong, 0);
}

static int set_up(void **state)
{
	p4d_error err;

	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : p4d_gpus_load(&gpus, NULL, &err);
}

static int tear_down(void **state)
{
	(void)state;
	p4d_gpus_free(&gpus);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steps),   cmocka_unit_test(gain_of_fp8),      cmocka_unit_test(no_copies),
	    cmocka_unit_test(a_layer), cmocka_unit_test(families),         cmocka_unit_test(documents),
	    cmocka_unit_test(halves),  cmocka_unit_test(context_parallel),
	};

	return cmocka_run_group_tests_name("a step on a GPU", tests, set_up, tear_down);
}
