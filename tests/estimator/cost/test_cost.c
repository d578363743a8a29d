/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted step times: properties, and comparisons with calculations by hand. */
#include "support/cost_steps.h"

#include "cost/breakdown.h"
#include "plan/plan.h"

/* The gradient of a pair of sequences depends on the losses of both. p4d-train therefore computes all
 * logits twice. */
static void pairs_compute_logits_twice(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb");
	p4d_layout l = layout_of(MODEL_13B "framework=p4d seq-len=4096 global-batch=8 tp=1", 1, 1);
	const p4d_cost_rates r = p4d_cost__rates_of(&l, &gpu);
	const double flops = p4d_cost_hardware_flops(&l, &gpu), model = p4d_cost_model_flops(&l);
	const double logits = 2 * 4096.0 * 8 * (double)l.vocab * (double)l.hidden;
	p4d_cost_part once, twice;

	(void)state;
	p4d_cost__head(&l, &r, &once);
	l.pairs = true;
	p4d_cost__head(&l, &r, &twice);
	assert_true(fabs(twice.forward.gemm / once.forward.gemm - 2) < 1e-9);
	assert_true(twice.backward_input.gemm == once.backward_input.gemm);
	assert_true(twice.forward.memory_bound > once.forward.memory_bound);
	assert_true(fabs((p4d_cost_hardware_flops(&l, &gpu) - flops) / logits - 1) < 1e-6);
	assert_true(p4d_cost_model_flops(&l) == model);
}

static void flops_by_hand(void **state)
{
	(void)state;
	/* q and o have 64*64 elements, k and v 64*32, and the feed-forward part three times 64*128. The
	 * output projection counts, the embedding does not. */
	const double matrices = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) + 256 * 64;
	const double tokens = 8 * 32;
	const double scores = 2 * 64 * 32; /* layers * heads * head size * sequence */
	p4d_layout l = layout_of(SMALL "framework=megatron global-batch=8 vocab=256", 1, 1);

	assert_int_equal(l.vocab, 256);
	assert_true(p4d_cost_model_flops(&l) == tokens * (6 * matrices + 6 * scores));
	assert_true(p4d_cost_hardware_flops(&l, NULL) == tokens * (6 * matrices + 12 * scores));
	l = layout_of(SMALL "framework=megatron global-batch=8 recompute=full", 1, 1);
	assert_true(p4d_cost_model_flops(&l) == tokens * (6 * matrices + 6 * scores));
	/* full recomputation does not include the head */
	assert_true(p4d_cost_hardware_flops(&l, NULL) ==
		    tokens * (8 * matrices - 2 * 256 * 64 + 16 * scores));
	l = layout_of(SMALL "framework=megatron global-batch=8 recompute=selective", 1, 1);
	assert_true(p4d_cost_hardware_flops(&l, NULL) == tokens * (6 * matrices + 16 * scores));
	l = layout_of(SMALL "framework=p4d global-batch=8 recompute=mlp", 1, 1);
	assert_true(p4d_cost_hardware_flops(&l, NULL) ==
		    tokens * (6 * matrices + 2 * 2 * 2 * 64 * 128 + 12 * scores));
	/* of 32 keys a query sees at most the last 8, so only these scores are computed */
	const double share = 8.0 / 32 * (2 - 8.0 / 32);
	l = layout_of(SMALL "framework=megatron global-batch=8 recompute=selective sliding-window=8", 1, 1);
	assert_true(fabs(p4d_cost_model_flops(&l) / (tokens * (6 * matrices + 6 * scores * share)) - 1) <
		    1e-12);
	assert_true(fabs(p4d_cost_hardware_flops(&l, NULL) / (tokens * (6 * matrices + 16 * scores * share)) -
			 1) < 1e-12);
	/* heads * head-dim may differ from hidden */
	l = layout_of("model=custom layers=1 hidden=64 ffn=128 heads=8 kv-heads=8 head-dim=16 vocab=256 "
		      "norm=rmsnorm glu=on tied=on positions=rope bias=none qk-norm=off seq-len=32 "
		      "framework=p4d global-batch=1",
		      1, 1);
	assert_true(p4d_cost_model_flops(&l) ==
		    32.0 * (6 * (4 * 64 * 128 + 3 * 64 * 128 + 256 * 64) + 6 * 128 * 32));
}

/* Frozen matrices have no weight gradients. Two thirds of their matmuls remain, and those of the adapters
 * are added. */
static void adapters_freeze_the_rest(void **state)
{
	(void)state;
	const double matrices = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) + 256 * 64;
	const double tokens = 8 * 32, scores = 2 * 64 * 32;
	const char *const one = SMALL "framework=p4d global-batch=8 finetune=lora lora-rank=4 "
				      "lora-targets=q_proj,v_proj,down_proj tp=";
	p4d_gpu gpu = gpu_named("h100");
	char options[1024];

	/* the adapters (rank, in) and (out, rank) of q, v and down */
	const double adapters = 2 * 4 * (64 + 64 + 64 + 32 + 128 + 64);
	for (int tp = 1; tp <= 2; tp++) {
		snprintf(options, sizeof(options), "%s%d", one, tp);
		p4d_layout l = layout_of(options, 1, tp);
		assert_true(p4d_cost_model_flops(&l) == tokens * (4 * matrices + 6 * adapters + 6 * scores));
	}
	for (int tp = 1; tp <= 8; tp *= 8) {
		snprintf(options, sizeof(options),
			 MODEL_13B "framework=p4d global-batch=64 seq-len=2048 tp=%d", tp);
		p4d_layout l = layout_of(options, 1, 8);
		const p4d_step full = step_of(&l, &gpu);
		strcat(options, " finetune=lora lora-rank=16");
		l = layout_of(options, 1, 8);
		const p4d_step lora = step_of(&l, &gpu);
		/* with tp=8, the narrow matmuls of the adapters may take more time than the frozen weights
		 * save */
		assert_true(lora.seconds < (tp == 1 ? 0.9 : 1.1) * full.seconds &&
			    lora.seconds > 0.6 * full.seconds);
		/* both passes expand 4-bit matrices: half a byte per element is read, and two are written */
		char quantized[1100];
		snprintf(quantized, sizeof(quantized), "%s finetune=qlora", options);
		l = layout_of(quantized, 1, 8);
		const double more = step_of(&l, &gpu).seconds - lora.seconds;
		const double bytes =
		    2 * (2.5 + 1.0 / 64) * (double)l.micro_batches * 40 * 5120 * (4 * 5120 + 3 * 13824) / tp;
		assert_true(more > 0.9 * bytes / 3.35e12 && more < 1.5 * bytes / 3.35e12);
		strcat(options, " lora-targets=attention");
		l = layout_of(options, 1, 8);
		assert_true(step_of(&l, &gpu).seconds < lora.seconds);
	}
}

/* The formula of PTD-P's paper for hardware FLOPs, for its largest model. */
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

	assert_true(fabs(p4d_cost_hardware_flops(&l, NULL) / published - 1) < 1e-12);
}

/*
 * The speed of the host link decides how many layers swap their activations to the host. The other layers
 * recompute. The FLOPs lie between those without and those with full recomputation, in proportion to the
 * layers that recompute.
 */
static void dropped_layers_are_computed_again(void **state)
{
	static const char model[] =
	    MODEL_13B "framework=p4d precision=bf16 global-batch=64 seq-len=2048 tp=2 pp=2 "
		      "schedule=1f1b micro-batch=1 ";
	p4d_gpu gpu = gpu_named("h100");
	char options[1024];
	static p4d_plan plan;

	(void)state;
	for (int fast = 0; fast < 3; fast++) {
		gpu.host_link_bytes_per_s = fast == 2 ? 450e9 : fast ? 64e9 : 1e9;
		p4d_layout kept = layout_of(model, 1, 8);
		snprintf(options, sizeof(options), "%srecompute=full", model);
		p4d_layout all = layout_of(options, 1, 8);
		snprintf(options, sizeof(options), "%soffload=activations", model);
		p4d_layout some = layout_of(options, 1, 8);
		assert_int_equal(p4d_plan_build(&some, &gpu, 0, &plan, NULL), 0);
		const p4d_tensor *row = p4d_plan_find(&plan, B_HOST_ACTIVATIONS);
		const double again = 1 - (row ? row->layers : 0) / 20.,
			     least = p4d_cost_hardware_flops(&kept, &gpu),
			     most = p4d_cost_hardware_flops(&all, &gpu),
			     flops = p4d_cost_hardware_flops(&some, &gpu);
		assert_true(fast == 2 ? again == 0 : fast ? again > 0 && again < 1 : again == 1);
		assert_true(least < 0.8 * most);
		assert_true(fabs((flops - least) / (most - least) - again) < 1e-9);
		const p4d_step y = step_of(&some, &gpu);
		assert_true(fabs(y.hardware_tflops_per_gpu * 8e12 * y.seconds / flops - 1) < 1e-9);
	}
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

/* Dropout takes time. Unfused attention has dropout of its own, which takes more. */
static void dropouts_take_time_of_their_own(void **state)
{
	static const char *const cases[] = {"dropout=off", "dropout=on attention-dropout=off",
					    "dropout=off attention-dropout=on", "dropout=on"};
	double seconds[4];
	const p4d_gpu gpu = gpu_named("h100");

	(void)state;
	for (int i = 0; i < 4; i++) {
		char options[1024];
		snprintf(options, sizeof(options),
			 MODEL_13B
			 "framework=megatron tp=8 attention=unfused seq-len=2048 global-batch=64 %s",
			 cases[i]);
		const p4d_layout l = layout_of(options, 1, 8);
		seconds[i] = step_of(&l, &gpu).seconds;
	}
	assert_true(seconds[0] < seconds[1] && seconds[0] < seconds[2]);
	assert_true(seconds[1] < seconds[3] && seconds[2] < seconds[3]);
	assert_true(seconds[1] < seconds[2]); /* attention's dropout has an element per pair of tokens,
					       * which are more than those of hidden states */
}

/* The times of passes are sums of their parts. */
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
		/* embedding and head make the first and last stages longer, unless all stages share them */
		double middle = d.forward[l.vpp];
		assert_true((d.forward[0] > middle) == !l.vocab_parallel);
		assert_true((d.vocabulary_forward > 0) == !!l.vocab_parallel);
		const bool overlaps = l.framework == P4D_FRAMEWORK_P4D || l.megatron.overlap_p2p;
		assert_true(overlaps ? d.send > 0 && d.recv == 0 : d.send == 0 && d.recv > 0);
	}
}

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

/* zb1p delays only the weight gradients of qkv (3 h^2 elements) and of gate and up (2 f h), of a layer's 4
 * h^2 and 3 f h. It does not delay those of recomputed matrices. */
static void weights_that_wait(void **state)
{
	const double h = 5120, f = 13824, layer = 4 * h * h + 3 * f * h;
	const p4d_cost_passes_of_chunk whole = pass_of("tp=1 schedule=1f1b"),
				       none = pass_of("tp=1 schedule=zb1p"),
				       mlp = pass_of("tp=1 schedule=zb1p recompute=mlp"),
				       full = pass_of("tp=1 schedule=zb1p recompute=full");

	(void)state;
	/* weight gradients are a third of all matmuls; a delayed one is accumulated, and needs its norm's
	 * output recomputed */
	const double some = none.backward_weight / (none.gemm / 3) * layer / (3 * h * h + 2 * f * h),
		     few = mlp.backward_weight / (mlp.gemm / 3) * layer / (3 * h * h);
	assert_true(some > 1 && some < 1.12 && few > 1 && few < 1.12);
	assert_true(full.backward_weight == 0);
	/* delaying does not save work, and copies the gradient of qkv once more */
	assert_true(both(&none) > both(&whole) && both(&none) < 1.02 * both(&whole));
	assert_true(fabs((both(&mlp) - mlp.recompute) / both(&none) - 1) < 1e-12);
	/* the backward pass and the delayed pass both gather their inputs, so gathering is not saved */
	const p4d_cost_passes_of_chunk alone = pass_of("tp=4 schedule=zb1p sequence-parallel=off"),
				       cut = pass_of("tp=4 schedule=zb1p"),
				       again = pass_of("tp=4 schedule=zb1p recompute=full");
	assert_true(cut.backward_weight > 1.05 * alone.backward_weight);
	assert_true(fabs((both(&again) - again.recompute) / both(&cut) - 1) < 0.01);
}

/* p4d chooses a ring or an all-gather by step times, which differ in both directions. */
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

/* Within a node, ranks exchange heads. Across nodes, a ring passes keys and values on. A slow network then
 * carries fewer bytes than with one ring over all ranks. */
static void keys_go_round_among_fewer(void **state)
{
	static const char options[] = MODEL_13B "framework=megatron seq-len=32768 cp=32 global-batch=8 "
						"tp=1 pp=1 micro-batch=1";
	char with[512];
	p4d_gpu gpu = gpu_named("h100");
	(void)state;

	gpu.net_bytes_per_s /= 8;
	snprintf(with, sizeof(with), "%s cp-heads=8", options);
	p4d_layout ring = layout_of(options, 4, 8), both = layout_of(with, 4, 8);
	assert_int_equal(both.megatron.cp_heads, 8);
	assert_true(step_of(&both, &gpu).seconds < 0.9 * step_of(&ring, &gpu).seconds);
	/* within one node, the exchange saves nothing */
	gpu = gpu_named("h100");
	ring = layout_of(MODEL_13B "framework=megatron seq-len=32768 cp=8 global-batch=8 tp=1 pp=1 "
				   "micro-batch=1",
			 1, 8);
	both = layout_of(MODEL_13B "framework=megatron seq-len=32768 cp=8 cp-heads=4 global-batch=8 tp=1 "
				   "pp=1 micro-batch=1",
			 1, 8);
	assert_true(step_of(&both, &gpu).seconds > step_of(&ring, &gpu).seconds);
}

/* Attention within documents that end at random places, with a mean length of a quarter of the sequence. */
static void documents(void **state)
{
	static const char options[] = MODEL_13B "framework=megatron tp=4 global-batch=64 seq-len=32768 "
						"micro-batch=1";
	const double share = 0.5 - 0.125 * (1 - exp(-4));
	char with[512];
	p4d_gpu gpu = gpu_named("h100");
	p4d_breakdown losses[2];
	p4d_error err;
	(void)state;

	snprintf(with, sizeof(with), "%s document-len=8192", options);
	p4d_layout whole = layout_of(options, 4, 8), packed = layout_of(with, 4, 8);
	const p4d_cost_of_documents of = p4d_cost_documents(&packed);
	assert_true(fabs(of.share - share) < 1e-12);
	/* each of 8 ranks has 8 sequences, and all wait for the rank with the longest documents */
	assert_true(fabs(of.excess - sqrt(0.5 / 8) * (1 - share) * sqrt(2 * log(8))) < 1e-12);
	assert_true(p4d_cost_documents(&whole).share == 1 && p4d_cost_documents(&whole).excess == 0);
	const p4d_step slow = step_of(&whole, &gpu), fast = step_of(&packed, &gpu);
	assert_true(fast.seconds < slow.seconds);
	packed.document_excess = of.excess;
	const p4d_step fullest = step_of(&packed, &gpu);
	assert_true(fullest.seconds > fast.seconds && fullest.seconds < slow.seconds);
	packed.document_excess = 0;
	/* packing documents does not change the seconds that matmuls lose */
	assert_int_equal(p4d_breakdown_of(&whole, &gpu, &slow, &losses[0], &err), 0);
	assert_int_equal(p4d_breakdown_of(&packed, &gpu, &fast, &losses[1], &err), 0);
	const double lost = losses[0].fraction[P4D_LOSS_GEMM] * slow.seconds;
	assert_true(fabs(losses[1].fraction[P4D_LOSS_GEMM] * fast.seconds / lost - 1) < 0.01);
}

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
	/* this GPU has no bf16 */
	assert_false(p4d_cost_known(&l, &v100));
	assert_true(p4d_cost_known(&fp16, &v100));
	h100.net_bytes_per_s = 0;
	assert_true(p4d_cost_known(&l, &h100));
	assert_false(p4d_cost_known(&nodes, &h100));
	assert_string_equal(p4d_cost_missing(&nodes, &h100), "net_gb_per_s");
	assert_string_equal(p4d_cost_missing(&l, &v100), "peak_bf16_tflops");
	h100.peak_fp32_flops = 0;
	assert_false(p4d_cost_known(&fp32, &h100));
	assert_int_equal(p4d_cost_step(&nodes, &h100, &work, &step, &err), -1);
	assert_int_equal(err.code, P4D_E_NO_RATES);
	assert_int_equal(p4d_cost_step(&cpu, &h100, &work, &step, &err), -1);
	assert_int_equal(err.code, P4D_E_NO_RATES);
	p4d_timeline_work_free(&work);
}

/* p4d predicts times for every NVIDIA GPU in gpus.json, except MIG slices. */
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
	assert_int_equal(known, 51);
}

static p4d_cost_passes_of_chunk passes_with(const char *more, const p4d_gpu *gpu)
{
	char options[1024];
	p4d_cost_passes_of_chunk passes;

	snprintf(options, sizeof(options), SMALL "framework=megatron global-batch=8 %s", more);
	const p4d_layout l = layout_of(options, 1, 1);
	p4d_cost__pass(&l, gpu, 0, 0, &passes);
	return passes;
}

/* FlashAttention 2 is slower than cuDNN's attention only on Hopper. Without fusion, ReLU and its square
 * are two kernels. */
static void slower_kernels(void **state)
{
	(void)state;
	const p4d_gpu hopper = gpu_named("h100"), ampere = gpu_named("a100");
	const double gap = P4D_LAUNCH_SECONDS, layers = 2, n = 32, ffn = 128, bytes = 2;
	const double usual = passes_with("", &hopper).attention,
		     flash2 = passes_with("attention=flash2", &hopper).attention;
	/* forward and backward passes have 1 and 2.5 times as many FLOPs */
	const double ratio = (1 / 0.35 + 2.5 / 0.335) / (1 / hopper.attention_forward_efficiency +
							 2.5 / hopper.attention_backward_efficiency);
	assert_true(fabs((flash2 - layers * 2 * gap) / (usual - layers * 2 * gap) / ratio - 1) < 1e-9);
	assert_true(passes_with("attention=flash2", &ampere).attention == passes_with("", &ampere).attention);

	/* FlashAttention 2 is 1.4 times as fast in the forward pass, and twice as fast in the backward
	 * pass, as FlashAttention in Triton */
	const p4d_layout in_triton = layout_of(SMALL "global-batch=8 framework=ddp attention=triton", 1, 1),
			 second = layout_of(SMALL "global-batch=8 framework=ddp attention=flash2", 1, 1);
	const p4d_cost_rates slow = p4d_cost__rates_of(&in_triton, &ampere),
			     fast = p4d_cost__rates_of(&second, &ampere);
	assert_true(fabs(slow.attention_forward / fast.attention_forward - 1.4) < 1e-9);
	assert_true(fabs(slow.attention_backward / fast.attention_backward - 2) < 1e-9);

	const double one = passes_with("glu=off activation=relu2", &ampere).memory_bound,
		     two = passes_with("glu=off activation=relu2 swiglu=unfused", &ampere).memory_bound;
	const double moved = layers * (2 + 7) * bytes * n * ffn;
	assert_true(fabs((two - one) / (moved / (ampere.hbm_bytes_per_s * ampere.hbm_efficiency)) - 1) <
		    1e-6);
	assert_true(passes_with("glu=off activation=gelu swiglu=unfused", &ampere).memory_bound ==
		    passes_with("glu=off activation=gelu", &ampere).memory_bound);
}

/* If tokens are padded to the experts' capacity, the host need not wait for the number of tokens per
 * expert. */
static void padded_experts_do_not_wait(void **state)
{
	(void)state;
	static const char *const padding[] = {"off", "on"};
	const double waits[] = {0.3e-3 + 8 * 30e-6, 24 * 4e-6};
	const p4d_gpu gpu = gpu_named("a100");

	for (int i = 0; i < 2; i++) {
		char options[1024];
		p4d_cost_part y = {0};
		snprintf(options, sizeof(options),
			 SMALL "framework=megatron global-batch=8 experts=8 experts-per-token=2 "
			       "expert-ffn=128 ep=1 etp=1 expert-capacity=1 pad-experts=%s",
			 padding[i]);
		const p4d_layout l = layout_of(options, 1, 1);
		const p4d_cost_rates r = p4d_cost__rates_of(&l, &gpu);
		const p4d_cost_sizes z = p4d_cost__sizes_of(&l);
		p4d_cost__experts(&l, &r, &z, &y);
		assert_true(fabs(y.forward.host + y.backward_input.host - waits[i]) < 1e-12);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pairs_compute_logits_twice),
	    cmocka_unit_test(flops_by_hand),
	    cmocka_unit_test(adapters_freeze_the_rest),
	    cmocka_unit_test(hardware_flops_as_published),
	    cmocka_unit_test(dropped_layers_are_computed_again),
	    cmocka_unit_test(rates_of_a_step),
	    cmocka_unit_test(passes_add_up),
	    cmocka_unit_test(dropouts_take_time_of_their_own),
	    cmocka_unit_test(weights_that_wait),
	    cmocka_unit_test(keys_are_gathered_where_that_is_faster),
	    cmocka_unit_test(keys_go_round_among_fewer),
	    cmocka_unit_test(slower_kernels),
	    cmocka_unit_test(padded_experts_do_not_wait),
	    cmocka_unit_test(documents),
	    cmocka_unit_test(no_guess),
	    cmocka_unit_test(gpus_with_a_clock),
	};
	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
