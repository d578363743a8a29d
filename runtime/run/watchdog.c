/* SPDX-License-Identifier: Apache-2.0 */
#include "run/watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* The message. It is formatted in advance, because a signal handler may write but not format. */
static char line[400];
static char watched[200];
static volatile sig_atomic_t length;
static uint64_t patience;

static void expire(int number)
{
	(void)number;
	/* nothing can be done if the write fails */
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		_exit(P4D_E_IO);
	_exit(P4D_E_RANK);
}

static int set_timer(uint64_t seconds)
{
	struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};

	return setitimer(ITIMER_REAL, &timer, NULL);
}

int p4d_watchdog_arm(uint64_t seconds, const char *who, p4d_error *err)
{
	struct sigaction action = {.sa_handler = expire};

	patience = seconds;
	if (!seconds)
		return 0;
	snprintf(watched, sizeof(watched), "%s", who);
	sigemptyset(&action.sa_mask);
	p4d_watchdog_kick("start");
	if (sigaction(SIGALRM, &action, NULL) < 0 || set_timer(seconds) < 0)
		return p4d_fail(err, P4D_E_IO, "watchdog: %s", strerror(errno));
	return 0;
}

void p4d_watchdog_kick(const char *what)
{
	if (!patience)
		return;
	set_timer(0); /* the timer must not fire while the line changes */
	int written =
	    snprintf(line, sizeof(line), "p4d-train: [P4D%03d] %s: no progress in %.80s for %" PRIu64 " s\n",
		     P4D_E_RANK, watched, what, patience);
	length = written < (int)sizeof(line) ? written : (int)sizeof(line) - 1;
	set_timer(patience);
}

void p4d_watchdog_end(void)
{
	if (patience)
		set_timer(0);
	patience = 0;
}
