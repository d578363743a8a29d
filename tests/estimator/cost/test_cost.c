/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: against arithmetic done by hand, and its properties. */
#include "support/support.h"

#include <math.h>

#include "cost/cost_internal.h"
#include "plan/stage_memory.h"
#include "request/defaults.h"
#include "support/cost_gpus.h"

static p4d_layout layout_of(const char *options, uint64_t nodes, uint64_t per_node)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	set_all(&r, options);
	p4d_request_complete(&r, 0, nodes * per_node);
	if (p4d_layout_build(&r, nodes, per_node, &l, &err) < 0)
		fail_msg("layout: %s", err.text);
	return l;
}

static p4d_step step_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	p4d_timeline_work work = {0};
	p4d_step step;
	p4d_error err;

	if (p4d_cost_step(l, gpu, &work, &step, &err) < 0)
		fail_msg("step: %s", err.text);
	p4d_timeline_work_free(&work);
	return step;
}

static double seconds(const char *options, uint64_t nodes, uint64_t per_node, const p4d_gpu *gpu)
{
	p4d_layout l = layout_of(options, nodes, per_node);

	return step_of(&l, gpu).seconds;
}

/* ---- by hand ---- */

#define SMALL \
	"model=custom layers=2 hidden=64 ffn=128 heads=4 kv-heads=2 head-dim=16 vocab=256 norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off seq-len=32 micro-batch=1 "

static void flops_by_hand(void **state)
{
	(void)state;
	/* q and o 64*64, k and v 64*32, three times 64*128; the output projection counts, the input table
	 * does not */
	const double matrices = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) + 256 * 64;
	const double tokens = 8 * 32;
	const double scores = 2 * 64 * 32; /* layers * heads * head size * sequence */
	p4d_layout l = layout_of(SMALL "framework=megatron global-batch=8 vocab=256", 1, 1);

	assert_int_equal(l.vocab, 256);
	assert_true(p4d_cost_model_flops(&l) == tokens * (6 * matrices + 6 * scores));
	assert_true(p4d_cost_hardware_flops(&l) == tokens * (6 * matrices + 12 * scores));
	l = layout_of(SMALL "framework=megatron global-batch=8 recompute=full", 1, 1);
	assert_true(p4d_cost_model_flops(&l) == tokens * (6 * matrices + 6 * scores));
	/* the head is not computed again */
	assert_true(p4d_cost_hardware_flops(&l) == tokens * (8 * matrices - 2 * 256 * 64 + 16 * scores));
	l = layout_of(SMALL "framework=megatron global-batch=8 recompute=selective", 1, 1);
	assert_true(p4d_cost_hardware_flops(&l) == tokens * (6 * matrices + 16 * scores));
	l = layout_of(SMALL "framework=p4d global-batch=8 recompute=mlp", 1, 1);
	assert_true(p4d_cost_hardware_flops(&l) ==
		    tokens * (6 * matrices + 2 * 2 * 2 * 64 * 128 + 12 * scores));
	/* the heads need not be as wide as the model */
	l = layout_of("model=custom layers=1 hidden=64 ffn=128 heads=8 kv-heads=8 head-dim=16 vocab=256 "
		      "norm=rmsnorm glu=on tied=on positions=rope bias=none qk-norm=off seq-len=32 "
		      "framework=p4d global-batch=1",
		      1, 1);
	assert_true(p4d_cost_model_flops(&l) ==
		    32.0 * (6 * (4 * 64 * 128 + 3 * 64 * 128 + 256 * 64) + 6 * 128 * 32));
}

/* PTD-P's own formula, for its largest model. */
static void hardware_flops_as_published(void **state)
{
	(void)state;
	p4d_layout l =
	    layout_of("model=gpt layers=128 hidden=25600 ffn=102400 heads=160 kv-heads=160 head-dim=160 "
		      "vocab=51200 norm=layernorm glu=off tied=on positions=learned bias=all qk-norm=off "
		      "seq-len=2048 tp=8 pp=64 micro-batch=1 global-batch=3072 framework=megatron "
		      "precision=fp16 recompute=full",
		      384, 8);
	double B = 3072, s = 2048, L = 128, h = 25600, V = 51200;
	double published = 96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h));

	assert_true(fabs(p4d_cost_hardware_flops(&l) / published - 1) < 1e-12);
}

static void rates_of_a_step(void **state)
{
	(void)state;
	p4d_gpu gpu = gpu_named("h100");
	p4d_layout l =
	    layout_of(MODEL_13B "framework=megatron tp=4 global-batch=64 seq-len=2048 recompute=full", 1, 8);
	p4d_step y = step_of(&l, &gpu);

	assert_true(y.seconds > 0);
	assert_true(fabs(y.tokens_per_second_per_gpu - 64.0 * 2048 / 8 / y.seconds) < 1e-6);
	assert_true(fabs(y.tflops_per_gpu - p4d_cost_model_flops(&l) / 8 / y.seconds / 1e12) < 1e-6);
	assert_true(fabs(y.mfu - y.tflops_per_gpu / 989) < 1e-9);
	assert_true(fabs(y.hfu - y.hardware_tflops_per_gpu / 989) < 1e-9);
	assert_true(y.hfu > y.mfu && y.hfu < 1 && y.mfu > 0.1);
	assert_true(y.bubble_fraction >= 0 && y.bubble_fraction < 0.01);
}

/* The passes are the sum of what they are said to be made of. */
static void passes_add_up(void **state)
{
	static const char *const cases[] = {
	    "framework=megatron tp=4 pp=4 cp=2 vpp=5 recompute=full global-batch=64",
	    "framework=megatron tp=8 pp=4 attention=unfused recompute=selective dropout=on global-batch=64",
	    "framework=p4d tp=2 pp=4 cp=4 recompute=mlp global-batch=64",
	    "framework=p4d tp=2 pp=4 cp=4 cp-comm=all-gather recompute=full global-batch=64",
	    "framework=megatron pp=8 cp=4 cp-comm=all-gather global-batch=64",
	    "framework=p4d tp=8 pp=2 cp=2 vpp=2 schedule=zbv global-batch=64",
	    "framework=p4d tp=8 pp=4 schedule=1f1b vocab-parallel=vocab-2 global-batch=64",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char options[1024];
		p4d_gpu gpu = gpu_named("h100");
		snprintf(options, sizeof(options), MODEL_13B "seq-len=4096 %s", cases[i]);
		p4d_layout l = layout_of(options, 4, 8);
		double storage[256];
		p4d_durations d;
		assert_true(p4d_cost_storage(&l) <= 256);
		p4d_cost_durations(&l, &gpu, storage, &d);
		for (uint32_t stage = 0; stage < l.pp; stage++)
			for (uint32_t chunk = 0; chunk < l.vpp; chunk++) {
				p4d_cost_passes_of_chunk y;
				p4d_cost__pass(&l, &gpu, stage, chunk, &y);
				double all = y.forward + y.backward_input + y.backward_weight;
				double parts = y.gemm + y.attention + y.memory_bound + y.tensor_comm +
					       y.context_comm + y.recompute;
				assert_true(fabs(parts / all - 1) < 1e-12);
				size_t at = stage * (size_t)l.vpp + chunk;
				assert_true(d.forward[at] == y.forward);
				assert_true(d.backward_input[at] == y.backward_input);
				assert_true(d.backward_weight[at] == y.backward_weight);
				assert_true((y.recompute > 0) == (l.recompute != P4D_RECOMPUTE_NONE));
				assert_true((y.context_comm > 0) == (l.cp > 1));
			}
		/* the ends of the model make their stages longer, unless they are cut over all */
		double middle = d.forward[l.vpp];
		assert_true((d.forward[0] > middle) == !l.vocab_parallel);
		assert_true((d.vocabulary_forward > 0) == !!l.vocab_parallel);
		const bool overlaps = l.framework == P4D_FRAMEWORK_P4D || l.overlap_p2p;
		assert_true(overlaps ? d.send > 0 && d.recv == 0 : d.send == 0 && d.recv > 0);
	}
}

/* ---- what waits for the second half of a split backward pass ---- */

static p4d_cost_passes_of_chunk pass_of(const char *more)
{
	char options[1024];
	p4d_gpu gpu = gpu_named("h100");
	p4d_cost_passes_of_chunk y;

	snprintf(options, sizeof(options), MODEL_13B "seq-len=4096 framework=p4d pp=4 global-batch=64 %s",
		 more);
	p4d_layout l = layout_of(options, 4, 8);
	p4d_cost__pass(&l, &gpu, 1, 0, &y);
	return y;
}

static double both(const p4d_cost_passes_of_chunk *y)
{
	return y->backward_input + y->backward_weight;
}

/*
 * Of the matrices 4 h^2 and 3 f h only those of qkv, 3 h^2, and of gate and up, 2 f h, wait; none that is
 * made again does.
 */
static void weights_that_wait(void **state)
{
	const double h = 5120, f = 13824, layer = 4 * h * h + 3 * f * h;
	const p4d_cost_passes_of_chunk whole = pass_of("tp=1 schedule=1f1b"),
				       none = pass_of("tp=1 schedule=zb1p"),
				       mlp = pass_of("tp=1 schedule=zb1p recompute=mlp"),
				       full = pass_of("tp=1 schedule=zb1p recompute=full");

	(void)state;
	/* products of weights take a third of all; they accumulate, and the norms are made again before them
	 */
	const double some = none.backward_weight / (none.gemm / 3) * layer / (3 * h * h + 2 * f * h),
		     few = mlp.backward_weight / (mlp.gemm / 3) * layer / (3 * h * h);
	assert_true(some > 1 && some < 1.12 && few > 1 && few < 1.12);
	assert_true(full.backward_weight == 0);
	/* they wait, no more; the gradient of qkv is moved once more */
	assert_true(both(&none) > both(&whole) && both(&none) < 1.02 * both(&whole));
	assert_true(fabs((both(&mlp) - mlp.recompute) / both(&none) - 1) < 1e-12);
	/* the inputs of both are gathered again, each when it is needed */
	const p4d_cost_passes_of_chunk alone = pass_of("tp=4 schedule=zb1p sequence-parallel=off"),
				       cut = pass_of("tp=4 schedule=zb1p"),
				       again = pass_of("tp=4 schedule=zb1p recompute=full");
	assert_true(cut.backward_weight > 1.05 * alone.backward_weight);
	assert_true(fabs((both(&again) - again.recompute) / both(&cut) - 1) < 0.01);
}

/* The choice between a ring and an all-gather is that of the step times, which differ both ways. */
static void keys_are_gathered_where_that_is_faster(void **state)
{
	static const char *const recomputes[] = {"none", "full"};
	p4d_gpu gpu = gpu_named("h100");
	p4d_timeline_work work = {0};
	unsigned gathered = 0, rings = 0;
	(void)state;

	for (uint32_t cp = 2; cp <= 64; cp *= 2)
		for (uint32_t seq_len = 2048; seq_len <= 131072; seq_len *= 4)
			for (int i = 0; i < 4; i++) {
				char options[512];
				p4d_step ring, all;
				snprintf(options, sizeof(options),
					 MODEL_70B "framework=p4d seq-len=%u tp=%d cp=%u pp=1 recompute=%s "
						   "global-batch=8",
					 seq_len, i / 2 ? 8 : 1, cp, recomputes[i % 2]);
				p4d_layout l =
				    layout_of(options, i / 2 ? cp : (cp + 7) / 8, cp < 8 && i < 2 ? cp : 8);
				bool gathers = p4d_cost_prefers_gather(&l, &gpu);
				assert_int_equal(p4d_cost_step(&l, &gpu, &work, &ring, NULL), 0);
				l.cp_comm = P4D_CP_ALL_GATHER;
				assert_int_equal(p4d_cost_step(&l, &gpu, &work, &all, NULL), 0);
				assert_true(gathers == (all.seconds < ring.seconds));
				gathered += gathers;
				rings += !gathers;
			}
	p4d_timeline_work_free(&work);
	printf("gathered %u times, a ring %u times\n", gathered, rings);
	assert_true(gathered >= 3 && rings >= 3);
}

/* ---- what has no clock ---- */

static void no_guess(void **state)
{
	(void)state;
	p4d_layout l = layout_of(MODEL_13B "tp=8 global-batch=8", 1, 8);
	p4d_layout nodes = layout_of(MODEL_13B "tp=8 global-batch=8", 2, 8);
	p4d_layout cpu = layout_of(MODEL_13B "device=cpu tp=8 global-batch=8", 1, 8);
	p4d_layout fp32 = layout_of(MODEL_13B "precision=fp32 tp=8 global-batch=8", 1, 8);
	p4d_layout fp16 = layout_of(MODEL_13B "precision=fp16 tp=8 global-batch=8", 1, 8);
	p4d_gpu h100 = gpu_named("h100"), slice = gpu_named("h100-1g.10gb"), amd = gpu_named("mi300x"),
		v100 = gpu_named("v100-32gb");
	p4d_timeline_work work = {0};
	p4d_step step;
	p4d_error err;

	assert_true(p4d_cost_known(&l, &h100) && p4d_cost_known(&nodes, &h100));
	assert_true(p4d_cost_known(&fp32, &h100) && p4d_cost_known(&fp16, &h100));
	assert_false(p4d_cost_known(&cpu, &h100));
	assert_false(p4d_cost_known(&l, NULL));
	assert_false(p4d_cost_known(&l, &slice));
	assert_false(p4d_cost_known(&l, &amd));
	/* no bf16 */
	assert_false(p4d_cost_known(&l, &v100));
	assert_true(p4d_cost_known(&fp16, &v100));
	h100.net_bytes_per_s = 0;
	assert_true(p4d_cost_known(&l, &h100));
	assert_false(p4d_cost_known(&nodes, &h100));
	h100.peak_fp32_flops = 0;
	assert_false(p4d_cost_known(&fp32, &h100));
	assert_int_equal(p4d_cost_step(&nodes, &h100, &work, &step, &err), -1);
	assert_int_equal(err.code, P4D_E_NO_RATES);
	assert_int_equal(p4d_cost_step(&cpu, &h100, &work, &step, &err), -1);
	assert_int_equal(err.code, P4D_E_NO_RATES);
	p4d_timeline_work_free(&work);
}

/* Every GPU that is sold as a whole and made by NVIDIA has a clock. */
static void gpus_with_a_clock(void **state)
{
	(void)state;
	unsigned known = 0;
	p4d_layout l = layout_of(MODEL_13B "tp=8 precision=fp16 global-batch=16", 2, 8);

	for (size_t i = 0; i < gpus.count; i++) {
		const p4d_gpu *gpu = &gpus.gpu[i];
		bool amd = !strncmp(gpu->name, "mi", 2), slice = !strcmp(gpu->status, "derived");
		if (p4d_cost_known(&l, gpu) != (!amd && !slice))
			fail_msg("%s", gpu->name);
		known += !amd && !slice;
		if (amd || slice)
			continue;
		p4d_step y = step_of(&l, gpu);
		assert_true(y.mfu > 0.02 && y.mfu < 0.75);
	}
	assert_int_equal(known, 28);
}

/* ---- properties ---- */

static void faster_parts_are_not_slower(void **state)
{
	static const char *const cases[] = {
	    "framework=megatron tp=8 pp=4 cp=2 recompute=full global-batch=64",
	    "framework=p4d tp=4 pp=4 cp=4 global-batch=64",
	    "framework=p4d tp=8 pp=2 cp=2 vpp=2 schedule=v-half global-batch=64",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char options[1024];
		p4d_gpu gpu = gpu_named("h100");
		snprintf(options, sizeof(options), MODEL_13B "seq-len=4096 %s", cases[i]);
		double now = seconds(options, 8, 8, &gpu);
		double *rates[] = {&gpu.peak_bf16_flops,
				   &gpu.hbm_bytes_per_s,
				   &gpu.link_bytes_per_s,
				   &gpu.net_bytes_per_s,
				   &gpu.gemm_efficiency,
				   &gpu.attention_forward_efficiency,
				   &gpu.attention_backward_efficiency};
		for (size_t j = 0; j < sizeof(rates) / sizeof(rates[0]); j++) {
			double before = *rates[j];
			*rates[j] = 1.3 * before;
			double faster = seconds(options, 8, 8, &gpu);
			assert_true(faster < now);
			assert_true(faster > now / 1.31);
			*rates[j] = before;
		}
	}
}

static double of_13b(const char *framework, const char *more)
{
	p4d_gpu gpu = gpu_named("h100");
	char options[1024];

	snprintf(options, sizeof(options), MODEL_13B "framework=%s global-batch=512 seq-len=2048 %s",
		 framework, more);
	return seconds(options, 8, 8, &gpu);
}

static void more_work_takes_longer(void **state)
{
	/* from faster to slower */
	static const char *const order[][2] = {
	    {"tp=4 recompute=none", "tp=4 recompute=mlp"},
	    {"tp=4 recompute=mlp", "tp=4 recompute=full"},
	    {"tp=2", "tp=4"},
	    {"tp=4", "tp=8"},
	    {"tp=2 pp=4", "tp=2 pp=4 pipeline-split=8,8,8,16"},
	    {"precision=bf16", "precision=fp32"},
	};
	p4d_gpu gpu = gpu_named("h100");
	(void)state;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		assert_true(of_13b("p4d", order[i][0]) < of_13b("p4d", order[i][1]));
		assert_true(of_13b("megatron", order[i][0]) < of_13b("megatron", order[i][1]));
	}
	/* a smaller bubble with more chunks, where there are few micro-batches */
	assert_true(of_13b("p4d", "tp=2 pp=8 vpp=5 global-batch=32") <
		    of_13b("p4d", "tp=2 pp=8 global-batch=32"));
	assert_true(of_13b("megatron", "tp=2 pp=8 vpp=5 global-batch=32") <
		    of_13b("megatron", "tp=2 pp=8 global-batch=32"));
	/* fused attention of p4d keeps nothing that selective recompute could drop */
	assert_true(of_13b("p4d", "recompute=selective") == of_13b("p4d", "recompute=none"));
	assert_true(of_13b("megatron", "recompute=selective") > of_13b("megatron", "recompute=none"));
	/* twice the batch: less than twice the time */
	double one = seconds(MODEL_13B "tp=2 pp=4 global-batch=128", 8, 8, &gpu);
	double two = seconds(MODEL_13B "tp=2 pp=4 global-batch=256", 8, 8, &gpu);
	assert_true(two > 1.5 * one && two < 2 * one);
	/* the same GPUs in nodes of 4 talk more over the network */
	assert_true(seconds(MODEL_13B "tp=4 global-batch=128", 16, 4, &gpu) >
		    seconds(MODEL_13B "tp=4 global-batch=128", 8, 8, &gpu));
}

static void stage_range(const p4d_layout *l, uint64_t *least, uint64_t *most)
{
	p4d_stage stage;

	*least = UINT64_MAX;
	*most = 0;
	for (uint32_t i = 0; i < l->pp; i++) {
		assert_int_equal(p4d_memory_of_stage(l, P4D_METHOD_PLAN, NULL, i, &stage, NULL), 0);
		*least = stage.allocated_bytes < *least ? stage.allocated_bytes : *least;
		*most = stage.allocated_bytes > *most ? stage.allocated_bytes : *most;
	}
}

/*
 * Vocabulary parallelism (arXiv 2411.05288): 8 A100, 8 stages, a 256k vocabulary on a 4B model of 32 layers,
 * 128 micro-batches of 2048 tokens. Published: 17.3 % of peak without, 51.7 % with.
 */
static void vocabulary_parallelism_pays(void **state)
{
#define MODEL_4B \
	"model=custom layers=32 hidden=3072 ffn=8192 heads=24 kv-heads=24 head-dim=128 vocab=262144 " \
	"norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off seq-len=2048 micro-batch=1 global-batch=128 " \
	"pp=8 " \
	"framework=p4d schedule=1f1b "
	p4d_gpu gpu = gpu_named("a100-80gb");
	(void)state;

	p4d_layout off = layout_of(MODEL_4B, 1, 8), one = layout_of(MODEL_4B "vocab-parallel=vocab-1", 1, 8),
		   two = layout_of(MODEL_4B "vocab-parallel=vocab-2", 1, 8);
	p4d_step without = step_of(&off, &gpu), vocab_1 = step_of(&one, &gpu), vocab_2 = step_of(&two, &gpu);
	printf("mfu: off %.1f %%, vocab-1 %.1f %%, vocab-2 %.1f %%\n", 100 * without.mfu, 100 * vocab_1.mfu,
	       100 * vocab_2.mfu);
	assert_true(without.mfu > 0.14 && without.mfu < 0.28);
	assert_true(vocab_1.mfu > 0.45 && vocab_1.mfu < 0.60);
	assert_true(without.seconds >= 2 * vocab_1.seconds && without.seconds <= 4 * vocab_1.seconds);
	assert_true(without.seconds >= 2 * vocab_2.seconds && without.seconds <= 4 * vocab_2.seconds);
	/* the fullest stage needs less, and with the V every stage needs the same */
	uint64_t least, fullest, unbalanced;
	stage_range(&off, &least, &unbalanced);
	stage_range(&one, &least, &fullest);
	assert_true((double)fullest < 0.8 * (double)unbalanced);
	p4d_layout flat = layout_of(MODEL_4B "schedule=v-half vpp=2 vocab-parallel=vocab-1", 1, 8);
	stage_range(&flat, &least, &fullest);
	assert_true((double)(fullest - least) < 0.03 * (double)fullest);
}

#define MEGATRON_70B MODEL_70B "framework=megatron seq-len=8192 "

/* Each overlap hides what it says, and no more than there is. */
static void overlaps_hide_communication(void **state)
{
	static const char *const layouts[] = {
	    MEGATRON_70B "tp=4 pp=4 vpp=5 cp=2 global-batch=128",
	    MEGATRON_70B "tp=8 pp=2 vpp=4 global-batch=64 grad-dtype=bf16",
	};
	static const char *const overlaps[] = {"tp-comm-overlap", "overlap-p2p", "overlap-dp"};
	const p4d_gpu gpu = gpu_named("h100");

	(void)state;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		for (size_t j = 0; j < sizeof(overlaps) / sizeof(*overlaps); j++) {
			char off[512], on[512];
			snprintf(off, sizeof(off), "%s tp-comm-overlap=off overlap-p2p=off overlap-dp=off",
				 layouts[i]);
			snprintf(on, sizeof(on), "%s", off);
			char *at = strstr(on, overlaps[j]);
			memcpy(at + strlen(overlaps[j]), "=on ", strlen("=on "));
			const double hidden = 1 - seconds(on, 8, 8, &gpu) / seconds(off, 8, 8, &gpu);
			if (hidden < 1e-3 || hidden > 0.2)
				fail_msg("%s: %s hides %.2f %%", layouts[i], overlaps[j], 100 * hidden);
		}
	/* four fifths of the collectives of a layer */
	const p4d_layout off = layout_of(MEGATRON_70B "tp=8 global-batch=8", 1, 8),
			 on = layout_of(MEGATRON_70B "tp=8 global-batch=8 tp-comm-overlap=on", 1, 8);
	const p4d_cost_rates r = p4d_cost__rates_of(&off, &gpu);
	p4d_cost_part there, hidden;
	p4d_cost__layer(&off, &r, &there);
	p4d_cost__layer(&on, &r, &hidden);
	assert_true(fabs(hidden.forward.tensor_comm / there.forward.tensor_comm - 0.2) < 1e-12);
	assert_true(hidden.forward.gemm == there.forward.gemm);
}

/* Where overlapping is asked for and cannot be. */
static void overlaps_that_are_none(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	(void)state;
	set_all(&r, MEGATRON_70B "tp=8 sequence-parallel=off tp-comm-overlap=on");
	p4d_request_complete(&r, 0, 8);
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), -1);
	assert_string_equal(err.text, "tp-comm-overlap=on needs sequence-parallel=on");
	assert_string_equal(err.fix, "--p4d-sequence-parallel=on");
	l = layout_of(MEGATRON_70B "pp=8 tp-comm-overlap=on overlap-p2p=on", 1, 8);
	assert_false(l.tp_comm_overlap || l.overlap_p2p); /* nothing to overlap */
	assert_true(l.overlap_dp);
	/* Megatron-LM's own default */
	assert_true(layout_of(MEGATRON_70B "pp=4 vpp=5 tp=2", 1, 8).overlap_p2p);
	assert_false(layout_of(MEGATRON_70B "pp=4 vpp=5 tp=2", 1, 8).overlap_dp);
}

/* NVLink between nodes: tensor parallelism leaves the tray, and its collectives stay off the network. */
static void a_domain_of_several_nodes(void **state)
{
	const p4d_gpu gpu = gpu_named("gb200");
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(gpu.nvlink_domain, 72);
	set_all(&r, MEGATRON_70B "tp=8");
	p4d_request alone = r;
	p4d_request_complete(&alone, 0, 8);
	assert_int_equal(p4d_layout_build(&alone, 2, 4, &l, &err), -1);
	assert_int_equal(err.code, P4D_E_TP_NODE);
	p4d_gpu_set_domain(&gpu, &r);
	assert_int_equal(r.origin[P4D_NVLINK_DOMAIN], P4D_BY_SITE);
	p4d_request linked = r;
	p4d_request_complete(&linked, 0, 8);
	assert_int_equal(p4d_layout_build(&linked, 2, 4, &l, &err), 0);
	assert_int_equal(l.link_domain, 72);
	assert_true(p4d_cost__ring_of(&l, 8, 1).in_node == 8);
	assert_true(p4d_cost__ring_of(&l, 8, 16).in_node == 4); /* 72 / 16 */
	p4d_request_put(&r, P4D_TP, 16, P4D_BY_USER);
	p4d_request_complete(&r, 0, 16);
	assert_int_equal(p4d_layout_build(&r, 4, 4, &l, &err), -1);
	assert_non_null(strstr(err.text, "tp=16 does not divide"));
	/* the user knows better: racks of which 64 GPUs are used */
	const char *domain64 = MEGATRON_70B "kv-heads=16 tp=16 nvlink-domain=64 global-batch=16";
	assert_true(seconds(domain64, 4, 4, &gpu) > 0);
	/* a domain is never below a node */
	assert_int_equal(layout_of(MEGATRON_70B "tp=8 nvlink-domain=2", 1, 8).link_domain, 8);
}

/* Small passes wait for the host; larger ones hide it. */
static void launches_take_time(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout small = layout_of(SMALL "framework=megatron", 1, 1),
			 large = layout_of(MEGATRON_70B "tp=8", 1, 8);
	const p4d_cost_rates of_small = p4d_cost__rates_of(&small, &gpu),
			     of_large = p4d_cost__rates_of(&large, &gpu);
	p4d_cost_part y;

	(void)state;
	p4d_cost__layer(&small, &of_small, &y);
	assert_true(fabs(p4d_cost_share_seconds(&y.forward) + p4d_cost_share_seconds(&y.backward_input) +
			 p4d_cost_share_seconds(&y.backward_weight) - 650e-6) < 1e-12);
	p4d_cost__layer(&large, &of_large, &y);
	assert_true(y.forward.host == 0 && y.backward_input.host == 0);
}

/* Attention of small heads is slower for the same products. */
static void small_heads_attend_slowly(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout heads_128 = layout_of(MEGATRON_70B, 1, 8),
			 heads_64 = layout_of(MEGATRON_70B "heads=128 head-dim=64", 1, 8),
			 heads_256 = layout_of(MEGATRON_70B "heads=32 head-dim=256", 1, 8);
	const p4d_cost_rates r = p4d_cost__rates_of(&heads_128, &gpu);

	(void)state;
	assert_true(fabs(p4d_cost__rates_of(&heads_64, &gpu).attention_forward / r.attention_forward -
			 4 / 3.) < 1e-12);
	assert_true(p4d_cost__rates_of(&heads_256, &gpu).attention_forward == r.attention_forward);
}

/* More GPUs wait for a slower one. */
static void the_slowest_gpu_sets_the_pace(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout one = layout_of(MODEL_13B "framework=megatron", 1, 1),
			 many = layout_of(MODEL_13B "framework=megatron", 512, 8);
	const double ratio = p4d_cost__rates_of(&many, &gpu).gemm / p4d_cost__rates_of(&one, &gpu).gemm;

	(void)state;
	assert_true(fabs(ratio - 1 - 0.01 * sqrt(2 * log(4096))) < 1e-12);
	assert_true(p4d_cost__rates_of(&many, &gpu).hbm == p4d_cost__rates_of(&one, &gpu).hbm);
}

/* Parameters that are gathered for each pass cost what passes do not hide. */
static void gathers_are_exposed(void **state)
{
	static const char *const flags[] = {
	    MODEL_70B "framework=fsdp tp=1 global-batch=64 seq-len=8192",
	    MODEL_70B "framework=fsdp tp=1 global-batch=64 seq-len=512",
	};
	const p4d_gpu gpu = gpu_named("h100");
	double share[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		const p4d_layout l = layout_of(flags[i], 8, 8);
		p4d_cost_passes_of_chunk p;
		p4d_cost__pass(&l, &gpu, 0, 0, &p);
		const double all = p.forward + p.backward_input + p.backward_weight;
		const double parts = p.gemm + p.attention + p.memory_bound + p.tensor_comm + p.context_comm +
				     p.host + p.recompute + p.data_comm;
		assert_true(fabs(parts - all) < 1e-9 * all);
		share[i] = p.data_comm / all;
	}
	/* a sixteenth of the tokens hides little of as many bytes */
	assert_true(share[0] < 0.1 && share[1] > 0.3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gathers_are_exposed),
	    cmocka_unit_test(flops_by_hand),
	    cmocka_unit_test(hardware_flops_as_published),
	    cmocka_unit_test(rates_of_a_step),
	    cmocka_unit_test(passes_add_up),
	    cmocka_unit_test(weights_that_wait),
	    cmocka_unit_test(keys_are_gathered_where_that_is_faster),
	    cmocka_unit_test(no_guess),
	    cmocka_unit_test(gpus_with_a_clock),
	    cmocka_unit_test(faster_parts_are_not_slower),
	    cmocka_unit_test(more_work_takes_longer),
	    cmocka_unit_test(overlaps_hide_communication),
	    cmocka_unit_test(overlaps_that_are_none),
	    cmocka_unit_test(a_domain_of_several_nodes),
	    cmocka_unit_test(launches_take_time),
	    cmocka_unit_test(small_heads_attend_slowly),
	    cmocka_unit_test(the_slowest_gpu_sets_the_pace),
	    cmocka_unit_test(vocabulary_parallelism_pays),
	};
	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
