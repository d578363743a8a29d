/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interleave COUNT [NAME=VALUE...] COMMAND... -- [NAME=VALUE...] COMMAND...
 *
 * Runs two commands in turn, COUNT times each, and prints the wall time of both and their ratio. In turn,
 * because then whatever else the machine does meets both alike. Output of the commands is dropped; one that
 * fails ends it all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct command {
	char **env, **argv; /* env: assignments, up to argv */
	double *ms;
} command;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double run(const command *c)
{
	double start = now_ms();
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		for (char **env = c->env; env < c->argv; env++)
			putenv(*env);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp(c->argv[0], c->argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
		fprintf(stderr, "interleave: %s failed\n", c->argv[0]);
		exit(1);
	}
	return now_ms() - start;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void parse(command *c, char **from)
{
	c->env = from;
	while (*from && strchr(*from, '='))
		from++;
	c->argv = from;
}

int main(int argc, char **argv)
{
	command c[2];
	int split = 2;
	int count = argc > 1 ? atoi(argv[1]) : 0;

	while (split < argc && strcmp(argv[split], "--"))
		split++;
	if (count < 1 || split + 1 >= argc) {
		fprintf(stderr,
			"usage: interleave COUNT [NAME=VALUE...] COMMAND... -- [NAME=VALUE...] COMMAND...\n");
		return 2;
	}
	argv[split] = NULL;
	parse(&c[0], argv + 2);
	parse(&c[1], argv + split + 1);
	for (int k = 0; k < 2; k++) {
		c[k].ms = calloc((size_t)count, sizeof(*c[k].ms));
		if (!c[k].ms || !*c[k].argv)
			return 2;
		run(&c[k]); /* warm caches */
	}
	for (int i = 0; i < count; i++)
		for (int k = 0; k < 2; k++)
			c[(i + k) % 2].ms[i] = run(&c[(i + k) % 2]);
	for (int k = 0; k < 2; k++) {
		qsort(c[k].ms, (size_t)count, sizeof(*c[k].ms), ascending);
		printf("%d: min %.2f  median %.2f  p90 %.2f ms\n", k + 1, c[k].ms[0], c[k].ms[count / 2],
		       c[k].ms[count * 9 / 10]);
	}
	printf("ratio of medians: %.3f\n", c[0].ms[count / 2] / c[1].ms[count / 2]);
	for (int k = 0; k < 2; k++)
		free(c[k].ms);
	return 0;
}
