/* SPDX-License-Identifier: Apache-2.0 */
#include "support/launched.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double LOOK_SECONDS = 2e-4;

double launched_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void launched_sleep(double seconds)
{
	struct timespec t = {.tv_sec = (time_t)seconds};

	t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
	nanosleep(&t, NULL);
}

static void redirect(const char *path, int to)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	if (fd < 0 || dup2(fd, to) < 0) {
		perror(path);
		_exit(126);
	}
	close(fd);
}

void launched_start(launched *l, char *const argv[], const char *output, const char *errors)
{
	const pid_t parent = getpid();

	*l = (launched){.pid = fork()};
	if (l->pid < 0) {
		perror("fork");
		exit(1);
	}
	if (l->pid > 0)
		return;
	/* no process outlives a test that fails */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	redirect(output, STDOUT_FILENO);
	redirect(errors, STDERR_FILENO);
	execv(argv[0], argv);
	perror(argv[0]);
	_exit(126);
}

bool launched_ended(launched *l)
{
	if (!l->ended)
		l->ended = waitpid(l->pid, &l->status, WNOHANG) == l->pid;
	return l->ended;
}

/* Lists the children of a process in the order in which they were forked. */
static uint32_t children_of(pid_t pid, pid_t *child, uint32_t most)
{
	char path[64];
	uint32_t count = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	FILE *file = fopen(path, "re");
	while (file && count < most && fscanf(file, "%d", &child[count]) == 1)
		count++;
	if (file)
		fclose(file);
	return count;
}

bool launched_wait_ranks(launched *l, uint32_t ranks)
{
	while ((l->ranks = children_of(l->pid, l->rank, LAUNCHED_RANKS)) < ranks) {
		if (launched_ended(l))
			return false;
		launched_sleep(LOOK_SECONDS);
	}
	return true;
}

static bool is_there(pid_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH;
}

bool launched_gone(launched *l, double seconds)
{
	const double deadline = launched_now() + seconds;

	for (;;) {
		bool gone = launched_ended(l);
		for (uint32_t i = 0; i < l->ranks; i++)
			gone = gone && !is_there(l->rank[i]);
		if (gone)
			return true;
		if (launched_now() > deadline)
			return false;
		launched_sleep(LOOK_SECONDS);
	}
}

int launched_status(const launched *l)
{
	return WIFSIGNALED(l->status) ? 128 + WTERMSIG(l->status) : WEXITSTATUS(l->status);
}
