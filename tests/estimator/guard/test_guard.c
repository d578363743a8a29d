/* SPDX-License-Identifier: Apache-2.0 */
/* The decision: what is passed, completed, changed and refused, and that judging again changes nothing. */
#include "support/support.h"

#include <unistd.h>

#include "guard/guard.h"
#include "guard/note.h"
#include "model/model.h"

#define SITE \
	"mode = enforce\n" \
	"partition h100 { gpu = \"h100-80gb\"\n default = true\n gpus_per_node = 8 }\n" \
	"partition a100 { gpu = \"a100-40gb\"\n gpus_per_node = 8 }\n" \
	"partition mixed { gpu = {\"h100-80gb\", \"a100-40gb\"} }\n" \
	"partition watched { gpu = \"h100-80gb\"\n mode = observe }\n" \
	"partition warned { gpu = \"h100-80gb\"\n mode = warn }\n" \
	"partition free { gpu = \"h100-80gb\"\n mode = off }\n" \
	"partition strict { gpu = \"h100-80gb\"\n require_plan = true }\n" \
	"partition fixed { gpu = \"h100-80gb\"\n rewrite = off }\n" \
	"partition eager { gpu = \"h100-80gb\"\n rewrite = all }\n" \
	"partition trusting { gpu = \"h100-80gb\"\n allow_override = true }\n" \
	"partition picky { gpu = \"h100-80gb\"\n unmodelled = reject }\n" \
	"partition relaxed { gpu = \"h100-80gb\"\n require_plan = true\n unmodelled = pass }\n" \
	"partition unknown { mode = enforce }\n" \
	"partition wary { gpu = \"h100-80gb\"\n on_error = reject }\n" \
	"partition \"some-*\" { min_gpus = 16\n message = \"Ask help@site, or see https://site/p4d\"\n" \
	"	gpu = \"h100-80gb\"\n gpus_per_node = 8\n require_plan = true }\n" \
	"user novice { require_plan = true }\n" \
	"qos tight { limit = 0.5\n safe = 0.4 }\n" \
	"exempt_accounts = {\"admin\"}\n"

static p4d_site *load(const char *text)
{
	char path[] = "/tmp/p4d-guard-XXXXXX";
	p4d_error err;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "%s\nversion = 1\n", text) > 0);
	close(fd);
	p4d_site *site = p4d_site_load(path, test_datadir(), false, 0, &err);
	unlink(path);
	if (!site)
		fail_msg("%s", err.text);
	return site;
}

static int setup(void **state)
{
	*state = load(SITE);
	return 0;
}

static int teardown(void **state)
{
	p4d_site_free(*state);
	return 0;
}

typedef struct trial {
	p4d_request request;
	p4d_verdict verdict;
	p4d_job job;
	char text[4096];
} trial;

static trial *submit(const p4d_site *site, p4d_job job, const char *flags)
{
	static trial t;

	memset(&t, 0, sizeof(t));
	t.job = job;
	if (job.script)
		t.job.script_length = strlen(job.script);
	set_all(&t.request, flags);
	p4d_guard_complete(site, &t.job, NULL, NULL, 2048, &t.request, &t.verdict);
	p4d_verdict_text(&t.verdict, t.text, sizeof(t.text));
	return &t;
}

#define ON(name, count) \
	((p4d_job){.partition = name, .min_nodes = count, .max_nodes = count, .gres = "gpu:8"})

static void expect(const trial *t, p4d_action action, p4d_code code)
{
	if (t->verdict.action != action || (code ? !t->verdict.messages : t->verdict.messages > 0))
		fail_msg("action %d, %u messages: %s", t->verdict.action, t->verdict.messages, t->text);
	if (code)
		assert_int_equal(t->verdict.message[0].code, code);
}

/* slurmctld must agree with what sbatch let through, and leave it as it is. */
static void expect_verified(const p4d_site *site, const trial *t)
{
	static p4d_verdict again;
	char text[2048];

	p4d_guard_verify(site, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
	if (again.action == P4D_REJECT)
		fail_msg("slurmctld refuses: %s", p4d_verdict_text(&again, text, sizeof(text)));
	assert_string_equal(again.plan, t->verdict.plan);
	assert_int_equal(again.estimate.peak.device_bytes, t->verdict.estimate.peak.device_bytes);
}

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

/* Submits what the fix line says, on top of what was typed, and expects it to pass. */
static void fix_works(const p4d_site *site, p4d_job job, const char *flags, const trial *refused)
{
	char fixed[1024], fix[480];
	p4d_error err;
	size_t used = (size_t)snprintf(fixed, sizeof(fixed), "%s", flags);

	snprintf(fix, sizeof(fix), "%s", refused->verdict.message[0].fix);
	char gres[32], *save = NULL;
	for (char *word = strtok_r(fix, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (!strncmp(word, "--p4d-", 6)) {
			used += (size_t)snprintf(fixed + used, sizeof(fixed) - used, " %s", word + 6);
		} else if (!strncmp(word, "--nodes=", 8)) {
			assert_int_equal(
			    p4d_gres__parse_nodes(word + 8, &job.min_nodes, &job.max_nodes, &err), 0);
		} else if (!strncmp(word, "--gpus-per-node=", 16)) {
			snprintf(gres, sizeof(gres), "gpu:%s", word + 16);
			job.gres = gres;
		} else if (!strncmp(word, "--gres=", 7)) {
			snprintf(gres, sizeof(gres), "%s", word + 7);
			job.gres = gres;
		} else {
			fail_msg("fix %s", word);
		}
	}
	trial *t = submit(site, job, fixed);
	if (t->verdict.action == P4D_REJECT || !t->verdict.plan[0])
		fail_msg("%s -> %s", fixed, t->text);
	expect_verified(site, t);
}

static void one_rank_on_mig(void **state)
{
	static const char model[] = MODEL_13B "layers=2 micro-batch=1";
	p4d_job job = {.partition = "h100", .min_nodes = 1, .max_nodes = 1, .gres = "gpu:h100-3g.40gb:2"};
	trial *t = submit(*state, job, MODEL_13B "layers=2 micro-batch=1 tp=2");

	expect(t, P4D_REJECT, P4D_E_MIG);
	assert_string_equal(t->verdict.message[0].fix, "--nodes=1 --gres=gpu:h100-3g.40gb:1 --p4d-tp=1");
	expect(submit(*state, job, model), P4D_REJECT, P4D_E_MIG);
	job.gres = "gpu:h100-3g.40gb:1";
	t = submit(*state, job, model);
	if (t->verdict.action == P4D_REJECT)
		fail_msg("%s", t->text);
	/* there is no more than one to suggest */
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
	    {ON("h100", 1), MODEL_13B "tp=8 seq-len=2001", P4D_E_SEQUENCE},
	    {ON("h100", 3), MODEL_13B "tp=8 pp=2", P4D_E_WORLD},
	    {ON("h100", 1), MODEL_13B "tp=2 pp=3", P4D_E_LAYERS},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		trial refused = *submit(*state, cases[i].job, cases[i].flags);
		expect(&refused, P4D_REJECT, cases[i].code);
		assert_true(refused.verdict.message[0].fix[0]);
		if (cases[i].code != P4D_E_SEQUENCE) /* a sequence is the user's to change */
			fix_works(*state, cases[i].job, cases[i].flags, &refused);
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
	/* what is open is shown at its best */
	t = submit(*state, ON("h100", 1), MODEL_70B "tp=8");
	expect(t, P4D_REJECT, P4D_E_NO_LAYOUT);
	assert_non_null(strstr(t->text, "tp=8 cp=1 pp=1 dp=1 micro-batch=1 seq-len=8192 recompute=full"));
}

/* A large vocabulary, all recomputed: training fits, evaluation in larger micro-batches does not. */
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
	/* training stays as it is */
	assert_string_equal(refused.verdict.message[0].fix,
			    "--p4d-tp=8 --p4d-pp=4 --p4d-recompute=full --p4d-eval-micro-batch=1");
	fix_works(*state, ON("h100", 4), flags, &refused);
	/* p4d-train has none; where it is the site's default, it is for others */
	snprintf(flags, sizeof(flags), MODEL_13B "tp=8 eval-micro-batch=64");
	refused = *submit(*state, ON("h100", 1), flags);
	expect(&refused, P4D_REJECT, P4D_E_VALUE);
	fix_works(*state, ON("h100", 1), flags, &refused);
	refused.request.origin[P4D_EVAL_MICRO_BATCH] = P4D_BY_SITE;
	p4d_guard_complete(*state, &refused.job, NULL, NULL, 2048, &refused.request, &refused.verdict);
	assert_int_equal(refused.verdict.action, P4D_PASS);
	assert_int_equal(refused.verdict.layout.eval_micro_batch, refused.verdict.layout.micro_batch);
	expect_verified(*state, &refused);
	/* what a plan leaves out is not what was checked */
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
	t = submit(*state, ON("fixed", 4), with_fix); /* the site has the last word */
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	/* rewrite = off: open values are the stated defaults */
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
}

static void override(void **state)
{
	const char *flags = MODEL_70B "tp=1 pp=1 micro-batch=1 recompute=none override=measured";

	trial *t = submit(*state, ON("trusting", 4), flags);
	assert_int_equal(t->verdict.action, P4D_WARN);
	assert_non_null(strstr(t->text, "[P4D113] overridden: measured"));
	assert_true(t->verdict.would_reject); /* for the log */
	assert_non_null(strstr(t->verdict.plan, "override=measured@u"));
	expect_verified(*state, t);
	t = submit(*state, ON("h100", 4), flags);
	assert_int_equal(t->verdict.action, P4D_REJECT);
	assert_non_null(strstr(t->text, "[P4D048]"));
}

static void mixed_partitions(void **state)
{
	p4d_job job = ON("mixed", 1);

	trial *t = submit(*state, job, MODEL_13B "tp=8 pp=1 micro-batch=8 recompute=none seq-len=2560");
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT); /* 40 GB counts */
	assert_non_null(strstr(t->text, "on a100-40gb, the smallest of 2 GPU types possible here"));
	job.gres = "gpu:h100:8";
	t = submit(*state, job,
		   MODEL_13B "tp=8 pp=1 micro-batch=8 recompute=none seq-len=2560 cp=1 vpp=1 framework=p4d");
	expect(t, P4D_PASS, P4D_OK);
	job = ON("h100,a100", 1);
	t = submit(*state, job, MODEL_13B "tp=8 pp=1 micro-batch=8 recompute=none seq-len=2560");
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
}

static void facts_that_are_missing(void **state)
{
	p4d_job job = ON("h100", 1);

	expect(submit(*state, job, "tp=8"), P4D_REJECT, P4D_E_INCOMPLETE_MODEL);
	job.gres = NULL;
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_REJECT, P4D_E_NO_GPU);
	/* the site's own gap: on_error = pass */
	trial *t = submit(*state, ON("unknown", 1), MODEL_13B "tp=8");
	expect(t, P4D_WARN, P4D_E_GPU_OF_PARTITION);
	assert_int_equal(t->verdict.message[1].code, P4D_E_NOT_JUDGED);
	/* the GPUs of another cluster are that one's to judge, whatever this one does with its own gaps */
	job = ON("wary", 1);
	job.clusters = "other";
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_WARN, P4D_E_GPU_OF_PARTITION);
}

/* A model that no one trains: the search ends, and the verdict says that it was cut short. */
static void a_search_ends_and_says_so(void **state)
{
	static const char model[] =
	    "model=x norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off "
	    "head-dim=128 kv-heads=8 heads=8 hidden=1024 ffn=4096 vocab=128256 "
	    "max-seq-len=8192 layers=65536 ";
	trial *t = submit(*state, ON("h100", 4096), model);

	assert_int_equal(t->verdict.action, P4D_PASS);
	assert_int_equal(t->verdict.messages, 2);
	assert_int_equal(t->verdict.message[1].code, P4D_E_SEARCH_CUT);
	assert_non_null(strstr(t->verdict.message[1].fix, "--p4d-tp="));
}

/* Right after its start slurmctld has no facts of the cluster yet. */
static void the_gpu_of_the_plan_where_nothing_else_tells(void **state)
{
	static p4d_verdict v;
	static char small[P4D_PLAN_MAX], large[P4D_PLAN_MAX];
	p4d_job nowhere = ON("unknown", 1);

	strcpy(small, submit(*state, ON("h100", 1), MODEL_13B "tp=8")->verdict.plan);
	strcpy(large, submit(*state, ON("h100", 1), MODEL_70B "tp=8 pp=1 micro-batch=8")->verdict.plan);
	p4d_guard_verify(*state, &nowhere, NULL, NULL, small, NULL, &v);
	assert_int_equal(v.action, P4D_PASS);
	assert_true(v.judged);
	p4d_guard_verify(*state, &nowhere, NULL, NULL, large, NULL, &v);
	assert_int_equal(v.action, P4D_REJECT);
	assert_int_equal(v.message[0].code, P4D_E_DOES_NOT_FIT);
}

static void unmodelled_architectures(void **state)
{
	static const struct {
		const char *partition;
		p4d_action action;
	} at[] = {{"h100", P4D_WARN}, {"picky", P4D_REJECT}, {"strict", P4D_REJECT}, {"relaxed", P4D_PASS}};
	static p4d_verdict again;
	static trial t;
	char plan[P4D_PLAN_MAX] = "";

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		memset(&t, 0, sizeof(t));
		t.job = ON(at[i].partition, 1);
		set_all(&t.request, "model=mixtral.json tp=8");
		snprintf(t.request.unmodelled, sizeof(t.request.unmodelled),
			 "mixture of experts (num_local_experts=8)");
		p4d_guard_complete(*state, &t.job, NULL, NULL, 0, &t.request, &t.verdict);
		expect(&t, at[i].action, P4D_E_UNMODELLED);
		if (!plan[0])
			memcpy(plan, t.verdict.plan, sizeof(plan));
		assert_non_null(strstr(plan, "unmodelled=mixture"));
		/* and so does slurmctld, which says that it did not check */
		p4d_guard_verify(*state, &t.job, NULL, NULL, plan, NULL, &again);
		assert_int_equal(again.action, at[i].action);
		assert_int_equal(again.message[0].code, P4D_E_UNMODELLED);
	}
}

static void host_memory(void **state)
{
	p4d_job job = ON("h100", 1);

	job.mem_per_node_bytes = (uint64_t)16 << 30;
	trial *t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_REJECT, P4D_E_HOST_MEMORY);
	assert_non_null(strstr(t->text, "--mem grants 16.0 GiB\np4d: fix: --mem="));
	uint64_t bytes;
	assert_int_equal(p4d_gres_parse_mem(t->verdict.message[0].fix + strlen("--mem="), &bytes, NULL), 0);
	job.mem_per_node_bytes = bytes;
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
}

static void tasks_of_p4d_train(void **state)
{
	p4d_job job = ON("h100", 2);

	job.script = "#!/bin/bash\nsrun p4d-train\n";
	trial *t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_REJECT, P4D_E_TASKS);
	assert_string_equal(t->verdict.message[0].fix, "--nodes=2 --ntasks-per-node=8");
	job.tasks_per_node = 8;
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
	job.tasks_per_node = 0;
	job.script = "#!/bin/bash\nsrun --ntasks-per-node=8 p4d-train\n";
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
}

static void megatron_scripts(void **state)
{
	p4d_job job = ON("h100", 1);

	job.script = "#!/bin/bash\nsrun python pretrain_gpt.py $P4D_MEGATRON_ARGS\n";
	trial *t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_int_equal(t->request.value[P4D_FRAMEWORK], P4D_FRAMEWORK_MEGATRON);
	expect_verified(*state, t);
	job.script = "#!/bin/bash\nsrun python pretrain_gpt.py --tensor-model-parallel-size 8\n";
	t = submit(*state, job, MODEL_13B "tp=8");
	expect(t, P4D_REJECT, P4D_E_NO_EFFECT);
	job.script = "#!/bin/bash\nsrun ./start_megatron.sh\n"; /* may pass them on */
	expect(submit(*state, job, MODEL_13B "tp=8 framework=megatron"), P4D_PASS, P4D_E_CHOSE);
	job.script =
	    "#!/bin/bash\nsrun python pretrain_gpt.py --tensor-model-parallel-size 4 --micro-batch-size 1\n";
	t = submit(*state, job, MODEL_13B "tp=8 micro-batch=1 pp=1 recompute=none");
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
	assert_non_null(strstr(t->text, "the script says --tensor-model-parallel-size 4, the plan says 8"));
	job.script =
	    "#!/bin/bash\nsrun python pretrain_gpt.py --tensor-model-parallel-size 8 --micro-batch-size 1\n";
	expect(submit(*state, job, MODEL_13B "tp=8 cp=1 vpp=1 micro-batch=1 pp=1 recompute=none"), P4D_PASS,
	       P4D_OK);
	job.script = "#!/bin/bash\nsrun python pretrain_gpt.py --eval-micro-batch-size 64\n";
	t = submit(*state, job, MODEL_13B "tp=8 cp=1 vpp=1 micro-batch=1 pp=1 recompute=none");
	expect(t, P4D_REJECT, P4D_E_CONTRADICTION);
}

/* What another program needs is never judged as p4d-train's. */
static void programs_without_a_formula(void **state)
{
	static p4d_verdict again;
	p4d_job job = ON("h100", 1);

	job.script = "#!/bin/bash\nsrun deepspeed pretrain.py --tp $P4D_TP\n";
	trial *t = submit(*state, job, MODEL_13B "tp=1 micro-batch=64");
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	assert_false(t->verdict.judged);
	assert_non_null(
	    strstr(t->text, "what the job runs is not modelled, the job was not checked: DeepSpeed"));
	assert_non_null(strstr(t->text, "--p4d-framework=p4d|megatron says otherwise"));
	p4d_guard_verify(*state, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
	assert_int_equal(again.action, P4D_WARN);
	job.partition = "picky";
	t = submit(*state, job, MODEL_13B);
	expect(t, P4D_REJECT, P4D_E_UNMODELLED);
	assert_string_equal(t->verdict.message[0].fix, "--p4d-framework=NAME (p4d|megatron)");
	t = submit(*state, job, MODEL_13B "unmodelled=peft");
	expect(t, P4D_REJECT, P4D_E_UNMODELLED);
	assert_string_equal(t->verdict.message[0].fix,
			    "--p4d-framework=NAME (p4d|megatron) instead of --p4d-unmodelled");
	expect(submit(*state, job, MODEL_13B "framework=p4d"), P4D_PASS, P4D_E_CHOSE);

	job = ON("h100", 1);
	job.script = "#!/bin/bash\nsrun python train.py\n";
	expect(submit(*state, job, MODEL_13B "tp=1 micro-batch=64"), P4D_WARN, P4D_E_UNMODELLED);
	expect(submit(*state, job, MODEL_13B "tp=1 micro-batch=64 framework=megatron"), P4D_REJECT,
	       P4D_E_DOES_NOT_FIT);
	job.script = "#!/bin/bash\nsrun p4d-train -n 8\npython evaluate.py\n";
	expect(submit(*state, job, MODEL_13B "tp=8"), P4D_PASS, P4D_E_CHOSE);
	job.script = "#!/bin/bash\nsrun ./start.sh\n";
	t = submit(*state, job, MODEL_13B "tp=8 micro-batch=1 pp=1 unmodelled=peft");
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	assert_non_null(strstr(t->text, "not checked: peft"));
}

/* The policy of the GPUs is that of the job, whether or not what it runs is modelled. */
static void sections_of_gpus_are_for_what_is_not_modelled(void **state)
{
	static p4d_verdict again;
	p4d_site *lax = load("mode = enforce\npartition h100 { gpu = \"h100-80gb\" }\n");
	p4d_site *site = load("mode = enforce\npartition h100 { gpu = \"h100-80gb\" }\n"
			      "gpu \"h100-80gb\" { unmodelled = reject }\n");
	p4d_job job = ON("h100", 1), scripted = job;
	const char *flags = MODEL_13B "unmodelled=peft";

	(void)state;
	scripted.script = "#!/bin/bash\nsrun deepspeed train.py\n";
	expect(submit(site, scripted, MODEL_13B), P4D_REJECT, P4D_E_UNMODELLED);
	expect(submit(site, job, flags), P4D_REJECT, P4D_E_UNMODELLED);
	trial *t = submit(lax, job, flags);
	expect(t, P4D_WARN, P4D_E_UNMODELLED);
	p4d_guard_verify(site, &job, NULL, NULL, t->verdict.plan, NULL, &again);
	assert_int_equal(again.action, P4D_REJECT);
	assert_int_equal(again.message[0].code, P4D_E_UNMODELLED);
	/* which GPUs it gets is not what it is refused for */
	job.gres = NULL;
	expect(submit(site, job, flags), P4D_WARN, P4D_E_UNMODELLED);
	p4d_site_free(lax);
	p4d_site_free(site);
}

/* A framework that nobody named is said to be assumed, where the job passes and where it does not. */
static void framework_is_assumed(void **state)
{
	p4d_job job = ON("h100", 1);

	job.script = "#!/bin/bash\nsrun python train.py --tp $P4D_TP\n";
	trial *t = submit(*state, job, MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_non_null(strstr(t->text, "chose framework=p4d "));
	t = submit(*state, job, MODEL_13B "tp=1 pp=1 micro-batch=64 recompute=none");
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_int_equal(t->verdict.message[1].code, P4D_E_ASSUMED);
	assert_non_null(strstr(t->text, "judged as p4d-train"));
	t = submit(*state, job, MODEL_13B "tp=1 pp=1 micro-batch=64 recompute=none framework=p4d");
	expect(t, P4D_REJECT, P4D_E_DOES_NOT_FIT);
	assert_int_equal(t->verdict.messages, 1);
}

/* sbatch may not have seen the script that slurmctld has. */
static void slurmctld_reads_the_script(void **state)
{
	static const struct {
		const char *script, *flags;
		p4d_action action;
		p4d_code code;
	} cases[] = {
	    {"srun python pretrain_gpt.py $P4D_MEGATRON_ARGS", "", P4D_REJECT, P4D_E_CONTRADICTION},
	    {"srun python pretrain_gpt.py $P4D_MEGATRON_ARGS", "framework=megatron", P4D_PASS, P4D_OK},
	    {"srun p4d-train -n 8", "", P4D_PASS, P4D_OK},
	    {"srun p4d-train -n 8", "framework=megatron", P4D_PASS, P4D_OK}, /* said by the user */
	    {"srun deepspeed train.py", "", P4D_WARN, P4D_E_UNMODELLED},
	    {"srun ./start.sh", "", P4D_PASS, P4D_OK},
	};
	static p4d_verdict again;
	char flags[300];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(flags, sizeof(flags),
			 MODEL_13B "tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none %s", cases[i].flags);
		trial *t = submit(*state, ON("h100", 1), flags);
		assert_int_equal(t->verdict.action, P4D_PASS);
		t->job.script = cases[i].script;
		t->job.script_length = strlen(cases[i].script);
		p4d_guard_verify(*state, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
		assert_int_equal(again.action, cases[i].action);
		assert_int_equal(again.messages ? again.message[0].code : P4D_OK, cases[i].code);
		if (cases[i].code == P4D_E_CONTRADICTION)
			assert_string_equal(again.message[0].fix, "--p4d-framework=megatron");
	}
}

static void cpu_jobs_need_no_gpu(void **state)
{
	p4d_job job = {.partition = "h100",
		       .min_nodes = 2,
		       .max_nodes = 2,
		       .tasks_per_node = 4,
		       .mem_per_node_bytes = (uint64_t)512 << 30};

	trial *t = submit(*state, job, MODEL_13B "tp=2 device=cpu global-batch=64");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_int_equal(t->verdict.layout.world, 8);
	assert_non_null(strstr(t->text, " of 128.0 GiB ("));
	expect_verified(*state, t);
	p4d_job unknown = job;
	unknown.mem_per_node_bytes = 0;
	t = submit(*state, unknown, MODEL_13B "tp=2 device=cpu global-batch=64");
	expect(t, P4D_PASS, P4D_E_CHOSE);
	assert_non_null(strstr(t->text, " GiB per rank on the host"));
	job.mem_per_node_bytes = (uint64_t)64 << 30;
	expect(submit(*state, job, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_REJECT, P4D_E_NO_LAYOUT);
}

static const p4d_cluster *small_nodes(void *unused)
{
	static p4d_partition_facts facts = {.partition = "h100", .mem_bytes = (uint64_t)64 << 30};
	static const p4d_cluster cluster = {1, &facts};

	(void)unused;
	return &cluster;
}

static void nobody_gets_past_the_check_on_the_host(void **state)
{
	static trial t;
	p4d_job job = {.partition = "h100", .min_nodes = 1, .max_nodes = 1, .tasks_per_node = 8};

	/* without --mem it has at most the memory of the node */
	for (int known = 0; known < 2; known++) {
		memset(&t, 0, sizeof(t));
		set_all(&t.request, MODEL_13B "tp=2 device=cpu global-batch=64");
		p4d_guard_complete(*state, &job, known ? small_nodes : NULL, NULL, 0, &t.request, &t.verdict);
		expect(&t, known ? P4D_REJECT : P4D_PASS, known ? P4D_E_NO_LAYOUT : P4D_E_CHOSE);
	}
	/* GPUs that it would not use: where plans are required, that would be the way around them */
	job.gres = "gpu:8";
	expect(submit(*state, job, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_WARN, P4D_E_IDLE_GPUS);
	job.partition = "strict";
	expect(submit(*state, job, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_REJECT, P4D_E_IDLE_GPUS);
}

/* ---- slurmctld ---- */

static p4d_verdict *verify(const p4d_site *site, p4d_job job, const char *plan, const char *options)
{
	static p4d_verdict v;
	p4d_request r;

	memset(&r, 0, sizeof(r));
	set_all(&r, options);
	p4d_guard_verify(site, &job, NULL, NULL, plan, &r, &v);
	return &v;
}

static const p4d_cluster *default_h100(void *unused)
{
	static p4d_partition_facts facts = {
	    .partition = "h100", .gpu_type = "h100", .gpus_per_node = 8, .is_default = true};
	static const p4d_cluster cluster = {1, &facts};

	(void)unused;
	return &cluster;
}

/* A policy is that of the partition, also where the job leaves its name to Slurm. */
static void the_default_partition_has_its_policy(void **state)
{
	static const char *const texts[] = {
	    "mode = enforce\npartition \"h*\" { gpu = \"h100-80gb\"\n require_plan = true }\n",
	    "mode = enforce\npartition h100 { require_plan = true }\n",
	    "mode = enforce\nrequire_plan = {\"h100\"}\n",
	};
	static p4d_verdict v;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		p4d_site *site = load(texts[i]);
		p4d_job job = ON(NULL, 1);
		p4d_guard_verify(site, &job, default_h100, NULL, NULL, NULL, &v);
		assert_int_equal(v.action, P4D_REJECT);
		assert_int_equal(v.message[0].code, P4D_E_PLAN_REQUIRED);
		/* and where it is submitted */
		trial t = {.job = job};
		set_all(&t.request, MODEL_13B "unmodelled=peft");
		p4d_guard_complete(site, &job, default_h100, NULL, 0, &t.request, &t.verdict);
		expect(&t, P4D_REJECT, P4D_E_UNMODELLED);
		/* what another cluster has as its default is not known */
		job.clusters = "other";
		p4d_guard_verify(site, &job, default_h100, NULL, NULL, NULL, &v);
		assert_int_equal(v.action, P4D_PASS);
		p4d_site_free(site);
	}
}

/* min_gpus: smaller jobs are completed and pass, whatever they take, and need no plan. */
static void small_jobs_are_left_alone(void **state)
{
	p4d_job small = ON("some-gpus", 1), large = ON("some-gpus", 2);
	trial *t = submit(*state, small, MODEL_70B "tp=1 pp=1");

	expect(t, P4D_PASS, P4D_OK);
	assert_false(t->verdict.would_reject);
	assert_string_not_equal(t->verdict.plan, "");
	expect_verified(*state, t);
	assert_int_equal(verify(*state, small, NULL, "")->action, P4D_PASS);
	assert_int_equal(verify(*state, small, NULL, "model=llama13b tp=8")->action, P4D_PASS);
	t = submit(*state, large, MODEL_70B "tp=1 pp=1");
	assert_int_equal(t->verdict.action, P4D_REJECT);
	assert_string_equal(t->verdict.geometry.partition, "some-gpus");
	assert_non_null(strstr(t->text, "\np4d: Ask help@site, or see https://site/p4d"));
	assert_int_equal(verify(*state, large, NULL, "")->message[0].code, P4D_E_PLAN_REQUIRED);
	assert_int_equal(verify(*state, large, NULL, "model=llama13b tp=8")->message[0].code, P4D_E_NO_PLAN);
	/* the GPUs count, not the ranks on the host; a job without GPUs is none of those */
	p4d_job host = ON("some-gpus", 2);
	host.tasks_per_node = 4;
	expect(submit(*state, host, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_REJECT,
	       P4D_E_IDLE_GPUS);
	host.gres = NULL;
	host.mem_per_node_bytes = (uint64_t)64 << 30;
	expect(submit(*state, host, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_REJECT,
	       P4D_E_NO_LAYOUT);
	/* what cannot be counted is not small */
	small.max_nodes = 4;
	assert_int_equal(verify(*state, small, NULL, "")->message[0].code, P4D_E_PLAN_REQUIRED);
	/* a message for refusals only */
	t = submit(*state, large, MODEL_13B "tp=8");
	assert_null(strstr(t->text, "help@site"));
}

/* Options without a plan pass for a fault of the site only where the site lets such jobs pass. */
static void notes_that_pass(void **state)
{
	static const struct {
		const char *partition;
		p4d_action action;
	} cases[] = {{"h100", P4D_PASS}, {"wary", P4D_REJECT}, {"strict", P4D_REJECT}};
	p4d_note note;

	assert_true(p4d_note_read("not-judged\tP4D060,P4D115\tp4d.conf:1: syntax\t", &note));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_verdict *v = verify(*state, ON(cases[i].partition, 1), NULL, "model=llama13b");
		assert_true(p4d_note_heed(&note, v));
		assert_int_equal(v->action, cases[i].action);
	}
}

static void plans_are_required_or_complete(void **state)
{
	p4d_verdict *v = verify(*state, ON("h100", 1), NULL, "");
	assert_int_equal(v->action, P4D_PASS);
	v = verify(*state, ON("h100", 1), NULL, "model=llama13b tp=8");
	assert_int_equal(v->action, P4D_REJECT);
	assert_int_equal(v->message[0].code, P4D_E_NO_PLAN);
	assert_non_null(strstr(v->message[0].fix, "eval \"$(p4d plan --env --model=llama13b --tp=8 "
						  "--gpu=h100-80gb --nodes=1 --gpus-per-node=8)\""));
	v = verify(*state, ON("h100", 1), NULL, "tp=8");
	assert_non_null(strstr(v->message[0].fix, "p4d plan --env --model=NAME --tp=8 "));
	v = verify(*state, ON("watched", 1), NULL, "model=llama13b tp=8");
	assert_int_equal(v->action, P4D_PASS);
	assert_true(v->would_reject);
	v = verify(*state, ON("strict", 1), NULL, "");
	assert_int_equal(v->action, P4D_REJECT);
	assert_int_equal(v->message[0].code, P4D_E_PLAN_REQUIRED);
	p4d_job of_novice = ON("h100", 1);
	of_novice.user = "novice";
	assert_int_equal(verify(*state, of_novice, NULL, "")->message[0].code, P4D_E_PLAN_REQUIRED);
	p4d_job cpu_only = {.partition = "strict", .min_nodes = 1};
	assert_int_equal(verify(*state, cpu_only, NULL, "")->action, P4D_PASS);
}

static void plans_must_match_the_job(void **state)
{
	char plan[P4D_PLAN_MAX], edited[P4D_PLAN_MAX];

	snprintf(plan, sizeof(plan), "%s", submit(*state, ON("h100", 1), MODEL_13B "tp=8")->verdict.plan);
	assert_int_equal(verify(*state, ON("h100", 1), plan, "model=llama13b tp=8")->action, P4D_PASS);
	p4d_verdict *v = verify(*state, ON("h100", 1), plan, "tp=4");
	assert_int_equal(v->message[0].code, P4D_E_PLAN_CHANGED);
	assert_string_equal(v->message[0].text, "tp is 4 in the job's options and 8 in its plan");
	v = verify(*state, ON("h100", 2), plan, "");
	assert_int_equal(v->message[0].code, P4D_E_GEOMETRY);
	assert_string_equal(v->message[0].fix, "--nodes=1 --gres=gpu:8");
	snprintf(edited, sizeof(edited), "%s", plan);
	memcpy(strstr(edited, "tp=8"), "tp=4", 4);
	v = verify(*state, ON("h100", 1), edited, "");
	assert_int_equal(v->message[0].code, P4D_E_PLAN_CHANGED);
	/* the same plan on a smaller GPU is judged by that GPU */
	p4d_job tight = ON("h100", 1);
	tight.qos = "tight";
	v = verify(*state, tight, plan, "");
	assert_int_equal(v->action, P4D_REJECT);
	assert_int_equal(v->message[0].code, P4D_E_DOES_NOT_FIT);
}

static void at_most_four_lines(void **state)
{
	static p4d_verdict v;
	char text[4096];
	int lines = 1;

	(void)state;
	v.messages = P4D_MESSAGES;
	v.policy.mode = P4D_MODE_ENFORCE;
	for (int i = 0; i < P4D_MESSAGES; i++) {
		v.message[i].code = P4D_E_CHOSE;
		snprintf(v.message[i].text, sizeof(v.message[i].text), "text %d", i);
		snprintf(v.message[i].fix, sizeof(v.message[i].fix), "fix");
	}
	for (const char *at = p4d_verdict_text(&v, text, sizeof(text)); *at; at++)
		lines += *at == '\n';
	assert_int_equal(lines, 4);
}

static void failures_before_judging(void **state)
{
	static p4d_verdict v;
	p4d_job job = ON("h100", 1);
	p4d_error err;

	p4d_fail(&err, P4D_E_VALUE, "--p4d-tp=8x");
	p4d_guard_fail(*state, &job, &err, &v);
	assert_int_equal(v.action, P4D_REJECT);
	job.partition = "watched";
	p4d_guard_fail(*state, &job, &err, &v);
	assert_int_equal(v.action, P4D_PASS);
	assert_true(v.would_reject);
	job.partition = "h100";
	p4d_fail(&err, P4D_E_CONF_SYNTAX, "p4d.conf:3: what");
	p4d_guard_fail(*state, &job, &err, &v);
	assert_int_equal(v.action, P4D_WARN); /* on_error = pass */
}

/* Tries a plan with a correct hash: 0 it passes, else the code. */
static p4d_code verified(const p4d_site *site, const p4d_job *job, const p4d_request *plan, char model[64])
{
	static p4d_verdict v;
	char line[P4D_PLAN_MAX];

	assert_int_equal(p4d_plan_write(plan, line, sizeof(line), NULL), 0);
	p4d_guard_verify(site, job, NULL, NULL, line, NULL, &v);
	memcpy(model, v.model, sizeof(v.model));
	return v.action == P4D_REJECT ? v.message[0].code : P4D_OK;
}

static void a_preset_has_its_numbers(void **state)
{
	p4d_site *site = *state;
	p4d_job job = ON("h100", 4);
	p4d_request honest = {0}, forged;
	static p4d_verdict v;
	p4d_error err;
	char model[64];

	if (p4d_site_load_presets(site, &err) < 0)
		fail_msg("%s", err.text);
	set_all(&honest, "model=Llama-3_70B tp=8 pp=4 framework=megatron");
	assert_int_equal(p4d_model_resolve(&honest, test_datadir(), NULL, &err), 0);
	p4d_guard_complete(site, &job, NULL, NULL, 2048, &honest, &v);
	assert_int_equal(verified(site, &job, &honest, model), P4D_OK);
	assert_string_equal(model, "Llama-3_70B");

	forged = honest;
	forged.value[P4D_LAYERS] = 4;
	assert_int_equal(verified(site, &job, &forged, model), P4D_E_PLAN_CHANGED);
	/* what p4d of another version has for this name passes as a model of its own */
	char line[P4D_PLAN_MAX];
	assert_int_equal(p4d_plan_write(&forged, line, sizeof(line), NULL), 0);
	p4d_guard_verify(site, &job, NULL, NULL, line, NULL, &v);
	assert_string_equal(v.message[0].fix, "--p4d-model=/PATH/config.json, or the same p4d on both sides");
	assert_non_null(strstr(v.message[0].text, "layers is 4 in the plan, but 80 in slurmctld's preset"));
	forged.origin[P4D_LAYERS] = P4D_BY_P4D;
	assert_int_equal(verified(site, &job, &forged, model), P4D_E_PLAN_CHANGED);
	/* the user may, but then the name says so */
	forged.origin[P4D_LAYERS] = P4D_BY_USER;
	assert_int_equal(verified(site, &job, &forged, model), P4D_OK);
	assert_string_equal(model, "Llama-3_70B,layers=4");

	forged = honest;
	snprintf(forged.unmodelled, sizeof(forged.unmodelled), "x");
	job.script = "#!/bin/sh\nsrun p4d-train\n";
	job.script_length = strlen(job.script);
	for (p4d_origin origin = P4D_BY_SITE; origin <= P4D_BY_P4D; origin++) {
		p4d_request_put(&forged, P4D_UNMODELLED, 1, origin);
		assert_int_equal(verified(site, &job, &forged, model), P4D_E_PLAN_CHANGED);
	}
	/* a word of the user's own about the program is no forgery; the site's policy decides */
	p4d_request_put(&forged, P4D_UNMODELLED, 1, P4D_BY_USER);
	assert_int_equal(verified(site, &job, &forged, model), P4D_OK);
}

/* Layouts are discarded before anything of them is known but that nothing fits. */
static void degrees_that_divide_nothing_are_named(void **state)
{
	const p4d_site *site = *state;
	static const char *const flags[] = {MODEL_70B "tp=3", MODEL_70B "tp=5 pp=1",
					    MODEL_70B "tp=7 micro-batch=4"};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const trial *t = submit(site, ON("h100", 1), flags[i]);
		expect(t, P4D_REJECT, P4D_E_HEADS);
		/* no other tp would do here */
		assert_non_null(strstr(t->verdict.message[0].fix, "--nodes="));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(degrees_that_divide_nothing_are_named),
	    cmocka_unit_test(complete_flags_pass_silently),
	    cmocka_unit_test(the_gpu_of_the_plan_where_nothing_else_tells),
	    cmocka_unit_test(open_flags_are_completed),
	    cmocka_unit_test(one_rank_on_mig),
	    cmocka_unit_test(refusals_have_a_fix_that_works),
	    cmocka_unit_test(a_refusal_names_the_numbers),
	    cmocka_unit_test(evaluation_may_be_the_peak),
	    cmocka_unit_test(rewriting),
	    cmocka_unit_test(modes),
	    cmocka_unit_test(above_safe_is_a_warning),
	    cmocka_unit_test(override),
	    cmocka_unit_test(mixed_partitions),
	    cmocka_unit_test(facts_that_are_missing),
	    cmocka_unit_test(a_search_ends_and_says_so),
	    cmocka_unit_test(notes_that_pass),
	    cmocka_unit_test(unmodelled_architectures),
	    cmocka_unit_test(host_memory),
	    cmocka_unit_test(tasks_of_p4d_train),
	    cmocka_unit_test(megatron_scripts),
	    cmocka_unit_test(programs_without_a_formula),
	    cmocka_unit_test(sections_of_gpus_are_for_what_is_not_modelled),
	    cmocka_unit_test(framework_is_assumed),
	    cmocka_unit_test(slurmctld_reads_the_script),
	    cmocka_unit_test(cpu_jobs_need_no_gpu),
	    cmocka_unit_test(nobody_gets_past_the_check_on_the_host),
	    cmocka_unit_test(the_default_partition_has_its_policy),
	    cmocka_unit_test(small_jobs_are_left_alone),
	    cmocka_unit_test(plans_are_required_or_complete),
	    cmocka_unit_test(plans_must_match_the_job),
	    cmocka_unit_test(at_most_four_lines),
	    cmocka_unit_test(failures_before_judging),
	    cmocka_unit_test(a_preset_has_its_numbers),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
