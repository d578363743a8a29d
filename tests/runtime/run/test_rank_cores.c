/* SPDX-License-Identifier: Apache-2.0 */
/* The default number of threads of a rank. It is at most the number of cores in the rank's CPU mask, and
 * only a share of them if other ranks have the same mask. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/support.h"

#include <sched.h>

#include "run/rank_cores.h"

static cpu_set_t before;

static int setup(void **state)
{
	(void)state;
	unsetenv("SLURM_CPUS_ON_NODE");
	return sched_getaffinity(0, sizeof(before), &before);
}

static int restore(void **state)
{
	(void)state;
	unsetenv("SLURM_CPUS_ON_NODE");
	return sched_setaffinity(0, sizeof(before), &before);
}

/* Restricts the process to the machine's first cores. */
static void use_cores(int count)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE && count > 0; i++)
		if (CPU_ISSET(i, &before)) {
			CPU_SET(i, &set);
			count--;
		}
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

static void at_least_one(void **state)
{
	(void)state;
	use_cores(1);
	assert_int_equal(p4d_rank_cores(1, true), 1);
	assert_int_equal(p4d_rank_cores(8, true), 1);
	assert_int_equal(p4d_rank_cores(8, false), 1);
}

static void forked_ranks_share(void **state)
{
	(void)state;
	if (CPU_COUNT(&before) < 2)
		skip();
	use_cores(2);
	const uint32_t alone = p4d_rank_cores(1, true); /* 1 under a quota of one core */
	assert_true(alone == 2 || alone == 1);
	assert_int_equal(p4d_rank_cores(2, true), 1);
}

/* With srun, a mask with fewer cores than the job has on the node belongs to this rank alone. */
static void tasks_may_have_their_own(void **state)
{
	(void)state;
	if (CPU_COUNT(&before) < 2)
		skip();
	use_cores(2);
	if (p4d_rank_cores(1, false) < 2)
		skip(); /* the process has a quota */
	setenv("SLURM_CPUS_ON_NODE", "2", 1);
	assert_int_equal(p4d_rank_cores(2, false), 1);
	setenv("SLURM_CPUS_ON_NODE", "8", 1);
	assert_within(p4d_rank_cores(1, false), 2, 2);
	assert_within(p4d_rank_cores(2, false), 1, 2); /* ranks also share a quota of two cores */
}

/* Decides how many threads a rank uses. The test gives the seconds for which the main thread waited for a
 * core, in steps of one second. */
static void fewer_on_a_busy_machine(void **state)
{
	p4d_cores_now cores = {.most = 12, .now = 12};

	(void)state;
	assert_false(p4d_cores_decide(&cores, 1, 0.004));
	assert_true(p4d_cores_decide(&cores, 1, 0.104)); /* it waited for a tenth of the step */
	assert_int_equal(cores.now, 6);
	assert_true(p4d_cores_decide(&cores, 1, 0.604)); /* it waited for half of the step */
	assert_int_equal(cores.now, 1);
	assert_false(p4d_cores_decide(&cores, 1, 0.634));
	for (uint32_t now = 2; now < 12; now = 2 * now < 12 ? 2 * now : 12) {
		assert_true(p4d_cores_decide(&cores, 1, 0.634));
		assert_int_equal(cores.now, now);
	}
	assert_true(p4d_cores_decide(&cores, 1, 0.634));
	assert_int_equal(cores.now, 12);
	cores.waited = -1; /* -1: the kernel does not count these waits */
	assert_false(p4d_cores_decide(&cores, 1, 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(at_least_one, restore),
	    cmocka_unit_test_teardown(forked_ranks_share, restore),
	    cmocka_unit_test(fewer_on_a_busy_machine),
	    cmocka_unit_test_teardown(tasks_may_have_their_own, restore),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
