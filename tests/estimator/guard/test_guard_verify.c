/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts in slurmctld on plans that are missing, do not match the job, or were edited. */
#include "support/guarded_site.h"

#include "guard/note.h"
#include "model/model.h"

/* If slurmctld has no information about the cluster yet, just after its start, the plan's GPU counts. */
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

static const p4d_cluster *default_h100(void *unused)
{
	static p4d_partition_facts facts = {
	    .partition = "h100", .gpu_type = "h100", .gpus_per_node = 8, .is_default = true};
	static const p4d_cluster cluster = {1, &facts};

	(void)unused;
	return &cluster;
}

/* A job without --partition gets the policy of the partition that Slurm chooses. */
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
		/* sbatch gives the same verdict */
		trial t = {.job = job};
		set_all(&t.request, "");
		p4d_guard__complete(site, &job, default_h100, NULL, 0, true, &t.request, &t.verdict);
		expect(&t, P4D_REJECT, P4D_E_PLAN_REQUIRED);
		/* p4d does not know another cluster's default partition */
		job.clusters = "other";
		p4d_guard_verify(site, &job, default_h100, NULL, NULL, NULL, &v);
		assert_int_equal(v.action, P4D_PASS);
		p4d_site_free(site);
	}
}

/* With min_gpus, smaller jobs pass whatever they need. They are completed, but need no plan. */
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
	/* min_gpus counts GPUs, not ranks on the host; it does not exempt jobs without GPUs */
	p4d_job host = ON("some-gpus", 2);
	host.tasks_per_node = 4;
	expect(submit(*state, host, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_REJECT,
	       P4D_E_IDLE_GPUS);
	host.gres = NULL;
	host.mem_per_node_bytes = (uint64_t)64 << 30;
	expect(submit(*state, host, MODEL_13B "tp=2 device=cpu global-batch=64"), P4D_REJECT,
	       P4D_E_NO_LAYOUT);
	/* if p4d cannot count the GPUs, the job is not small */
	small.max_nodes = 4;
	assert_int_equal(verify(*state, small, NULL, "")->message[0].code, P4D_E_PLAN_REQUIRED);
	/* a job that passes gets no hint at the site's help */
	t = submit(*state, large, MODEL_13B "tp=8");
	assert_null(strstr(t->text, "help@site"));
}

/* If sbatch could not read p4d.conf, a job with options but without a plan passes only on partitions that
 * let such jobs pass. */
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

/* Another slurmctld plugin moved the job to other GPUs than sbatch judged. */
static void a_job_that_was_moved(void **state)
{
	static const char text[] = "warn\tP4D112\tx\t\tscript\t\tgpu=h100%0a-80gb,verdict=warn";
	static const p4d_gpu a100 = {.name = "a100-40gb"};
	const p4d_verdict refused = {
	    .messages = 1,
	    .message = {{.code = P4D_E_DOES_NOT_FIT, .text = "needs", .fix = P4D_FIX_CHECK}},
	    .geometry = {.gpu = &a100}};
	p4d_job job = {.partition = "a100"};
	p4d_verdict v = refused;
	p4d_note note;

	(void)state;
	assert_true(p4d_note_read(text, &note));
	p4d_note_say_moved(&note, &job, &v);
	assert_string_equal(
	    v.message[0].text,
	    "needs; sbatch judged h100\\x0a-80gb, and slurmctld has the job in partition a100");
	assert_string_equal(v.message[0].fix, "p4d check --partition=a100 JOB.sh");
	/* the message names the plan's GPU, and an existing fix is kept */
	v = refused;
	snprintf(v.planned.gpu, sizeof(v.planned.gpu), "b200-180gb");
	snprintf(v.message[0].fix, sizeof(v.message[0].fix), "--p4d-tp=8");
	p4d_note_say_moved(NULL, &job, &v);
	assert_string_equal(v.message[0].text,
			    "needs; sbatch judged b200-180gb, and slurmctld has the job in partition a100");
	assert_string_equal(v.message[0].fix, "--p4d-tp=8");
	/* the text stays the same if the GPU is the same or unknown */
	snprintf(v.planned.gpu, sizeof(v.planned.gpu), "a100-40gb");
	const p4d_verdict same = v;
	p4d_note_say_moved(&note, &job, &v);
	assert_string_equal(v.message[0].text, same.message[0].text);
	v = refused;
	p4d_note_say_moved(NULL, &job, &v);
	assert_string_equal(v.message[0].text, "needs");
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
	/* the user's override passes a job without a plan also in slurmctld */
	v = verify(*state, ON("trusting", 1), NULL, "tp=8 override=measured");
	assert_int_equal(v->action, P4D_WARN);
	assert_int_equal(v->message[1].code, P4D_E_OVERRIDDEN);
	v = verify(*state, ON("h100", 1), NULL, "tp=8 override=measured");
	assert_int_equal(v->action, P4D_REJECT);
	p4d_job cpu_only = {.partition = "strict", .min_nodes = 1};
	assert_int_equal(verify(*state, cpu_only, NULL, "")->action, P4D_PASS);
}

static void plans_must_match_the_job(void **state)
{
	char plan[P4D_PLAN_MAX], edited[P4D_PLAN_MAX];

	strcpy(plan, submit(*state, ON("h100", 1), MODEL_13B "tp=8")->verdict.plan);
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
	/* if the job gets a smaller GPU than planned, that GPU decides */
	p4d_job tight = ON("h100", 1);
	tight.qos = "tight";
	v = verify(*state, tight, plan, "");
	assert_int_equal(v->action, P4D_REJECT);
	assert_int_equal(v->message[0].code, P4D_E_DOES_NOT_FIT);
	/* the job also fits the smaller GPU, but the plan names another one */
	strcpy(plan,
	       submit(*state, ON("h100", 1), MODEL_13B "tp=8 micro-batch=1 recompute=full framework=p4d")
		   ->verdict.plan);
	v = verify(*state, ON("a100", 1), plan, "");
	assert_int_equal(v->message[0].code, P4D_E_PLAN_CHANGED);
	assert_non_null(
	    strstr(v->message[0].text, "was made for h100-80gb, but the job would now get a100-40gb"));
}

static void failures_before_judging(void **state)
{
	static p4d_verdict v;
	p4d_job job = ON("h100", 1);
	p4d_error err;

	p4d_fail(&err, P4D_E_VALUE, "--p4d-tp=8x");
	p4d_guard_fail(*state, &job, &err, NULL, &v);
	assert_int_equal(v.action, P4D_REJECT);
	job.partition = "watched";
	p4d_guard_fail(*state, &job, &err, NULL, &v);
	assert_int_equal(v.action, P4D_PASS);
	assert_true(v.would_reject);
	job.partition = "h100";
	p4d_fail(&err, P4D_E_CONF_SYNTAX, "p4d.conf:3: what");
	p4d_guard_fail(*state, &job, &err, NULL, &v);
	assert_int_equal(v.action, P4D_WARN); /* on_error = pass */
}

/* Verifies a plan with a correct hash. Returns 0 if it passes, otherwise the error code. */
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
	p4d_guard__complete(site, &job, NULL, NULL, 2048, true, &honest, &v);
	assert_int_equal(verified(site, &job, &honest, model), P4D_OK);
	assert_string_equal(model, "Llama-3_70B");

	forged = honest;
	forged.value[P4D_LAYERS] = 4;
	assert_int_equal(verified(site, &job, &forged, model), P4D_E_PLAN_CHANGED);
	/* another release of p4d may have other numbers for this name; the fix passes them as a
	 * config.json */
	char line[P4D_PLAN_MAX];
	assert_int_equal(p4d_plan_write(&forged, line, sizeof(line), NULL), 0);
	p4d_guard_verify(site, &job, NULL, NULL, line, NULL, &v);
	assert_string_equal(v.message[0].fix,
			    "--p4d-model=/PATH/config.json, or install the same p4d on both hosts");
	assert_non_null(strstr(v.message[0].text, "layers is 4 in the plan, but 80 in slurmctld's preset"));
	forged.origin[P4D_LAYERS] = P4D_BY_P4D;
	assert_int_equal(verified(site, &job, &forged, model), P4D_E_PLAN_CHANGED);
	/* a user may change the numbers; the name of the model then has the changes */
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
	/* a user may declare the program unmodelled; then the site's policy decides */
	p4d_request_put(&forged, P4D_UNMODELLED, 1, P4D_BY_USER);
	assert_int_equal(verified(site, &job, &forged, model), P4D_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_gpu_of_the_plan_where_nothing_else_tells),
	    cmocka_unit_test(notes_that_pass),
	    cmocka_unit_test(a_job_that_was_moved),
	    cmocka_unit_test(the_default_partition_has_its_policy),
	    cmocka_unit_test(small_jobs_are_left_alone),
	    cmocka_unit_test(plans_are_required_or_complete),
	    cmocka_unit_test(plans_must_match_the_job),
	    cmocka_unit_test(failures_before_judging),
	    cmocka_unit_test(a_preset_has_its_numbers),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
