/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits held batch jobs through libslurm, like a program that uses neither sbatch nor SPANK.
 *
 *     submit OPTION...                                          one job; prints its id
 *     submit --clients=4 --count=2000 OPTION... --or OPTION...  this many jobs from this many processes at
 * once, alternating between the two kinds; prints how many were accepted and refused, and the seconds
 *
 *   --gpus=N            GPUs on the one node of the job
 *   --partition=NAME
 *   --env=NAME=VALUE    into the job's environment (may be repeated)
 *   --admin-comment=TEXT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "slurm_compat.h"

enum { MAX_ENV = 16, MAX_CLIENTS = 16, KINDS = 2 };

typedef struct kind {
	char *env[MAX_ENV + 1];
	uint32_t env_count;
	char gres[32];
	char *partition, *admin_comment;
	bool given;
} kind;

typedef struct tally {
	unsigned accepted[KINDS], refused[KINDS];
} tally;

static void fill(job_desc_msg_t *job, kind *k)
{
	slurm_init_job_desc_msg(job);
	job->name = getenv("SBATCH_JOB_NAME") ? getenv("SBATCH_JOB_NAME") : "submit";
	job->script = "#!/bin/sh\ntrue\n";
	job->environment = k->env;
	job->env_size = k->env_count;
	job->user_id = getuid();
	job->group_id = getgid();
	job->work_dir = "/";
	job->std_out = "/dev/null";
	job->priority = 0; /* held */
	job->min_nodes = 1;
	job->max_nodes = 1;
	job->partition = k->partition;
	job->admin_comment = k->admin_comment;
	job->tres_per_node = *k->gres ? k->gres : NULL;
}

/* Returns the id of the job; 0: slurmctld refused it, and libslurm has printed its message. */
static uint32_t submit(kind *k, bool quiet)
{
	job_desc_msg_t job;
	submit_response_msg_t *response = NULL;
	uint32_t id;

	fill(&job, k);
	if (slurm_submit_batch_job(&job, &response) != SLURM_SUCCESS || !response) {
		if (!quiet)
			fprintf(stderr, "job submission failed: %s\n", slurm_strerror(errno));
		return 0;
	}
	if (!quiet && response->job_submit_user_msg)
		fprintf(stderr, "%s\n", response->job_submit_user_msg);
	id = P4D_RESPONSE_JOB_ID(response);
	slurm_free_submit_response_response_msg(response);
	return id;
}

static void client(kind *kinds, unsigned first, unsigned count, unsigned step, int to)
{
	tally t = {{0}, {0}};

	for (unsigned i = first; i < count; i += step) {
		/* does not depend on the client, because otherwise each client would send only one kind */
		unsigned which = kinds[1].given ? i / step % KINDS : 0;
		if (submit(&kinds[which], true))
			t.accepted[which]++;
		else
			t.refused[which]++;
	}
	if (write(to, &t, sizeof(t)) != (ssize_t)sizeof(t))
		_exit(1);
	_exit(0);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int flood(kind *kinds, unsigned clients, unsigned count)
{
	tally sum = {{0}, {0}}, t;
	int pipes[2], bad = 0, status;
	double start = now();

	if (pipe(pipes) < 0)
		return 1;
	for (unsigned c = 0; c < clients; c++) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid == 0)
			client(kinds, c, count, clients, pipes[1]);
	}
	close(pipes[1]);
	/* a result is shorter than PIPE_BUF, so a read gets a whole one */
	while (read(pipes[0], &t, sizeof(t)) == (ssize_t)sizeof(t))
		for (int k = 0; k < KINDS; k++) {
			sum.accepted[k] += t.accepted[k];
			sum.refused[k] += t.refused[k];
		}
	while (wait(&status) > 0)
		bad |= status;
	printf("%u accepted %u refused, %u accepted %u refused, %.3f s\n", sum.accepted[0], sum.refused[0],
	       sum.accepted[1], sum.refused[1], now() - start);
	return bad != 0;
}

static bool value_of(char *argument, const char *name, char **value)
{
	size_t length = strlen(name);

	if (strncmp(argument, name, length) || argument[length] != '=')
		return false;
	*value = argument + length + 1;
	return true;
}

int main(int argc, char **argv)
{
	kind kinds[KINDS] = {{.env = {"PATH=/usr/bin:/bin"}, .env_count = 1},
			     {.env = {"PATH=/usr/bin:/bin"}, .env_count = 1}};
	kind *k = &kinds[0];
	unsigned clients = 0, count = 0;
	char *value;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--or") && k == &kinds[0]) {
			k = &kinds[1];
			k->given = true;
		} else if (value_of(argv[i], "--gpus", &value)) {
			snprintf(k->gres, sizeof(k->gres), "gres:gpu:%s", value);
		} else if (value_of(argv[i], "--partition", &value)) {
			k->partition = value;
		} else if (value_of(argv[i], "--admin-comment", &value)) {
			k->admin_comment = value;
		} else if (value_of(argv[i], "--env", &value) && k->env_count < MAX_ENV) {
			k->env[k->env_count++] = value;
		} else if (value_of(argv[i], "--clients", &value)) {
			clients = (unsigned)atoi(value);
		} else if (value_of(argv[i], "--count", &value)) {
			count = (unsigned)atoi(value);
		} else {
			fprintf(stderr, "submit: cannot use %s\n", argv[i]);
			return 2;
		}
	}
	slurm_init(NULL);
	if (count)
		return flood(kinds, clients && clients <= MAX_CLIENTS ? clients : 1, count);
	uint32_t id = submit(&kinds[0], false);
	if (id)
		printf("%u\n", id);
	return id ? 0 : 1;
}
