/* SPDX-License-Identifier: Apache-2.0 */
#include "run/stop.h"

#include <signal.h>
#include <stddef.h>

enum { PASSED = 0x704d };

static volatile sig_atomic_t asked, sent,
    passed; /* number of SIGINTs; passed: from p4d_stop_pass; sent: from all other senders */

/*
 * Handles the signals. A SIGINT to the process group arrives twice: from its sender and from the parent, in
 * any order.
 */
static void ask(int number, siginfo_t *info, void *unused)
{
	(void)unused;
	asked = number;
	if (number != SIGINT)
		return;
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == PASSED)
		passed++;
	else
		sent++;
	if (sent > 1 || passed > 1) {
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
}

void p4d_stop_pass(pid_t to, int number)
{
	if (sigqueue(to, number, (union sigval){.sival_int = PASSED}) < 0)
		kill(to, number);
}

void p4d_stop_catch(void)
{
	struct sigaction catch = {.sa_sigaction = ask, .sa_flags = SA_RESTART | SA_SIGINFO};
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

	sigemptyset(&catch.sa_mask);
	sigemptyset(&ignore.sa_mask);
	sigaction(SIGTERM, &catch, NULL);
	sigaction(SIGINT, &catch, NULL);
	sigaction(SIGUSR1, &catch, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGXFSZ, &ignore, NULL); /* a write that exceeds the file size limit then fails with EFBIG,
					      and the message names the file */
	/* if the process ignores SIGHUP, someone wants that, for instance nohup */
	if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &catch, NULL);
}

int p4d_stop_asked(void)
{
	return (int)asked;
}

const char *p4d_stop_name(int number)
{
	switch (number) {
	case SIGTERM:
		return "SIGTERM";
	case SIGINT:
		return "SIGINT";
	case SIGHUP:
		return "SIGHUP";
	case SIGUSR1:
		return "SIGUSR1";
	default:
		return "a signal";
	}
}
