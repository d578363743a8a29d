/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_limits.h"

#include <stddef.h>
#include <string.h>

/* Slurm's own limits. Slurm accepts node lists of any length, and so does p4d (see P4D_HOSTLIST_BUDGET). */
enum { MOST_TEXT = 1024, MOST_PARTITIONS = 128 };

static const struct limit {
	const char *option;
	size_t field;
} limits[] = {
    {"--partition", offsetof(p4d_job, partition)},
    {"--qos", offsetof(p4d_job, qos)},
    {"--account", offsetof(p4d_job, account)},
    {"--reservation", offsetof(p4d_job, reservation)},
    {"--constraint", offsetof(p4d_job, constraint)},
    {"--gres", offsetof(p4d_job, gres)},
    {"--gpus", offsetof(p4d_job, gpus)},
    {"--gpus-per-task", offsetof(p4d_job, gpus_per_task)},
    {"--gpus-per-socket", offsetof(p4d_job, gpus_per_socket)},
    {"--clusters", offsetof(p4d_job, clusters)},
};

static int check_partitions(const char *list, p4d_error *err)
{
	unsigned names = 0;

	for (const char *at = list ? list : ""; *(at += strspn(at, ", ")); at += strcspn(at, ", "))
		names++;
	if (names <= MOST_PARTITIONS)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "--partition lists %u names, but p4d compares at most %d", names,
		 MOST_PARTITIONS);
	return p4d_fix(err, "--partition=NAME");
}

int p4d_job_check_limits(const p4d_job *job, p4d_error *err)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct limit *limit = &limits[i];
		const char *text = *(const char *const *)((const char *)job + limit->field);
		if (!text || strnlen(text, MOST_TEXT + 1) <= MOST_TEXT)
			continue;
		p4d_fail(err, P4D_E_VALUE, "%s has more than %d characters, so p4d does not read this list",
			 limit->option, MOST_TEXT);
		return p4d_fix(err, "%s=NAME", limit->option);
	}
	return check_partitions(job->partition, err);
}
