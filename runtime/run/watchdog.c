/* SPDX-License-Identifier: Apache-2.0 */
#include "run/watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* The line that a signal handler may only write, not make. */
static char line[400];
static char watched[200];
static volatile sig_atomic_t length;
static uint64_t patience;

static void bite(int number)
{
	(void)number;
	/* there is nothing to do about a line that cannot be written */
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		_exit(P4D_E_IO);
	_exit(P4D_E_RANK);
}

static int wind(uint64_t seconds)
{
	struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};

	return setitimer(ITIMER_REAL, &timer, NULL);
}

int p4d_watchdog_arm(uint64_t seconds, const char *who, p4d_error *err)
{
	struct sigaction action = {.sa_handler = bite};

	patience = seconds;
	if (!seconds)
		return 0;
	snprintf(watched, sizeof(watched), "%s", who);
	sigemptyset(&action.sa_mask);
	p4d_watchdog_kick("start");
	if (sigaction(SIGALRM, &action, NULL) < 0 || wind(seconds) < 0)
		return p4d_fail(err, P4D_E_IO, "watchdog: %s", strerror(errno));
	return 0;
}

void p4d_watchdog_kick(const char *what)
{
	if (!patience)
		return;
	wind(0); /* not while the line changes */
	int written =
	    snprintf(line, sizeof(line), "p4d-train: [P4D%03d] %s: no progress in %.80s for %" PRIu64 " s\n",
		     P4D_E_RANK, watched, what, patience);
	length = written < (int)sizeof(line) ? written : (int)sizeof(line) - 1;
	wind(patience);
}

void p4d_watchdog_end(void)
{
	if (patience)
		wind(0);
	patience = 0;
}
