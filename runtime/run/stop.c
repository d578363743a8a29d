/* SPDX-License-Identifier: Apache-2.0 */
#include "run/stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void ask(int number)
{
	asked = number;
}

void p4d_stop_catch(void)
{
	struct sigaction once = {.sa_handler = ask, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
	struct sigaction always = {.sa_handler = ask, .sa_flags = SA_RESTART};
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

	sigemptyset(&once.sa_mask);
	sigemptyset(&always.sa_mask);
	sigemptyset(&ignore.sa_mask);
	sigaction(SIGTERM, &always, NULL);
	sigaction(SIGINT, &once, NULL);
	sigaction(SIGUSR1, &always, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGXFSZ, &ignore, NULL); /* a write then fails with EFBIG, which says what was too large */
	/* whoever ignores it, as nohup does, means to */
	if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &always, NULL);
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
