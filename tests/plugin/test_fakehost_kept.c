/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin reuses a verdict within a second, but only for the same job. */
#include "support/support.h"

#include <time.h>

#include "doubles/slurm/hosted.h"

typedef struct answer {
	int rc;
	char said[1024], comment[512];
} answer;

/* Submits a job and does not change it. */
static answer submit(job_desc_msg_t *desc)
{
	answer a = {.rc = 0};

	fakehost_set(&desc->admin_comment, NULL);
	a.rc = fakehost_submit(&hosted, desc, &hosted_said);
	snprintf(a.said, sizeof(a.said), "%s", hosted_said);
	snprintf(a.comment, sizeof(a.comment), "%s", desc->admin_comment ? desc->admin_comment : "");
	char *id = strstr(a.comment, ",id="); /* the id differs for each verdict */
	if (id)
		*id = '\0';
	fakehost_set(&desc->admin_comment, NULL);
	return a;
}

static void expect_same(const answer *a, const answer *b)
{
	assert_int_equal(a->rc, b->rc);
	assert_string_equal(a->said, b->said);
	assert_string_equal(a->comment, b->comment);
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* The least CPU time of a verdict. */
static double cost_of(job_desc_msg_t *desc)
{
	double best = 1e9;

	for (int i = 0; i < 50; i++) {
		const double start = cpu_us();
		submit(desc);
		const double took = cpu_us() - start;
		best = took < best ? took : best;
	}
	return best;
}

static void the_same_job_costs_little(void **state)
{
	job_desc_msg_t *good = job_planned("h100", HOSTED_GOOD), *large = job_planned("h100", HOSTED_LARGE);
	job_desc_msg_t *jobs[] = {good, large};

	(void)state;
	for (int i = 0; i < 2; i++) {
		const answer judged = submit(jobs[i]);
		const double alone = cost_of(jobs[i]);
		fakehost_stop_clock(true);
		const double again = cost_of(jobs[i]);
		const answer kept = submit(jobs[i]);
		fakehost_stop_clock(false);
		expect_same(&kept, &judged);
		print_message("%.1f us, again %.1f us\n", alone, again);
		assert_true(again < 0.75 * alone);
		fakehost_free(jobs[i]);
	}
}

static void elsewhere(job_desc_msg_t *desc)
{
	fakehost_set(&desc->partition, "a100");
}

static void with_fewer_gpus(job_desc_msg_t *desc)
{
	fakehost_set(&desc->tres_per_node, "gres:gpu:4");
}

static void on_two_nodes(job_desc_msg_t *desc)
{
	desc->min_nodes = desc->max_nodes = 2;
}

static void with_little_memory(job_desc_msg_t *desc)
{
	desc->pn_min_memory = 1024;
}

static void on_other_nodes(job_desc_msg_t *desc)
{
	fakehost_set(&desc->features, "a100");
}

static void with_another_program(job_desc_msg_t *desc)
{
	fakehost_set(&desc->script, "#!/bin/sh\nsrun python pretrain_mamba.py\n");
}

static void with_other_flags(job_desc_msg_t *desc)
{
	fakehost_set(&desc->script, "#!/bin/sh\nsrun p4d-train --tp 4\n");
}

static void with_an_option(job_desc_msg_t *desc)
{
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "4");
}

static void with_an_edited_output(job_desc_msg_t *desc)
{
	fakehost_env(desc, "P4D_TP", "4");
}

static void with_two_plans(job_desc_msg_t *desc)
{
	fakehost_env(desc, "P4D_PLAN", "p4d1:tp=1@u:hash=0");
}

static void with_an_edited_plan(job_desc_msg_t *desc)
{
	strstr((char *)hosted_plan(desc), "tp=8")[3] = '4';
}

static void reserved(job_desc_msg_t *desc)
{
	fakehost_set(&desc->reservation, "tests");
}

static void with_a_qos(job_desc_msg_t *desc)
{
	fakehost_set(&desc->qos, "large");
}

/* A changed job gets its own verdict, even right after the original job. */
static void another_job_is_judged(void **state)
{
	static void (*const changes[])(job_desc_msg_t *) = {
	    elsewhere,      with_fewer_gpus,       on_two_nodes,        with_little_memory,
	    on_other_nodes, with_another_program,  with_other_flags,    with_an_option,
	    with_two_plans, with_an_edited_output, with_an_edited_plan, reserved,
	    with_a_qos,
	};
	unsigned differ = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		job_desc_msg_t *job = job_planned("h100", HOSTED_MEDIUM);
		job_desc_msg_t *other = job_planned("h100", HOSTED_MEDIUM);
		changes[i](other);
		const answer alone = submit(other), first = submit(job);
		fakehost_stop_clock(true);
		for (int turn = 0; turn < 3; turn++) {
			const answer before = submit(job), behind = submit(other);
			expect_same(&before, &first);
			expect_same(&behind, &alone);
		}
		fakehost_stop_clock(false);
		differ += alone.rc != first.rc;
		fakehost_free(job);
		fakehost_free(other);
	}
	print_message("%u of %zu changes are refused\n", differ, sizeof(changes) / sizeof(*changes));
	assert_true(differ >= 9);
}

/* Submits more jobs in turn than the plugin stores verdicts of. */
static void the_oldest_makes_room(void **state)
{
	enum { JOBS = 21 };
	job_desc_msg_t *jobs[JOBS];
	answer alone[JOBS];
	char text[200];

	(void)state;
	for (int i = 0; i < JOBS; i++) {
		snprintf(text, sizeof(text), "%s seq-len=%d", i % 3 ? "model=llama13b tp=8" : HOSTED_LARGE,
			 1024 + 128 * i);
		jobs[i] = job_planned("h100", text);
		alone[i] = submit(jobs[i]);
	}
	fakehost_stop_clock(true);
	for (int n = 0; n < 7 * JOBS; n++) {
		const int i = n * 5 % JOBS;
		const answer a = submit(jobs[i]);
		expect_same(&a, &alone[i]);
	}
	fakehost_stop_clock(false);
	for (int i = 0; i < JOBS; i++)
		fakehost_free(jobs[i]);
}

static void a_reload_forgets(void **state)
{
	job_desc_msg_t *large = job_planned("h100", HOSTED_LARGE);
	char text[512];

	(void)state;
	fakehost_stop_clock(true);
	assert_int_not_equal(submit(large).rc, SLURM_SUCCESS);
	fakehost_forget();
	snprintf(text, sizeof(text),
		 "mode = off\ndata = \"%s\"\npartition h100 { gpu = { \"h100-80gb\" } }\nversion = 1\n",
		 test_datadir());
	site_write(text);
	assert_true(hosted_logged("reloaded"));
	assert_int_equal(submit(large).rc, SLURM_SUCCESS);
	fakehost_forget();
	site_write(NULL);
	assert_true(hosted_logged("reloaded"));
	assert_int_not_equal(submit(large).rc, SLURM_SUCCESS);
	fakehost_stop_clock(false);
	fakehost_free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTED_TEST(the_same_job_costs_little),
	    HOSTED_TEST(another_job_is_judged),
	    HOSTED_TEST(the_oldest_makes_room),
	    HOSTED_TEST(a_reload_forgets),
	};

	return cmocka_run_group_tests(tests, hosted_start, hosted_stop);
}
