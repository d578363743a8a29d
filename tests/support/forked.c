/* SPDX-License-Identifier: Apache-2.0 */
#include "support/forked.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

double forked_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void forked_init(forked *f, uint32_t size, const uint32_t *nodes)
{
	p4d_error err;

	memset(f, 0, sizeof(*f));
	f->nodes = nodes;
	f->ends = mmap(NULL, FORKED_MOST * sizeof(*f->ends), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (f->ends == MAP_FAILED || p4d_ranks_local(&f->ranks, size, &err) < 0) {
		perror("forked_init");
		exit(1);
	}
}

/* Restores the default actions of signals. cmocka's handlers would continue with the parent's tests. */
static void crash_as_usual(void)
{
	static const int signals[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_DFL);
}

static int run(forked *f, uint32_t rank, forked_work work)
{
	p4d_ranks ranks = f->ranks;
	forked_end *end = &f->ends[rank];
	p4d_world *world;

	ranks.rank = rank;
	ranks.node = f->nodes ? f->nodes[rank] : 0;
	snprintf(ranks.node_name, sizeof(ranks.node_name), "n%u", ranks.node);
	if (f->change)
		f->change(&ranks);
	if (p4d_world_open(&world, &ranks, &end->err) < 0) {
		end->ended = forked_now();
		return 1;
	}
	end->opened = forked_now();
	int rc = work(world, rank, ranks.size, &end->err);
	end->ended = forked_now();
	p4d_world_close(world);
	return rc ? 1 : 0;
}

void forked_rank(forked *f, uint32_t rank, forked_work work)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		crash_as_usual();
		_exit(run(f, rank, work));
	}
	f->pids[rank] = pid;
}

void forked_start(forked *f, forked_work work)
{
	for (uint32_t r = 0; r < f->ranks.size; r++)
		forked_rank(f, r, work);
}

bool forked_finish(forked *f, double seconds)
{
	double deadline = forked_now() + seconds;
	bool in_time = true;

	for (uint32_t r = 0; r < FORKED_MOST; r++) {
		while (f->pids[r] && waitpid(f->pids[r], &f->status[r], WNOHANG) == 0) {
			if (in_time && forked_now() > deadline) {
				in_time = false;
				fprintf(stderr, "rank %u did not end in %.0f s\n", r, seconds);
			}
			if (!in_time)
				kill(f->pids[r], SIGKILL);
			usleep(1000);
		}
		f->pids[r] = 0;
	}
	return in_time;
}

bool forked_all_well(const forked *f)
{
	bool well = true;

	for (uint32_t r = 0; r < f->ranks.size; r++) {
		if (f->status[r] == 0)
			continue;
		fprintf(stderr, "rank %u of %u ended with %#x: %s\n", r, f->ranks.size, f->status[r],
			f->ends[r].err.text);
		well = false;
	}
	return well;
}
