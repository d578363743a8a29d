/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends processes that a program leaves running, even in other process groups, such as services that it
 * starts.
 */
#include "rehearse/strays.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The children of this process; returns their number, at most `most`. */
static size_t children(pid_t *out, size_t most)
{
	char path[64];
	size_t count = 0;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *in = fopen(path, "re");
	while (in && count < most && fscanf(in, "%d", &pid) == 1)
		out[count++] = pid;
	if (in)
		fclose(in);
	return count;
}

void p4d_strays__begin(p4d_strays *strays)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	strays->count = children(strays->own, sizeof(strays->own) / sizeof(strays->own[0]));
}

static bool is_own(const p4d_strays *strays, pid_t pid)
{
	for (size_t i = 0; i < strays->count; i++)
		if (strays->own[i] == pid)
			return true;
	return false;
}

/* Repeats until no child is left that it must end: when a process ends, its own children become children
 * of this process. */
void p4d_strays__end(const p4d_strays *strays)
{
	enum { ROUNDS = 200, MOST = 256 };
	const struct timespec nap = {.tv_nsec = 5000000};
	pid_t pid[MOST];

	if (strays->count == sizeof(strays->own) / sizeof(strays->own[0]))
		return; /* too many children, of which only some are known */
	for (int round = 0; round < ROUNDS; round++) {
		const size_t count = children(pid, MOST);
		size_t others = 0;
		for (size_t i = 0; i < count; i++) {
			if (is_own(strays, pid[i]))
				continue;
			others++;
			kill(pid[i], SIGKILL);
			waitpid(pid[i], NULL, WNOHANG);
		}
		if (!others)
			return;
		nanosleep(&nap, NULL);
	}
}
