/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_limits.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/*
 * Slurm's own limits, except for node lists, of which it takes any: folded, those of three thousand scattered
 * nodes are shorter than that.
 */
enum { MOST_TEXT = 1024, MOST_NODE_LIST = 16 * 1024, MOST_PARTITIONS = 128 };

static const struct limit {
	const char *option;
	size_t field;
	size_t characters;
} limits[] = {
    {"--partition", offsetof(p4d_job, partition), MOST_TEXT},
    {"--qos", offsetof(p4d_job, qos), MOST_TEXT},
    {"--account", offsetof(p4d_job, account), MOST_TEXT},
    {"--reservation", offsetof(p4d_job, reservation), MOST_TEXT},
    {"--constraint", offsetof(p4d_job, constraint), MOST_TEXT},
    {"--gres", offsetof(p4d_job, gres), MOST_TEXT},
    {"--gpus", offsetof(p4d_job, gpus), MOST_TEXT},
    {"--gpus-per-task", offsetof(p4d_job, gpus_per_task), MOST_TEXT},
    {"--gpus-per-socket", offsetof(p4d_job, gpus_per_socket), MOST_TEXT},
    {"--nodelist", offsetof(p4d_job, nodelist), MOST_NODE_LIST},
    {"--exclude", offsetof(p4d_job, exclude), MOST_NODE_LIST},
    {"--clusters", offsetof(p4d_job, clusters), MOST_TEXT},
};

static int check_partitions(const char *list, p4d_error *err)
{
	unsigned names = 0;

	for (const char *at = list ? list : ""; *(at += strspn(at, ", ")); at += strcspn(at, ", "))
		names++;
	if (names <= MOST_PARTITIONS)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "--partition lists %u names, and p4d compares at most %d", names,
		 MOST_PARTITIONS);
	return p4d_fix(err, "--partition=NAME");
}

int p4d_job_check_limits(const p4d_job *job, p4d_error *err)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct limit *limit = &limits[i];
		const char *text = *(const char *const *)((const char *)job + limit->field);
		if (!text || strnlen(text, limit->characters + 1) <= limit->characters)
			continue;
		p4d_fail(err, P4D_E_VALUE, "%s has more than %zu characters, and is not read", limit->option,
			 limit->characters);
		return p4d_fix(err, "%s=%s", limit->option,
			       limit->characters == MOST_NODE_LIST ? "NODE[FIRST-LAST]" : "NAME");
	}
	return check_partitions(job->partition, err);
}
