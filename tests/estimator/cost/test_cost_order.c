/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two layouts p4d must predict to be faster: less work, faster parts, overlapped communication,
 * larger NVLink domains. */
#include "plan/plan.h"
#include "support/cost_steps.h"

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
	/* with few micro-batches, more chunks make the bubble smaller */
	assert_true(of_13b("p4d", "tp=2 pp=8 vpp=5 global-batch=32") <
		    of_13b("p4d", "tp=2 pp=8 global-batch=32"));
	assert_true(of_13b("megatron", "tp=2 pp=8 vpp=5 global-batch=32") <
		    of_13b("megatron", "tp=2 pp=8 global-batch=32"));
	/* p4d's fused attention keeps no scores, so selective recompute drops nothing */
	assert_true(of_13b("p4d", "recompute=selective") == of_13b("p4d", "recompute=none"));
	assert_true(of_13b("p4d", "recompute=keep") < of_13b("p4d", "recompute=none"));
	assert_true(of_13b("megatron", "recompute=selective") > of_13b("megatron", "recompute=none"));
	/* twice the batch: less than twice the time */
	double one = seconds(MODEL_13B "tp=2 pp=4 global-batch=128", 8, 8, &gpu);
	double two = seconds(MODEL_13B "tp=2 pp=4 global-batch=256", 8, 8, &gpu);
	assert_true(two > 1.5 * one && two < 2 * one);
	/* in nodes of 4, the same GPUs send more over the network */
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
	assert_true(without.mfu > 0.14 && without.mfu < 0.31); /* here the head takes a smaller share of the
								* step than in the paper */
	assert_true(vocab_1.mfu > 0.45 && vocab_1.mfu < 0.60);
	assert_true(without.seconds >= 1.9 * vocab_1.seconds && without.seconds <= 4 * vocab_1.seconds);
	assert_true(without.seconds >= 1.9 * vocab_2.seconds && without.seconds <= 4 * vocab_2.seconds);
	/* the fullest stage needs less memory than without vocabulary parallelism; with a V schedule all
	 * stages need about the same */
	uint64_t least, fullest, unbalanced;
	stage_range(&off, &least, &unbalanced);
	stage_range(&one, &least, &fullest);
	assert_true((double)fullest < 0.8 * (double)unbalanced);
	p4d_layout flat = layout_of(MODEL_4B "schedule=v-half vpp=2 vocab-parallel=vocab-1", 1, 8);
	stage_range(&flat, &least, &fullest);
	assert_true((double)(fullest - least) < 0.03 * (double)fullest);
}

#define MEGATRON_70B MODEL_70B "framework=megatron seq-len=8192 "

/* Each of the three options alone hides between 0.1 % and 20 % of the step. */
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
	/* tp-comm-overlap hides four fifths of a layer's collectives */
	const p4d_layout off = layout_of(MEGATRON_70B "tp=8 global-batch=8", 1, 8),
			 on = layout_of(MEGATRON_70B "tp=8 global-batch=8 tp-comm-overlap=on", 1, 8);
	const p4d_cost_rates r = p4d_cost__rates_of(&off, &gpu);
	p4d_cost_part there, hidden;
	p4d_cost__layer(&off, &r, &there);
	p4d_cost__layer(&on, &r, &hidden);
	assert_true(fabs(hidden.forward.tensor_comm / there.forward.tensor_comm - 0.2) < 1e-12);
	assert_true(hidden.forward.gemm == there.forward.gemm);
}

#define P4D_70B MODEL_70B "framework=p4d seq-len=8192 micro-batch=1 global-batch=32 "

static double at_least_0(double x)
{
	return x > 0 ? x : 0;
}

/* p4d-train splits each collective into halves. One half is always exposed. Of the other half, the part is
 * exposed that the concurrent matmul does not hide. */
static void halves_hide_communication(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout off = layout_of(P4D_70B "tp=8", 1, 8),
			 on = layout_of(P4D_70B "tp=8 tp-comm-overlap=on", 1, 8);
	const p4d_cost_rates r = p4d_cost__rates_of(&off, &gpu);
	const double n = 8192, h = 8192, q = 8192 / 8, kv = 1024 / 8, f = 28672 / 8;
	const struct {
		double in, out;
	} products[] = {{h, q + 2 * kv}, {q, h}, {h, 2 * f}, {f, h}};
	double seen = 0, slower = 0;
	p4d_cost_part there, hidden;
	uint64_t a, b;

	(void)state;
	p4d_cost__layer(&off, &r, &there);
	p4d_cost__layer(&on, &r, &hidden);
	const double half = p4d_cost__gather_seconds(&r, (p4d_cost_ring){.ranks = 8, .in_node = 8}, n * h);
	for (size_t i = 0; i < sizeof(products) / sizeof(*products); i++) {
		const double beside =
		    p4d_cost__product_seconds(&r, n / 2, products[i].out, products[i].in, 2);
		const double left = at_least_0(half - beside);
		seen += half + left;
		slower += 2 * beside - p4d_cost__product_seconds(&r, n, products[i].out, products[i].in, 2) +
			  (half - left) * 16 / 132;
	}
	assert_true(fabs(hidden.forward.tensor_comm / seen - 1) < 1e-9);
	assert_true(fabs((hidden.forward.gemm - there.forward.gemm) / slower - 1) < 1e-9);
	/* in the backward pass, inputs are gathered during other matmuls, so a smaller share is exposed */
	const double back = hidden.backward_input.tensor_comm + hidden.backward_weight.tensor_comm,
		     whole = there.backward_input.tensor_comm + there.backward_weight.tensor_comm;
	print_message("seen of tensor parallelism: forward %.0f of %.0f us, backward %.0f of %.0f us\n",
		      1e6 * seen, 1e6 * there.forward.tensor_comm, 1e6 * back, 1e6 * whole);
	assert_true(back / whole < seen / there.forward.tensor_comm);
	const double gain =
	    1 - seconds(P4D_70B "tp=8 tp-comm-overlap=on", 1, 8, &gpu) / seconds(P4D_70B "tp=8", 1, 8, &gpu);
	print_message("halves hide %.2f %% of a step\n", 100 * gain);
	assert_true(gain > 0.02 && gain < 0.2);
	/* overlapping does not change the arena */
	assert_int_equal(p4d_plan_hash(&off, &gpu, &a, NULL), 0);
	assert_int_equal(p4d_plan_hash(&on, &gpu, &b, NULL), 0);
	assert_true(a == b);
}

static void refused(const char *options, const char *text, const char *fix)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	set_all(&r, options);
	p4d_request_complete(&r, 0, 8);
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), -1);
	if (!strstr(err.text, text))
		fail_msg("%s", err.text);
	assert_string_equal(err.fix, fix);
}

/* p4d refuses overlaps that are impossible, and turns off overlaps that have nothing to overlap. */
static void overlaps_that_are_none(void **state)
{
	(void)state;
	refused(MEGATRON_70B "tp=8 sequence-parallel=off tp-comm-overlap=on",
		"tp-comm-overlap=on needs sequence-parallel=on", "--p4d-sequence-parallel=on");
	refused(P4D_70B "tp=8 sequence-parallel=off tp-comm-overlap=on",
		"tp-comm-overlap=on needs sequence-parallel=on", "--p4d-sequence-parallel=on");
	refused(P4D_70B "tp=8 seq-len=8200 tp-comm-overlap=on", "8200 tokens", "--p4d-tp-comm-overlap=off");
	refused(P4D_70B "tp=8 precision=fp8 device=cpu tp-comm-overlap=on", "does not combine it with FP8",
		"--p4d-tp-comm-overlap=off");
	const p4d_layout l = layout_of(MEGATRON_70B "pp=8 tp-comm-overlap=on overlap-p2p=on", 1, 8);
	assert_false(l.tp_comm_overlap || l.megatron.overlap_p2p); /* with tp=1 and vpp=1 there is nothing
								    * to overlap */
	assert_true(l.overlap_dp);
	/* Megatron-LM's default with chunks */
	assert_true(layout_of(MEGATRON_70B "pp=4 vpp=5 tp=2", 1, 8).megatron.overlap_p2p);
	assert_false(layout_of(MEGATRON_70B "pp=4 vpp=5 tp=2", 1, 8).overlap_dp);
}

/* An NVLink domain of several nodes: tensor parallelism may extend over nodes, and its collectives do not
 * use the network. */
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
	assert_true(p4d_cost__ring_of(&l, 8, 16).in_node == 4); /* with a stride of 16 GPUs, a domain has
								 * 72 / 16 = 4 ranks of the ring */
	p4d_request_put(&r, P4D_TP, 16, P4D_BY_USER);
	p4d_request_complete(&r, 0, 16);
	assert_int_equal(p4d_layout_build(&r, 4, 4, &l, &err), -1);
	assert_non_null(strstr(err.text, "tp=16 does not divide"));
	/* the user may set a smaller domain: 64 of a rack's 72 GPUs */
	const char *domain64 = MEGATRON_70B "kv-heads=16 tp=16 nvlink-domain=64 global-batch=16";
	assert_true(seconds(domain64, 4, 4, &gpu) > 0);
	/* a domain has at least the GPUs of a node */
	assert_int_equal(layout_of(MEGATRON_70B "tp=8 nvlink-domain=2", 1, 8).link_domain, 8);
}

/* Small passes wait for the host's launches; larger ones hide them. */
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

/* Attention with small heads is slower for the same number of FLOPs. */
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

/* With more GPUs matmuls take longer, because all wait for the slowest GPU. */
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

/* The time to gather parameters for a pass counts only if the pass does not hide it. */
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
	/* a sixteenth of the tokens hides less of the same traffic */
	assert_true(share[0] < 0.1 && share[1] > 0.3);
}

#define MIXTRAL \
	"layers=32 hidden=4096 ffn=14336 heads=32 kv-heads=8 head-dim=128 vocab=32000 experts=8 " \
	"experts-per-token=2 " \
	"expert-ffn=14336 positions=rope bias=none norm=rmsnorm glu=on tied=off qk-norm=off framework=fsdp "

/* With ep=1, FSDP gathers the parameters of experts. With ep=8, each rank has one expert: no parameters of
 * experts are gathered, and tokens are exchanged. */
static void experts_are_gathered(void **state)
{
	static const char *const flags[] = {
	    MIXTRAL "ep=1 global-batch=8 seq-len=512",
	    MIXTRAL "ep=8 global-batch=8 seq-len=512",
	};
	const p4d_gpu gpu = gpu_named("h100");
	p4d_cost_passes_of_chunk p[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		const p4d_layout l = layout_of(flags[i], 1, 8);
		p4d_cost__pass(&l, &gpu, 0, 0, &p[i]);
		const double all = p[i].forward + p[i].backward_input + p[i].backward_weight;
		const double parts = p[i].gemm + p[i].attention + p[i].memory_bound + p[i].tensor_comm +
				     p[i].context_comm + p[i].host + p[i].recompute + p[i].data_comm;
		assert_true(fabs(parts - all) < 1e-9 * all);
	}
	assert_true(p[0].data_comm > 2 * p[1].data_comm);
	assert_true(p[0].tensor_comm == 0 && p[1].tensor_comm > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gathers_are_exposed),
	    cmocka_unit_test(experts_are_gathered),
	    cmocka_unit_test(faster_parts_are_not_slower),
	    cmocka_unit_test(more_work_takes_longer),
	    cmocka_unit_test(overlaps_hide_communication),
	    cmocka_unit_test(overlaps_that_are_none),
	    cmocka_unit_test(halves_hide_communication),
	    cmocka_unit_test(a_domain_of_several_nodes),
	    cmocka_unit_test(launches_take_time),
	    cmocka_unit_test(small_heads_attend_slowly),
	    cmocka_unit_test(the_slowest_gpu_sets_the_pace),
	    cmocka_unit_test(vocabulary_parallelism_pays),
	};
	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
