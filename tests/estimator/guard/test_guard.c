/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts at submission: which jobs pass, and which are completed, changed or refused. Another verdict on
 * the same job must be the same. */
#include <inttypes.h>
#include <time.h>

#include "support/guarded_site.h"

static void complete_flags_pass_silently(void **state)
{
	trial *t = submit(*state, ON("h100", 1),
			  MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d");

	expect(t, P4D_PASS, P4D_OK);
	assert_string_equal(t->text, "");
	expect_verified(*state, t);
}

static void open_flags_are_completed(void **state)
{
	trial *t = submit(*state, ON(NULL, 1), MODEL_13B "tp=8");

	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_int_equal(t->request.value[P4D_TP], 8);
	assert_int_equal(t->request.origin[P4D_TP], P4D_BY_USER);
	assert_int_equal(t->request.value[P4D_PP], 1);
	assert_int_equal(t->request.value[P4D_GLOBAL_BATCH], 2048);
	assert_true(t->verdict.estimate.fraction <= 0.80);
	assert_true(t->request.value[P4D_MICRO_BATCH] > 1);
	assert_non_null(strstr(t->text, "p4d: [P4D110] chose pp=1 micro-batch="));
	assert_non_null(strstr(t->text, "of 79.1 GiB ("));
	assert_non_null(strstr(t->text, "on h100-80gb"));
	expect_verified(*state, t);
}

/* If tp-grid is `auto`, the message lists the chosen grid among p4d's other choices, even if the grid has
 * one dimension. */
static void a_grid_that_is_chosen_is_said(void **state)
{
	static const struct {
		const char *flags, *grid;
	} cases[] = {
	    {MODEL_13B "framework=p4d tp=8 tp-grid=auto", "1,1,8"},
	    {MODEL_13B "framework=p4d tp=8 tp-grid=auto micro-batch=1", "8,1,1"},
	};
	char said[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		trial *t = submit(*state, ON("h100", 4), cases[i].flags);
		expect(t, P4D_PASS, P4D_E_CHOSE);
		snprintf(said, sizeof(said), " tp-grid=%s", cases[i].grid);
		if (!strstr(t->text, said))
			fail_msg("%s: %s", cases[i].flags, t->text);
		snprintf(said, sizeof(said), "%" PRIu64 ",%" PRIu64 ",%" PRIu64, t->verdict.layout.tp,
			 t->verdict.layout.tp_y, t->verdict.layout.tp_z);
		assert_string_equal(said, cases[i].grid);
		expect_verified(*state, t);
	}
	/* a fix contains the chosen grid */
	static const char large[] =
	    MODEL_13B "framework=p4d tp=8 tp-grid=auto micro-batch=512 recompute=none pp=1 cp=1";
	trial refused = *submit(*state, ON("h100", 1), large);
	expect(&refused, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_non_null(strstr(refused.verdict.message[0].fix, "--p4d-tp-grid="));
	fix_works(*state, ON("h100", 1), large, &refused);
	/* nobody asked for a grid */
	trial *t = submit(*state, ON("h100", 4), MODEL_13B "framework=p4d tp=8");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_null(strstr(t->text, "tp-grid"));
	t = submit(*state, ON("h100", 4), MODEL_13B "framework=p4d tp=8 tp-grid=2,2,2");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_null(strstr(t->text, "tp-grid"));
}

/* If the GPU does not support the precision, the job runs slowly. p4d warns and names a faster precision. */
static void a_precision_that_the_gpu_lacks(void **state)
{
	static const char layout[] =
	    MODEL_13B "layers=8 tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d ";
	trial *t = submit(*state, ON("v100", 1), layout);

	expect(t, P4D_WARN, P4D_E_PRECISION);
	assert_non_null(
	    strstr(t->text, "v100-32gb (compute capability 7.0) has no bf16, which begins with 8.0"));
	assert_string_equal(t->verdict.message[0].fix, "--p4d-precision=fp32");
	expect_verified(*state, t);
	t = submit(*state, ON("v100", 1),
		   MODEL_13B "layers=8 tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d "
			     "precision=fp32");
	expect(t, P4D_PASS, P4D_OK);
	t = submit(*state, ON("v100", 1),
		   MODEL_13B "layers=8 tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d "
			     "precision=fp16");
	expect(t, P4D_REJECT, P4D_E_VALUE);
	assert_string_equal(t->verdict.message[0].fix, "--p4d-precision=bf16");
}

static void one_rank_on_mig(void **state)
{
	static const char model[] = MODEL_13B "layers=2 micro-batch=1";
	p4d_job job = {.partition = "h100", .min_nodes = 1, .max_nodes = 1, .gres = "gpu:h100-3g.40gb:2"};
	trial *t = submit(*state, job, MODEL_13B "layers=2 micro-batch=1 tp=2");

	expect(t, P4D_REJECT, P4D_E_MIG);
	assert_string_equal(t->verdict.message[0].fix, "--nodes=1 --gres=gpu:h100-3g.40gb:1 --p4d-tp=1");
	expect(submit(*state, job, model), P4D_REJECT, P4D_E_MIG);
	/* a model that does not fit one MIG instance has no fix */
	t = submit(*state, job, MODEL_13B "tp=2 pp=3");
	expect(t, P4D_REJECT, P4D_E_MIG);
	assert_string_equal(t->verdict.message[0].fix, "");
	assert_non_null(strstr(t->text, "llama13b needs more than one GPU of 39.5 GiB"));
	job.gres = "gpu:h100-3g.40gb:1";
	t = submit(*state, job, MODEL_13B "layers=2 micro-batch=1 cp=2");
	expect(t, P4D_REJECT, P4D_E_MIG);
	assert_string_equal(t->verdict.message[0].fix, "--p4d-cp=1");
	t = submit(*state, job, model);
	if (t->verdict.action == P4D_REJECT)
		fail_msg("%s", t->text);
	/* only one MIG instance could be suggested, so there is no fix */
	t = submit(*state, job, MODEL_13B);
	expect(t, P4D_REJECT, P4D_E_NO_LAYOUT);
	assert_string_equal(t->verdict.message[0].fix, "");
}

static void refusals_have_a_fix_that_works(void **state)
{
	const struct {
		p4d_job job;
		const char *flags;
		p4d_code code;
	} cases[] = {
	    {ON("h100", 1), MODEL_70B, P4D_E_NO_LAYOUT},
	    {ON("a100", 1), MODEL_70B "tp=8", P4D_E_NO_LAYOUT},
	    {ON("h100", 4), MODEL_70B "tp=1 pp=1", P4D_E_DOES_NOT_FIT},
	    {ON("h100", 4), MODEL_70B "tp=8 pp=4 micro-batch=64", P4D_E_DOES_NOT_FIT},
	    {ON("h100", 1), MODEL_13B "framework=megatron tp=8 pp=1 cp=1 eval-micro-batch=2048",
	     P4D_E_DOES_NOT_FIT},
	    {ON("h100", 1), MODEL_70B "framework=megatron tp=8 eval-micro-batch=64", P4D_E_NO_LAYOUT},
	    {ON("h100", 1), MODEL_13B "tp=3", P4D_E_HEADS},
	    {ON("h100", 4), MODEL_70B "tp=1 pp=4 pipeline-split=19,21,21,19", P4D_E_DOES_NOT_FIT},
	    {ON("h100", 4), MODEL_13B "tp=8 pp=2 pipeline-split=14,14,12", P4D_E_SPLIT},
	    {ON("h100", 1), MODEL_13B "tp=8 seq-len=2001", P4D_E_SEQUENCE},
	    {ON("h100", 3), MODEL_13B "tp=8 pp=2", P4D_E_WORLD},
	    {ON("h100", 1), MODEL_13B "tp=2 pp=3", P4D_E_LAYERS},
	    /* the fix must also unset slice-lengths */
	    {ON("h100", 4),
	     MODEL_13B "framework=p4d tp=2 pp=2 token-slices=4 slice-lengths=512,512,512,512 schedule=zbv "
		       "vpp=2",
	     P4D_E_SCHEDULE},
	    /* the fix must contain pipeline-split, because otherwise p4d may choose no split, or one that
	     * leaves more memory free */
	    {ON("fixed", 1), MODEL_70B "layers=83 tp=8", P4D_E_NO_LAYOUT},
	    {ON("careful", 1), MODEL_70B "layers=83 tp=8", P4D_E_NO_LAYOUT},
	    /* a search that needs almost its whole budget */
	    {ON("h100", 12), MODEL_LLAMA_405B "seq-len=131072 cp=1 global-batch=2048", P4D_E_NO_LAYOUT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		trial refused = *submit(*state, cases[i].job, cases[i].flags);
		expect(&refused, P4D_REJECT, cases[i].code);
		assert_true(refused.verdict.message[0].fix[0]);
		if (cases[i].code != P4D_E_SEQUENCE) /* only the user can change the sequence length */
			fix_works(*state, cases[i].job, cases[i].flags, &refused);
	}
}

/* Fixes that shard gradients and parameters, or offload states to the host. */
static void fixes_that_share_or_offload(void **state)
{
	static const struct {
		const char *partition;
		uint32_t nodes;
		const char *flags, *fix;
	} cases[] = {
	    /* rewrite = off at site `fixed`: p4d uses the defaults without a search. The fix adds
	     * sharding, with which the job fits. */
	    {"fixed", 16, MODEL_70B "framework=p4d tp=1 pp=1", "--p4d-optimizer-sharding=parameters"},
	    /* the user's values do not fit even with sharded states */
	    {"h100", 16, MODEL_70B "framework=p4d tp=1 pp=1 cp=1 micro-batch=16 recompute=none",
	     "--p4d-optimizer-sharding=parameters"},
	    {"h100", 2, MODEL_13B "framework=p4d tp=1 pp=1 cp=1 micro-batch=32 recompute=none",
	     "--p4d-optimizer-sharding="},
	    {"h100", 1, MODEL_13B "framework=p4d tp=2 pp=1 cp=1 offload=params optimizer-sharding=states",
	     "--p4d-optimizer-sharding=parameters"},
	    {"h100", 1, MODEL_13B "framework=p4d tp=8 resident-layers=4", "--p4d-offload=params"},
	    {"h100", 1, MODEL_13B "framework=p4d tp=4 shard-degree=2 optimizer-sharding=off",
	     "--p4d-optimizer-sharding=states"},
	    {"h100", 1,
	     MODEL_13B "framework=p4d tp=4 pp=2 schedule=1f1b local-loss=stage optimizer-sharding=parameters",
	     "--p4d-optimizer-sharding=states"},
	    {"h100", 1, MODEL_13B "framework=p4d tp=4 pp=2 schedule=1f1b local-loss=stage offload=params",
	     "--p4d-offload=optimizer"},
	    {"h100", 1, MODEL_13B "framework=p4d tp=8 tp-grid=4,2,1 optimizer-sharding=parameters",
	     "--p4d-optimizer-sharding=states"},
	    {"h100", 1, MODEL_13B "framework=p4d tp=8 tp-grid=4,2,1 offload=optimizer", "--p4d-offload=none"},
	    {"h100", 1, MODEL_13B "framework=p4d tp=8 recompute=full offload=activations",
	     "--p4d-offload=none"},
	    {"h100", 1, MODEL_13B "framework=megatron tp=8 optimizer-sharding=parameters",
	     "--p4d-optimizer-sharding=states"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_job job = ON(cases[i].partition, cases[i].nodes);
		trial refused = *submit(*state, job, cases[i].flags);
		assert_int_equal(refused.verdict.action, P4D_REJECT);
		if (!strstr(refused.verdict.message[0].fix, cases[i].fix))
			fail_msg("%s: %s", cases[i].flags, refused.text);
		fix_works(*state, job, cases[i].flags, &refused);
	}
	/* the message also names an alternative that needs no more GPUs */
	static const char flags[] =
	    MODEL_70B "framework=p4d tp=8 pp=1 cp=1 micro-batch=1 optimizer-sharding=states";
	trial *t = submit(*state, ON("h100", 2), flags);
	expect(t, P4D_REJECT, P4D_E_NO_LAYOUT);
	assert_non_null(strstr(t->text, "; without more GPUs: --p4d-offload=optimizer,"));
	expect(
	    submit(*state, ON("h100", 2),
		   MODEL_70B
		   "framework=p4d tp=8 pp=1 cp=1 micro-batch=1 optimizer-sharding=states offload=optimizer"),
	    P4D_PASS, P4D_E_CHOSE);
}

/* The job has more GPUs than fit its nodes. Slurm would refuse a fix that keeps the number of GPUs. */
static void a_fix_fits_the_nodes(void **state)
{
	static const struct {
		uint32_t nodes;
		const char *gres, *flags, *fix;
	} cases[] = {
	    {1, "gpu:9", MODEL_13B "tp=8", "--nodes=1 --gres=gpu:8 --p4d-tp=8"},
	    {2, "gpu:12", MODEL_13B "tp=8", "--nodes=2 --gres=gpu:8 --p4d-tp=8"},
	    {1, "gpu:9", MODEL_13B "tp=1 pp=1 micro-batch=1 seq-len=131072", "--gres=gpu:8"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_job job = {.partition = "h100",
			       .min_nodes = cases[i].nodes,
			       .max_nodes = cases[i].nodes,
			       .gres = cases[i].gres};
		trial refused = *submit(*state, job, cases[i].flags);
		assert_int_equal(refused.verdict.action, P4D_REJECT);
		assert_non_null(strstr(refused.text, "; a node of partition h100 has 8"));
		if (!strstr(refused.verdict.message[0].fix, cases[i].fix))
			fail_msg("%s: %s", cases[i].flags, refused.text);
		fix_works(*state, job, cases[i].flags, &refused);
	}
}

static void a_refusal_names_the_numbers(void **state)
{
	trial *t = submit(*state, ON("h100", 4), MODEL_70B "tp=1 cp=1 pp=1 micro-batch=1");

	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_non_null(strstr(t->text, "p4d: [P4D012] llama3-70b needs "));
	assert_non_null(strstr(t->text, " of 79.1 GiB ("));
	assert_non_null(strstr(t->text, "tp=1 cp=1 pp=1 dp=32 micro-batch=1 seq-len=8192"));
	assert_non_null(strstr(t->text, "\np4d: fix: --p4d-"));
	/* the message shows the best values of options that the user did not set */
	t = submit(*state, ON("h100", 1), MODEL_70B "tp=8");
	expect(t, P4D_REJECT, P4D_E_NO_LAYOUT);
	assert_non_null(strstr(t->text, "tp=8 cp=1 pp=1 dp=1 micro-batch=1 seq-len=8192 recompute=full"));
}

/* A large vocabulary and full recomputation: training fits, but evaluation with a larger micro-batch does
 * not. */
static void evaluation_may_be_the_peak(void **state)
{
	const char *training =
	    MODEL_70B "framework=megatron tp=8 cp=1 pp=4 vpp=1 micro-batch=1 recompute=full global-batch=32 ";
	char flags[512];

	trial *t = submit(*state, ON("h100", 4), training);
	expect(t, P4D_PASS, P4D_OK);
	assert_null(strstr(t->verdict.plan, "eval-micro-batch"));
	snprintf(flags, sizeof(flags), "%s eval-micro-batch=64", training);
	trial refused = *submit(*state, ON("h100", 4), flags);
	expect(&refused, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_non_null(strstr(refused.text, ": stage 3 of 4 in evaluation (eval-micro-batch=64) with tp=8"));
	/* the fix keeps the layout of training */
	assert_string_equal(refused.verdict.message[0].fix,
			    "--p4d-tp=8 --p4d-pp=4 --p4d-recompute=full --p4d-eval-micro-batch=1");
	fix_works(*state, ON("h100", 4), flags, &refused);
	/* p4d-train has no eval-micro-batch and refuses it from users; as a site's default, it is only for
	 * other programs */
	snprintf(flags, sizeof(flags), MODEL_13B "tp=8 eval-micro-batch=64");
	refused = *submit(*state, ON("h100", 1), flags);
	expect(&refused, P4D_REJECT, P4D_E_VALUE);
	fix_works(*state, ON("h100", 1), flags, &refused);
	refused.request.origin[P4D_EVAL_MICRO_BATCH] = P4D_BY_SITE;
	p4d_guard__complete(*state, &refused.job, NULL, NULL, 2048, true, &refused.request, &refused.verdict);
	assert_int_equal(refused.verdict.action, P4D_PASS);
	assert_int_equal(refused.verdict.layout.eval_micro_batch, refused.verdict.layout.micro_batch);
	expect_verified(*state, &refused);
	/* the plan line must contain eval-micro-batch, because memory depends on it */
	snprintf(flags, sizeof(flags), "%s eval-micro-batch=4", training);
	t = submit(*state, ON("h100", 4), flags);
	expect(t, P4D_PASS, P4D_OK);
	assert_non_null(strstr(t->verdict.plan, ":eval-micro-batch=4@u:"));
	expect_verified(*state, t);
}

static void rewriting(void **state)
{
	const char *flags = MODEL_70B "tp=1 pp=1 micro-batch=1";

	trial *t = submit(*state, ON("eager", 4), flags);
	expect(t, P4D_PASS, P4D_E_CHANGED);
	assert_true(t->verdict.changed);
	assert_int_equal(t->request.value[P4D_SEQ_LEN], 8192);
	expect_verified(*state, t);
	char with_fix[1024];
	snprintf(with_fix, sizeof(with_fix), "%s fix=1", flags);
	t = submit(*state, ON("h100", 4), with_fix);
	expect(t, P4D_PASS, P4D_E_CHANGED);
	t = submit(*state, ON("fixed", 4), with_fix); /* the site's setting overrides the user's fix=1 */
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	/* with rewrite = off, options that the user did not set have the documented defaults */
	t = submit(*state, ON("fixed", 1), MODEL_13B "tp=8");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_int_equal(t->request.value[P4D_MICRO_BATCH], 1);
}

static void modes(void **state)
{
	const char *flags = MODEL_70B "tp=1 pp=1 micro-batch=1 recompute=none";

	trial *t = submit(*state, ON("watched", 4), flags);
	assert_int_equal(t->verdict.action, P4D_PASS);
	assert_true(t->verdict.would_reject);
	assert_string_equal(t->text, "");
	t = submit(*state, ON("warned", 4), flags);
	expect(t, P4D_WARN, P4D_E_DOES_NOT_FIT);
	assert_true(t->verdict.would_reject);
	t = submit(*state, ON("free", 4), flags);
	expect(t, P4D_PASS, P4D_OK);
	assert_string_equal(t->verdict.plan, "");
	p4d_job job = ON("h100", 4);
	job.account = "admin";
	expect(submit(*state, job, flags), P4D_PASS, P4D_OK);
	job = ON("h100", 1);
	job.qos = "tight";
	t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_true(t->verdict.estimate.fraction <= 0.4);
}

static void above_safe_is_a_warning(void **state)
{
	p4d_job job = ON("h100", 1);

	job.qos = "tight";
	trial *t = submit(*state, job,
			  MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=megatron");
	expect(t, P4D_WARN, P4D_E_ABOVE_SAFE);
	assert_non_null(strstr(t->text, "above the safe 40 % of this site"));
	assert_non_null(strstr(t->text, "p4d: fix: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
	/* with this line in the script or in the environment, the allocator needs less, and p4d does not
	 * suggest the line again */
	const uint64_t before = t->verdict.estimate.peak.part[P4D_PART_FRAGMENTATION];
	for (int in_script = 0; in_script < 2; in_script++) {
		job.script = in_script ? "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
					 "srun pretrain_gpt $P4D_MEGATRON_ARGS\n"
				       : NULL;
		job.expandable = !in_script;
		t = submit(*state, job,
			   MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=megatron");
		expect(t, P4D_PASS, P4D_OK); /* now below the site's safe 40 % */
		assert_true(t->verdict.estimate.peak.part[P4D_PART_FRAGMENTATION] < before / 4);
		expect_verified(*state, t);
	}
	/* the script's setting overrides the environment's */
	job.script =
	    "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512\nsrun pretrain_gpt $P4D_MEGATRON_ARGS\n";
	t = submit(*state, job,
		   MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=megatron");
	expect(t, P4D_WARN, P4D_E_ABOVE_SAFE);
	assert_int_equal(t->verdict.estimate.peak.part[P4D_PART_FRAGMENTATION], before);
	job.script = NULL;
	/* an option of the user overrides both */
	t = submit(*state, job,
		   MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=megatron "
			     "allocator=default");
	assert_int_equal(t->verdict.estimate.peak.part[P4D_PART_FRAGMENTATION], before);
	t = submit(*state, job,
		   MODEL_13B "layers=44 tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=megatron "
			     "allocator=expandable");
	expect(t, P4D_WARN, P4D_E_ABOVE_SAFE);
	assert_null(strstr(t->text, "export"));
}

static void override(void **state)
{
	const char *flags = MODEL_70B "tp=1 pp=1 micro-batch=1 recompute=none override=measured";

	trial *t = submit(*state, ON("trusting", 4), flags);
	assert_int_equal(t->verdict.action, P4D_WARN);
	assert_non_null(strstr(t->text, "[P4D113] overridden: measured"));
	assert_true(t->verdict.would_reject); /* the log reports would_reject */
	assert_non_null(strstr(t->verdict.plan, "override=measured@u"));
	expect_verified(*state, t);
	t = submit(*state, ON("h100", 4), flags);
	assert_int_equal(t->verdict.action, P4D_REJECT);
	assert_non_null(strstr(t->text, "[P4D048]"));
}

/* Of tp=3, 5 or 7 only one thing is known: it does not divide the heads. The message says so. */
static void degrees_that_divide_nothing_are_named(void **state)
{
	const p4d_site *site = *state;
	static const char *const flags[] = {MODEL_70B "tp=3", MODEL_70B "tp=5 pp=1",
					    MODEL_70B "tp=7 micro-batch=4"};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const trial *t = submit(site, ON("h100", 1), flags[i]);
		expect(t, P4D_REJECT, P4D_E_HEADS);
		/* another tp would not fit either, so the fix has more nodes */
		assert_non_null(strstr(t->verdict.message[0].fix, "--nodes="));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(degrees_that_divide_nothing_are_named),
	    cmocka_unit_test(complete_flags_pass_silently),
	    cmocka_unit_test(open_flags_are_completed),
	    cmocka_unit_test(a_grid_that_is_chosen_is_said),
	    cmocka_unit_test(a_precision_that_the_gpu_lacks),
	    cmocka_unit_test(one_rank_on_mig),
	    cmocka_unit_test(refusals_have_a_fix_that_works),
	    cmocka_unit_test(fixes_that_share_or_offload),
	    cmocka_unit_test(a_fix_fits_the_nodes),
	    cmocka_unit_test(a_refusal_names_the_numbers),
	    cmocka_unit_test(evaluation_may_be_the_peak),
	    cmocka_unit_test(rewriting),
	    cmocka_unit_test(modes),
	    cmocka_unit_test(above_safe_is_a_warning),
	    cmocka_unit_test(override),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
