/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of slurmctld on scontrol update. */
#include "support/support.h"

#include "doubles/slurm/hosted.h"
#include "plan/plan_line.h"

/* A job whose plan has the program that p4d found in its script. */
static job_desc_msg_t *job_of_script(const char *program)
{
	static const char option[] = "_SLURM_SPANK_OPTION_p4d_p4d_unmodelled";
	char assignments[80], line[P4D_PLAN_MAX];
	p4d_request plan = {0};

	snprintf(assignments, sizeof(assignments), "model=llama13b unmodelled=%s", program);
	job_desc_msg_t *desc = job_planned("h100", assignments);
	fakehost_set(&desc->script, "#!/bin/sh\ndeepspeed train.py\n");
	hosted_edit_everywhere(desc, option, NULL);
	assert_int_equal(p4d_plan_read(hosted_plan(desc), &plan, NULL), 0);
	p4d_request_put(&plan, P4D_UNMODELLED, 1, P4D_BY_P4D);
	assert_int_equal(p4d_plan_write(&plan, line, sizeof(line), NULL), 0);
	hosted_edit_everywhere(desc, "P4D_PLAN", line);
	return desc;
}

static void updates_are_judged_again(void **state)
{
	(void)state;
	job_desc_msg_t *job = job_planned("h100", HOSTED_MEDIUM);

	job_desc_msg_t *change = fakehost_desc();
	fakehost_set(&change->partition, "a100");
	fakehost_forget();
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	assert_non_null(strstr(fakehost_log(), "event=\"update\" verdict=\"refuse\" code=\"P4D047\""));
	assert_non_null(strstr(fakehost_log(), "text=\"after this update: llama13b needs"));

	change = fakehost_desc();
	fakehost_set(&change->name, "another");
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "warn");
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->tres_per_node, "gres:gpu:4");
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	change->min_nodes = change->max_nodes = 2;
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	change->pn_min_memory = 100;
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	/* an empty text removes the field */
	change = fakehost_desc();
	fakehost_set(&change->tres_per_node, "");
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);

	/* a job that is refused even without the change may be changed, unless the change adds the reason */
	job = job_planned("h100", HOSTED_LARGE);
	change = fakehost_desc();
	fakehost_set(&change->features, "rack1");
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "a100");
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);

	/* a job without p4d options may move to any partition that does not require a plan */
	job = job_plain("h100");
	change = fakehost_desc();
	fakehost_set(&change->partition, "a100");
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "strict");
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);

	/* an override remains valid */
	job = job_planned("lenient", HOSTED_LARGE " override=deadline");
	change = fakehost_desc();
	change->pn_min_memory = 1000000;
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
}

/* slurmctld's copy of a queued job has no script, but an update must not bypass the check of the script. */
static void an_update_is_no_way_around_the_script(void **state)
{
	(void)state;
	job_desc_msg_t *job = job_of_script("DeepSpeed");
	assert_int_equal(fakehost_submit(&hosted, job, &hosted_said), SLURM_SUCCESS);
	fakehost_set(&job->script, NULL);

	job_desc_msg_t *change = fakehost_desc();
	change->num_tasks = 4;
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "strict");
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	assert_non_null(
	    strstr(fakehost_log(), "text=\"after this update: p4d does not model the job's program"));
	fakehost_free(job);

	/* the job was submitted before the partition required a plan: it may stay, but not move */
	job = job_plain("strict");
	change = fakehost_desc();
	change->num_tasks = 4;
	assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	change->min_nodes = change->max_nodes = 2;
	assert_int_not_equal(hosted_update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
}

/* The plugin judges an update only if a field changes that the job's geometry depends on. */
static void updates_of_any_resource_are_judged(void **state)
{
	(void)state;
	job_desc_msg_t *job = job_planned("h100", HOSTED_GOOD);

	for (int field = 0; field < 5; field++) {
		job_desc_msg_t *change = fakehost_desc();
		if (field == 1)
			change->overcommit = 1;
		if (field == 2)
			change->ntasks_per_tres = 1;
		if (field == 3)
			change->sockets_per_node = 1;
		if (field == 4)
			fakehost_set(&change->cpus_per_tres, "gres:gpu:1");
		fakehost_forget();
		assert_int_equal(hosted_update(change, job), SLURM_SUCCESS);
		assert_int_equal(strstr(fakehost_log(), "event=\"update\"") != NULL, field > 0);
	}
	fakehost_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(updates_are_judged_again),
	    HOSTED_TEST(an_update_is_no_way_around_the_script),
	    HOSTED_TEST(updates_of_any_resource_are_judged),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
