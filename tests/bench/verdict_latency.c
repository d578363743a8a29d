/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how long slurmctld spends on a verdict. A host that replaces slurmctld submits three jobs in
 * turn: one that passes, one that p4d refuses, and one without p4d options. Each has the environment of a
 * login shell. Then the host submits the first job many times within a second. The benchmark only prints:
 * a long time is no failure.
 *
 * verdict_latency [COUNT OF EACH]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doubles/slurm/fakehost.h"
#include "doubles/slurm/plans.h"

enum { KINDS = 3, MOST = 50000, VARIABLES = 60, TARGET_US = 200 };

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static job_desc_msg_t *with_shell(job_desc_msg_t *desc)
{
	char name[32], value[101];

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (int i = 0; i < VARIABLES; i++) {
		snprintf(name, sizeof(name), "SOME_VARIABLE_%d", i);
		fakehost_env(desc, name, value);
	}
	return desc;
}

static void print(const char *what, double *us, size_t count)
{
	qsort(us, count, sizeof(*us), ascending);
	printf("verdict_latency: %-8s min %6.1f us  p50 %6.1f us  p99 %6.1f us  max %7.1f us (target p99 <= "
	       "%d us)\n",
	       what, us[0], us[count / 2], us[count * 99 / 100], us[count - 1], TARGET_US);
}

int main(int argc, char **argv)
{
	static const char *const names[KINDS] = {"passed", "refused", "plain"};
	const char *build = getenv("P4D_TEST_BUILDDIR"), *said;
	const size_t given = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
	const size_t calls = given < 1 ? 1 : given < MOST ? given : MOST;
	char plugin[4096];
	fakehost host;
	static double us[KINDS][MOST];

	snprintf(plugin, sizeof(plugin), "%s/.libs/job_submit_p4d.so", build ? build : ".");
	fakehost_open(&host, plugin, site_make());
	/* a deep pipeline on 8 GPUs of one node, so that the estimate visits every stage */
	job_desc_msg_t *jobs[KINDS] = {
	    with_shell(job_planned("h100", "model=llama13b tp=1 pp=8 micro-batch=1")),
	    with_shell(job_planned("h100", "model=llama2-70b tp=1 pp=8 micro-batch=1 recompute=none")),
	    with_shell(job_plain("h100"))};
	size_t alive = fakehost_alive();
	int wrong = 0;

	for (size_t i = 0; i < KINDS * calls; i++) {
		double start = now_us();
		int rc = fakehost_submit(&host, jobs[i % KINDS], &said);
		us[i % KINDS][i / KINDS] = now_us() - start;
		wrong += (rc != SLURM_SUCCESS) != (i % KINDS == 1);
	}
	for (int i = 0; i < KINDS; i++)
		print(names[i], us[i], calls);
	fakehost_stop_clock(true);
	for (size_t i = 0; i < calls; i++) {
		double start = now_us();
		wrong += fakehost_submit(&host, jobs[0], &said) != SLURM_SUCCESS;
		us[0][i] = now_us() - start;
	}
	print("again", us[0], calls);
	/* the first approval stores its admin_comment in the job, which is one block more */
	int leaked = fakehost_alive() > alive + 1;
	for (int i = 0; i < KINDS; i++)
		fakehost_free(jobs[i]);
	fakehost_close(&host);
	site_remove();
	if (wrong || leaked)
		fprintf(stderr, "verdict_latency: %d wrong verdicts%s\n", wrong,
			leaked ? ", memory leaked" : "");
	return wrong || leaked;
}
