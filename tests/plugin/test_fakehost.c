/* SPDX-License-Identifier: Apache-2.0 */
/* job_submit_p4d.so in a stand-in for slurmctld: its verdicts, and that it leaks no memory. */
#include "support/support.h"

#include <unistd.h>

#include "doubles/slurm/hosted.h"

static void plain_jobs_are_left_alone(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_plain("h100");
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	assert_string_equal(hosted_said, "");
	assert_null(desc->admin_comment);
	fakehost_free(desc);
}

/* Writes a p4d.conf with this value of `admin_comment`, and waits until the plugin has read it. */
static void approve_as(const char *kind)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "data = \"%s\"\nadmin_comment = %s\nmode = enforce\n"
		 "partition h100 { gpu = { \"h100-80gb\" } }\nversion = 1\n",
		 test_datadir(), kind);
	fakehost_forget();
	site_write(*kind ? text : NULL);
	assert_true(hosted_logged("reloaded"));
}

static void a_plan_passes_and_is_approved(void **state)
{
	char digest[64];

	(void)state;
	hosted_expect(job_planned("h100", HOSTED_GOOD), true, "");

	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_int_equal(sscanf(desc->admin_comment, "p4d:%32[0-9a-f]:47.6of79.1GiB,nodes=1,", digest), 1);
	assert_int_equal(strlen(digest), 32);
	assert_true(strlen(desc->admin_comment) <= 300);
	assert_null(strchr(desc->admin_comment, ' '));
	fakehost_free(desc);

	approve_as("plan");
	desc = job_planned("h100", HOSTED_GOOD);
	fakehost_submit(&hosted, desc, &hosted_said);
	const char *plan = hosted_plan(desc);
	assert_memory_equal(desc->admin_comment, plan, strlen(plan));
	assert_memory_equal(desc->admin_comment + strlen(plan), " p4d-verdict:47.6of79.1GiB,nodes=1,", 35);
	fakehost_free(desc);
	approve_as("none");
	desc = job_planned("h100", HOSTED_GOOD);
	fakehost_set(&desc->admin_comment, "p4d:forged");
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_null(desc->admin_comment);
	fakehost_free(desc);
	approve_as("");
}

/* slurmctld has its own presets. If the plan has other numbers for a preset, the model's name in the
 * record lists them. */
static void numbers_that_are_not_the_models_are_named(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD " layers=4");
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_non_null(strstr(desc->admin_comment, "model=llama13b%2clayers%3d4,"));
	fakehost_free(desc);
}

static void judging_again_changes_nothing(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD), *before = job_planned("h100", HOSTED_GOOD);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	assert_string_equal(hosted_said, "");
	/* two approvals of the same plan differ only in the id, which comes last */
	char first[512];
	snprintf(first, sizeof(first), "%s", desc->admin_comment);
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	const size_t length = (size_t)(strstr(first, ",id=") - first);
	assert_memory_equal(desc->admin_comment, first, length);
	assert_string_not_equal(desc->admin_comment, first);
	assert_null(strchr(desc->admin_comment, ' '));
	assert_int_equal(desc->env_size, before->env_size);
	for (uint32_t i = 0; i < desc->env_size; i++)
		assert_string_equal(desc->environment[i], before->environment[i]);
	assert_int_equal(desc->spank_job_env_size, before->spank_job_env_size);
	for (uint32_t i = 0; i < desc->spank_job_env_size; i++)
		assert_string_equal(desc->spank_job_env[i], before->spank_job_env[i]);
	assert_int_equal(desc->min_nodes, 1);
	assert_string_equal(desc->tres_per_node, "gres:gpu:8");
	fakehost_free(desc);
	fakehost_free(before);
}

static void comments_of_others_are_kept(void **state)
{
	static const char text[] = "ticket  7 p4d1:old {\"a\": 1} p4d:older p4d: p4d-verdict:tp=1 and more";

	(void)state;
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	fakehost_set(&desc->admin_comment, text);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_memory_equal(desc->admin_comment, "ticket  7 {\"a\": 1} and more p4d:", 32);
	fakehost_free(desc);
	/* if a job is not approved, the user's comment must not look like an approval */
	desc = job_plain("h100");
	fakehost_set(&desc->admin_comment, text);
	fakehost_submit(&hosted, desc, &hosted_said);
	assert_string_equal(desc->admin_comment, "ticket  7 {\"a\": 1} and more");
	fakehost_free(desc);
}

static void what_does_not_fit_is_refused(void **state)
{
	(void)state;
	hosted_expect(job_planned("h100", HOSTED_LARGE), false, "[P4D012]");
	hosted_expect(job_planned("a100", HOSTED_MEDIUM), false, "[P4D012]");
	/* the plan is for another number of nodes than the job requests */
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	desc->min_nodes = desc->max_nodes = 2;
	hosted_expect(desc, false, "p4d: fix: --nodes=1 --gres=gpu:8");
	desc = job_planned("h100", HOSTED_GOOD);
	desc->min_nodes = desc->max_nodes = 2;
	fakehost_env(desc, "SLURM_GPUS_PER_NODE", "8");
	hosted_expect(desc, false, "p4d: fix: --nodes=1 --gpus-per-node=8");
	desc = job_planned("h100", HOSTED_GOOD);
	fakehost_set(&desc->tres_per_node, NULL);
	hosted_expect(desc, false, "[P4D030]");
	desc = job_planned("h100", HOSTED_GOOD);
	desc->pn_min_memory = 1024;
	hosted_expect(desc, false, "[P4D033]");
}

static void modes_are_honoured(void **state)
{
	(void)state;
	/* sbatch already reported this about the same plan, so slurmctld only logs it */
	fakehost_forget();
	hosted_expect(job_planned("warn", HOSTED_LARGE), true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D012\""));
	fakehost_forget();
	hosted_expect(job_planned("observe", HOSTED_LARGE), true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D012\""));
	fakehost_forget();
	hosted_expect(job_planned("off", HOSTED_LARGE), true, "");
	assert_string_equal(fakehost_log(), "");
	/* without a plan, sbatch cannot have reported this, so slurmctld does */
	job_desc_msg_t *desc = job_plain("warn");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "8");
	hosted_expect(desc, true, "[P4D040]");
	hosted_expect(job_planned("lenient", HOSTED_LARGE " override=deadline"), true, "");
	assert_non_null(strstr(fakehost_log(), "deadline"));
	hosted_expect(job_planned("h100", HOSTED_LARGE " override=deadline"), false, "[P4D048]");
}

static void what_other_plugins_said_stays(void **state)
{
	job_desc_msg_t *desc = job_planned("h100", HOSTED_LARGE);
	char *text = NULL;

	(void)state;
	fakehost_set(&text, "lua: see the wiki");
	assert_int_not_equal(hosted.job_submit(desc, FAKEHOST_UID, &text), SLURM_SUCCESS);
	assert_memory_equal(text, "lua: see the wiki\np4d: [P4D012] ", 32);
	fakehost_set(&text, NULL);
	fakehost_free(desc);
}

static void a_plan_can_be_required(void **state)
{
	(void)state;
	hosted_expect(job_plain("strict"), false, "[P4D043]");
	hosted_expect(job_planned("strict", HOSTED_GOOD), true, "");
	job_desc_msg_t *desc = job_plain("strict");
	fakehost_set(&desc->tres_per_node, NULL);
	hosted_expect(desc, true, "");
}

static void unmapped_partitions_are_asked_of_the_cluster(void **state)
{
	(void)state;
	bool known = false;

	/* the partition has two GPU types: the smaller one counts, unless the job chooses a type */
	for (int i = 0; i < HOSTED_TRIES && !known; i++) {
		job_desc_msg_t *desc = job_planned("live", HOSTED_MEDIUM);
		known = fakehost_submit(&hosted, desc, &hosted_said) != SLURM_SUCCESS &&
			strstr(hosted_said, "[P4D012]");
		fakehost_free(desc);
		usleep(HOSTED_TRY_US);
	}
	assert_true(known);
	job_desc_msg_t *desc = job_planned("live", HOSTED_MEDIUM);
	fakehost_set(&desc->tres_per_node, "gres:gpu:h100:8");
	hosted_expect(desc, true, "");
}

/* If p4d.conf does not say which GPU a partition has, sbatch cannot make a plan. This is not the user's
 * fault, so the job passes. */
static void options_pass_where_no_plan_can_be_made(void **state)
{
	job_desc_msg_t *desc = job_plain("nowhere");

	(void)state;
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "8");
	hosted_expect(desc, true, "[P4D115]");
}

/* sbatch cannot read a script from a pipe, so only slurmctld knows which program it starts. */
static void what_only_the_script_tells_is_said(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	fakehost_set(&desc->script, "#!/bin/sh\ndeepspeed train.py\n");
	hosted_expect(desc, true,
		      "p4d does not model the job's program, so the job was not checked: DeepSpeed");
	/* if the plan has the program, sbatch has already reported it */
	hosted_expect(job_planned("h100", "model=llama13b unmodelled=DeepSpeed"), true, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(plain_jobs_are_left_alone),
	    HOSTED_TEST(a_plan_passes_and_is_approved),
	    HOSTED_TEST(numbers_that_are_not_the_models_are_named),
	    HOSTED_TEST(judging_again_changes_nothing),
	    HOSTED_TEST(comments_of_others_are_kept),
	    HOSTED_TEST(what_does_not_fit_is_refused),
	    HOSTED_TEST(modes_are_honoured),
	    HOSTED_TEST(what_only_the_script_tells_is_said),
	    HOSTED_TEST(what_other_plugins_said_stays),
	    HOSTED_TEST(a_plan_can_be_required),
	    HOSTED_TEST(options_pass_where_no_plan_can_be_made),
	    HOSTED_TEST(unmapped_partitions_are_asked_of_the_cluster),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
