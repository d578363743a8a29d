/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interleave COUNT [NAME=VALUE...] COMMAND... -- [NAME=VALUE...] COMMAND...
 *
 * Runs two commands in turn, COUNT times each, so that other load on the machine affects both equally.
 * Prints wall and CPU time of both and their ratio. CPU time is more reliable than wall time on a busy
 * machine. The commands' output is discarded. If a command fails, the program ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct command {
	char **env, **argv; /* env: assignments of variables; they end where argv begins */
	double *wall, *cpu; /* milliseconds */
} command;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double to_ms(struct timeval t)
{
	return (double)t.tv_sec * 1e3 + (double)t.tv_usec * 1e-3;
}

static void run(const command *c, int i)
{
	double start = now_ms();
	pid_t pid = fork();
	struct rusage used;
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
	if (pid < 0 || wait4(pid, &status, 0, &used) < 0 || status) {
		fprintf(stderr, "interleave: %s failed\n", c->argv[0]);
		exit(1);
	}
	c->wall[i] = now_ms() - start;
	c->cpu[i] = to_ms(used.ru_utime) + to_ms(used.ru_stime);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Prints times and returns their median. */
static double report(const char *what, double *ms, int count)
{
	qsort(ms, (size_t)count, sizeof(*ms), ascending);
	printf("%s: min %.2f  median %.2f  p90 %.2f ms\n", what, ms[0], ms[count / 2], ms[count * 9 / 10]);
	return ms[count / 2];
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
		c[k].wall = calloc((size_t)count, sizeof(double));
		c[k].cpu = calloc((size_t)count, sizeof(double));
		if (!c[k].wall || !c[k].cpu || !*c[k].argv)
			return 2;
		run(&c[k], 0); /* warm caches */
	}
	for (int i = 0; i < count; i++)
		for (int k = 0; k < 2; k++)
			run(&c[(i + k) % 2], i);
	double wall = report("1: wall", c[0].wall, count) / report("2: wall", c[1].wall, count);
	double cpu = report("1: CPU", c[0].cpu, count) / report("2: CPU", c[1].cpu, count);
	printf("ratio of medians: wall %.3f, CPU %.3f\n", wall, cpu);
	for (int k = 0; k < 2; k++) {
		free(c[k].wall);
		free(c[k].cpu);
	}
	return 0;
}
