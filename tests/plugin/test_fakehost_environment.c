/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of slurmctld on jobs whose variables are malformed, edited or contradictory. */
#include "support/support.h"

#include "doubles/slurm/hosted.h"

static void options_without_a_plan_are_refused(void **state)
{
	static const char *const names[] = {"_SLURM_SPANK_OPTION_p4d_p4d_micro_batch",
					    "SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_micro_batch",
					    "P4D_MICRO_BATCH", "SLURM_SPANK_P4D_MICRO_BATCH"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		job_desc_msg_t *desc = job_plain("h100");
		fakehost_env(desc, names[i], "4");
		if (strstr(names[i], "P4D_MICRO")) {
			/* variables that only look like p4d's do not make a job one of p4d's */
			hosted_expect(desc, true, "");
			continue;
		}
		hosted_expect(desc, false, "[P4D040]");
		assert_non_null(strstr(hosted_said, "p4d plan"));
		assert_non_null(strstr(hosted_said, "--micro-batch=4"));
	}
	job_desc_msg_t *desc = job_plain("h100");
	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "llama13b");
	hosted_expect(desc, false, "[P4D040]");
	desc = job_plain("h100");
	fakehost_env(desc, "P4D_MEGATRON_ARGS", "--tensor-model-parallel-size 8");
	hosted_expect(desc, true, "");
	/* variables with similar names */
	desc = job_plain("h100");
	fakehost_env(desc, "P4D_MY_OWN", "4");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_nodes", "4");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_other_p4d_tp", "4");
	fakehost_env(desc, "P4D_", "4");
	hosted_expect(desc, true, "");
}

static void malformed_values_are_named(void **state)
{
	(void)state;
	static const char *const values[] = {"8x", "", "-1", "0", "99999999999999999999", "8 "};
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
		hosted_edit_everywhere(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", values[i]);
		hosted_expect(desc, false, "[P4D005]");
		assert_non_null(strstr(hosted_said, "--p4d-tp="));
	}
	job_desc_msg_t *desc = job_plain("h100");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_schedule", "sideways");
	hosted_expect(desc, false, "[P4D005]");
	desc = job_planned("h100", HOSTED_GOOD);
	fakehost_set(&desc->tres_per_node, "gres:gpu:h100:8x");
	hosted_expect(desc, false, "[P4D005]");
}

static void edited_plans_are_refused(void **state)
{
	(void)state;
	char text[8192];
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	size_t length = strlen(hosted_plan(desc));

	snprintf(text, sizeof(text), "%s", hosted_plan(desc));
	for (size_t cut = 0; cut < length; cut += cut < 32 ? 1 : 97) {
		desc = desc ? desc : job_planned("h100", HOSTED_GOOD);
		char kept = text[cut];
		text[cut] = '\0';
		hosted_edit_everywhere(desc, "P4D_PLAN", text);
		hosted_expect(desc, false, "[P4D04");
		text[cut] = kept;
		desc = job_planned("h100", HOSTED_GOOD);
		text[cut] ^= 1;
		hosted_edit_everywhere(desc, "P4D_PLAN", text);
		hosted_expect(desc, false, "[P4D0");
		text[cut] ^= 1;
		desc = NULL;
	}
	desc = job_planned("h100", HOSTED_GOOD);
	memset(text, 'a', sizeof(text) - 20);
	text[sizeof(text) - 20] = '\0';
	memcpy(text, "p4d1:", 5);
	hosted_edit_everywhere(desc, "P4D_PLAN", text);
	hosted_expect(desc, false, "[P4D04");
	/* without its plan, the job has only options, so it is refused */
	desc = job_planned("h100", HOSTED_GOOD);
	hosted_edit_everywhere(desc, "P4D_PLAN", NULL);
	hosted_expect(desc, false, "[P4D040]");
}

static void contradictions_are_refused(void **state)
{
	static const char *const names[] = {"_SLURM_SPANK_OPTION_p4d_p4d_tp",
					    "SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_tp", "P4D_TP",
					    "SLURM_SPANK_P4D_TP"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
		hosted_edit(desc, names[i], "4");
		hosted_expect(desc, false, "[P4D041]");
	}
	/* all copies of the option agree with each other, but not with the plan */
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	hosted_edit_everywhere(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "4");
	hosted_expect(desc, false, "[P4D041]");
	desc = job_planned("h100", HOSTED_GOOD);
	hosted_edit_everywhere(desc, "P4D_TP", "4");
	hosted_expect(desc, false, "[P4D041]");
	desc = job_planned("h100", HOSTED_GOOD);
	hosted_edit_everywhere(desc, "P4D_MEGATRON_ARGS", "--tensor-model-parallel-size 4");
	hosted_expect(desc, false, "[P4D041]");
	/* the job has its own plan and that of another job */
	desc = job_planned("h100", HOSTED_GOOD);
	job_desc_msg_t *other = job_planned("h100", "model=llama13b tp=4");
	hosted_edit(desc, "P4D_PLAN", hosted_plan(other));
	fakehost_free(other);
	hosted_expect(desc, false, "[P4D041]");
}

static void a_switch_has_no_value_to_differ(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_fix", "");
	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_fix", "(null)");
	hosted_expect(desc, true, "");
}

/* A job as sbatch submits it: the environment has only the plan. slurmstepd derives the other variables
 * from it. */
static job_desc_msg_t *without_outputs(const char *assignments)
{
	job_desc_msg_t *desc = job_planned("h100", assignments);

	hosted_edit(desc, "P4D_TP", NULL);
	hosted_edit(desc, "P4D_PP", NULL);
	hosted_edit(desc, "P4D_MEGATRON_ARGS", NULL);
	return desc;
}

/* slurmctld writes the layout into the script's environment, for nodes without p4d.so. It cannot do this
 * for srun's jobs, which have no environment here. */
static void a_script_gets_its_layout_from_slurmctld(void **state)
{
	(void)state;
	job_desc_msg_t *desc = without_outputs(HOSTED_GOOD);
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	assert_null(desc->environment[desc->env_size]);
	assert_string_equal(*hosted_variable(desc->environment, desc->env_size, "P4D_TP"), "P4D_TP=8");
	assert_non_null(strstr(*hosted_variable(desc->environment, desc->env_size, "P4D_MEGATRON_ARGS"),
			       "--tensor-model-parallel-size 8"));
	fakehost_free(desc);
	/* as with --export=NONE, only the second copy of the plan is left; it is enough */
	desc = without_outputs(HOSTED_GOOD);
	hosted_edit(desc, "P4D_PLAN", NULL);
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	hosted_variable(desc->environment, desc->env_size, "P4D_PLAN");
	hosted_variable(desc->environment, desc->env_size, "P4D_PP");
	fakehost_free(desc);
	/* jobs without a script and refused jobs get no variables */
	for (int refused = 0; refused < 2; refused++) {
		desc = without_outputs(refused ? HOSTED_LARGE : HOSTED_GOOD);
		if (!refused)
			fakehost_set(&desc->script, NULL);
		const uint32_t before = desc->env_size;
		assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said) != SLURM_SUCCESS, refused);
		assert_int_equal(desc->env_size, before);
		fakehost_free(desc);
	}
}

/* If the user's environment already has one of these variables, slurmctld replaces it. */
static void no_variable_is_written_twice(void **state)
{
	(void)state;
	static const char *const names[] = {
	    "P4D_PLAN=",     "P4D_TP=", "P4D_DP=", "P4D_MEGATRON_ARGS=", "SLURM_SPANK_P4D_PLAN=",
	    "P4D_SOMETHING="};
	job_desc_msg_t *desc = job_planned("h100", HOSTED_GOOD);
	fakehost_env(desc, "P4D_SOMETHING", "mine");
	hosted_edit(desc, "P4D_DP", NULL);
	const uint32_t before = desc->env_size;

	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	assert_int_equal(desc->env_size, before + 1); /* one variable more: P4D_DP is new, and the edited
						       * variable has another name */
	assert_null(desc->environment[desc->env_size]);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		unsigned count = 0;
		for (uint32_t k = 0; k < desc->env_size; k++)
			count += !strncmp(desc->environment[k], names[i], strlen(names[i]));
		if (count != 1)
			fail_msg("%s is there %u times", names[i], count);
	}
	fakehost_free(desc);
}

static void null_everywhere(void **state)
{
	(void)state;
	job_desc_msg_t *desc = fakehost_desc();
	memset(desc, 0, sizeof(*desc));
	hosted_expect(desc, true, "");
	hosted_expect(fakehost_desc(), true, "");
	/* a count without a list, and lists with NULL entries */
	desc = fakehost_desc();
	desc->env_size = 7;
	desc->spank_job_env_size = 7;
	assert_int_equal(fakehost_submit(&hosted, desc, &hosted_said), SLURM_SUCCESS);
	desc->env_size = desc->spank_job_env_size = 0;
	fakehost_free(desc);
	desc = job_planned("h100", HOSTED_GOOD);
	for (int i = 0; i < 2; i++)
		fakehost_set(&desc->environment[i], NULL);
	hosted_expect(desc, true, "");
	desc = fakehost_desc();
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "llama13b");
	hosted_expect(desc, false, "[P4D040]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(options_without_a_plan_are_refused),
	    HOSTED_TEST(malformed_values_are_named),
	    HOSTED_TEST(edited_plans_are_refused),
	    HOSTED_TEST(contradictions_are_refused),
	    HOSTED_TEST(a_switch_has_no_value_to_differ),
	    HOSTED_TEST(null_everywhere),
	    HOSTED_TEST(a_script_gets_its_layout_from_slurmctld),
	    HOSTED_TEST(no_variable_is_written_twice),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
