/* SPDX-License-Identifier: Apache-2.0 */
#include "run/local_ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run/rank_error.h"
#include "run/stop.h"

enum { MOST = 250, GRACE_SECONDS = 5, GRACE_KILLED_SECONDS = 1 };

static pid_t child[MOST]; /* 0: the process has ended */
static uint32_t children;
static volatile sig_atomic_t
    ending; /* 1: this process is killing the remaining ranks, so their ends do not count as failures */

static void pass_on(int number)
{
	const int saved = errno;

	for (uint32_t i = 0; i < children; i++)
		if (child[i] > 0)
			number == SIGKILL ? (void)kill(child[i], number) : p4d_stop_pass(child[i], number);
	errno = saved;
}

/*
 * Passes on a signal that a process sent. The kernel sends Ctrl-C of a terminal to all processes of the
 * group, so the children have that already.
 */
static void pass_on_sent(int number, siginfo_t *info, void *unused)
{
	(void)unused;
	if (info->si_code != SI_KERNEL)
		pass_on(number);
}

static void kill_rest(void)
{
	ending = 1;
	pass_on(SIGKILL);
}

static void on_signal(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

static void pass_signals(void)
{
	struct sigaction action = {.sa_sigaction = pass_on_sent, .sa_flags = SA_RESTART | SA_SIGINFO}, before;

	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}

static _Noreturn void be_rank(uint32_t rank, pid_t parent, const sigset_t *mask, p4d_local_work work,
			      void *context)
{
	/*
	 * From here on, a request to stop is remembered until the rank is ready, and does not kill the rank.
	 */
	p4d_stop_catch();
	on_signal(SIGALRM, SIG_DFL);
	children = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(P4D_E_RANK); /* the parent died before that */
	sigprocmask(SIG_SETMASK, mask, NULL);
	exit(work(rank, context));
}

static void time_is_up(int number)
{
	(void)number;
	kill_rest();
}

static int status_of(int status)
{
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

static void note_killed(uint32_t rank, pid_t pid, int number, p4d_error *killed)
{
	char host[65] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		snprintf(host, sizeof(host), "this host");
	p4d_fail(killed, P4D_E_RANK,
		 "rank %u (%s) ended unexpectedly: process %d was killed by signal %d (%s)", rank, host,
		 (int)pid, number, strsignal(number));
}

/*
 * Waits for all ranks; returns the exit status of the run. *killed: names the first rank that another process
 * killed; code 0: none was.
 */
static int wait_for_all(p4d_error *killed)
{
	int result = 0, status = 0;
	pid_t ended;

	while ((ended = waitpid(-1, &status, 0)) > 0 || errno == EINTR) {
		uint32_t at = 0;
		while (at < children && child[at] != ended)
			at++;
		if (ended <= 0 || at == children)
			continue;
		child[at] = 0;
		int one = status_of(status);
		if (!one)
			continue;
		if (WIFSIGNALED(status) && !ending && !killed->code) {
			note_killed(at, ended, WTERMSIG(status), killed);
			alarm(GRACE_KILLED_SECONDS);
		} else if (!result) {
			alarm(GRACE_SECONDS);
		}
		const bool from_here = ending && WIFSIGNALED(status);
		if (!result || (result == P4D_E_RANK && !from_here))
			result = one;
	}
	alarm(0);
	return result;
}

int p4d_local_ranks(uint32_t count, p4d_local_work work, void *context, p4d_error *err)
{
	const pid_t parent = getpid();
	sigset_t asking, before;
	p4d_error killed = {.code = P4D_OK};

	if (!count || count > MOST)
		return p4d_fail(err, P4D_E_VALUE, "%u local ranks, expected 1 to %d", count, MOST);
	if (p4d_rank_listen(err) < 0)
		return -1;
	ending = 0;
	pass_signals();
	on_signal(SIGALRM, time_is_up);
	/*
	 * blocked, because a signal that comes between a fork and the entry in child[] would not be passed on
	 */
	sigemptyset(&asking);
	sigaddset(&asking, SIGTERM);
	sigaddset(&asking, SIGINT);
	sigaddset(&asking, SIGUSR1);
	sigaddset(&asking, SIGHUP);
	sigprocmask(SIG_BLOCK, &asking, &before);
	for (uint32_t i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid == 0)
			be_rank(i, parent, &before, work, context);
		if (pid < 0) {
			sigprocmask(SIG_SETMASK, &before, NULL);
			p4d_fail(err, P4D_E_RANK, "fork of rank %u: %s", i, strerror(errno));
			kill_rest();
			wait_for_all(&killed);
			children = 0;
			return -1;
		}
		child[i] = pid;
		children = i + 1;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	int result = wait_for_all(&killed);
	p4d_rank_conclude(killed.code ? &killed : NULL);
	children = 0;
	return result;
}
