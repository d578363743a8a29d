/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts name files of their user, so a separate process with only the rights of that user judges them.
 * If root runs p4d, the process takes the rights of that user (or of nobody, if the user does not exist).
 * Otherwise it keeps the rights of the caller. If a script makes this process end or hang, p4d does not
 * judge the script, and a new process continues with the next one.
 */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backtest/backtest.h"
#include "base/text.h"

enum { PATIENCE_MS = 60000, NOBODY = 65534 };

typedef struct owner {
	uid_t uid;
	gid_t gid;
	char home[PATH_MAX];
	bool known; /* the process may read files of this user */
	bool other; /* the scripts are of another user than the one who runs p4d */
	bool gives; /* root runs p4d, and gives the process this user's rights */
} owner;

static owner owner_of(const char *name)
{
	const struct passwd *user = getpwnam(name);
	owner o = {.uid = getuid(), .gid = getgid(), .known = true};

	o.gives = getuid() == 0 || geteuid() == 0;
	if (o.gives) {
		o.known = user;
		o.uid = user ? user->pw_uid : NOBODY;
		o.gid = user ? user->pw_gid : NOBODY;
	}
	o.other = !user || user->pw_uid != getuid();
	snprintf(o.home, sizeof(o.home), "%s", user ? user->pw_dir : "/nonexistent");
	return o;
}

/* Takes the owner's rights in the child process. False: it still has other rights. */
static bool become(const owner *o, const char *name)
{
	static const char *const places[] = {"HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"};

	if (!o->other)
		return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		unsetenv(places[i]);
	if (setenv("HOME", o->home, 1) < 0 || setenv("USER", name, 1) < 0 || setenv("LOGNAME", name, 1) < 0)
		return false;
	if (!o->gives)
		return true;
	if ((o->known ? initgroups(name, o->gid) : setgroups(0, NULL)) < 0 ||
	    setresgid(o->gid, o->gid, o->gid) < 0 || setresuid(o->uid, o->uid, o->uid) < 0)
		return false;
	/* other processes of this user must not read this process's memory, which has scripts of other
	 * users */
	return prctl(PR_SET_DUMPABLE, 0) == 0 && geteuid() == o->uid && getegid() == o->gid && setuid(0) < 0;
}

static bool send_result(int to, const p4d_backtest_result *result)
{
	const char *at = (const char *)result;
	size_t left = sizeof(*result);

	while (left) {
		const ssize_t sent = write(to, at, left);
		if (sent < 0 && errno != EINTR)
			return false;
		at += sent > 0 ? sent : 0;
		left -= sent > 0 ? (size_t)sent : 0;
	}
	return true;
}

/* Sets HF_HOME, in which the job's models are. A job without HF_HOME gets the value of this process. */
static void take_hub(const p4d_backtest_case *c, const char *own)
{
	static const char name[] = "HF_HOME=";
	const char *at = c->environment ? strstr(c->environment, name) : NULL;
	char value[PATH_MAX];

	if (own)
		setenv("HF_HOME", own, 1);
	else
		unsetenv("HF_HOME");
	if (!at || (at != c->environment && at[-1] != '\n'))
		return;
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + sizeof(name) - 1, "\n"),
		 at + sizeof(name) - 1);
	setenv("HF_HOME", value, 1);
}

/* Runs in the child process: does all work, beginning with item `from`. */
static void do_work(const p4d_backtest *b, const p4d_backtest_work *work, const owner *o, size_t from, int to)
{
	p4d_backtest_result result;
	char *hub = getenv("HF_HOME") ? strdup(getenv("HF_HOME")) : NULL;

	for (size_t i = from; i < work->count + work->output_count; i++) {
		memset(&result, 0, sizeof(result)); /* zeroed, because padding is sent as well */
		if (i >= work->count) {
			result.said =
			    o->known && p4d_backtest__says_out_of_memory(&work->outputs[i - work->count]);
		} else {
			const p4d_backtest_case *c = &work->cases[i];
			const bool there = o->known && chdir(c->job->work_dir) == 0;
			if (!there && chdir("/") < 0)
				return;
			take_hub(c, hub);
			p4d_backtest__judge(b, c, o->known, &result);
		}
		if (!send_result(to, &result))
			return;
	}
}

static pid_t start(const p4d_backtest *b, const p4d_backtest_work *work, const owner *o, size_t from,
		   int *results)
{
	int ends[2];

	fflush(stdout);
	if (pipe(ends) < 0)
		return -1;
	const pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		if (become(o, work->user))
			do_work(b, work, o, from, ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*results = ends[0];
	if (child < 0)
		close(ends[0]);
	return child;
}

/* Receives a whole result in time. False: the process has ended, or hangs. */
static bool receive(int from, p4d_backtest_result *result)
{
	char *at = (char *)result;
	size_t left = sizeof(*result);

	while (left) {
		struct pollfd ready = {.fd = from, .events = POLLIN};
		const int got = poll(&ready, 1, PATIENCE_MS);
		if (got < 0 && errno == EINTR)
			continue;
		const ssize_t length = got > 0 ? read(from, at, left) : -1;
		if (length < 0 && got > 0 && errno == EINTR)
			continue;
		if (length <= 0)
			return false;
		at += length;
		left -= (size_t)length;
	}
	return true;
}

static void settle_flag(bool *flag)
{
	unsigned char byte;

	memcpy(&byte, flag, sizeof(byte));
	*flag = byte != 0;
}

/* Checks a result before it is used, because a process with a user's rights sent it: texts must end and
 * must not control a terminal, and numbers must be in range. */
static void settle(p4d_backtest_result *r)
{
	bool *const flags[] = {&r->by_task, &r->above_limit, &r->said};

	p4d_text_escape_in_place(r->model, sizeof(r->model));
	p4d_text_escape_in_place(r->framework, sizeof(r->framework));
	p4d_text_escape_in_place(r->gpu, sizeof(r->gpu));
	p4d_text_escape_in_place(r->options, sizeof(r->options));
	p4d_text_escape_in_place(r->place, sizeof(r->place));
	p4d_text_escape_in_place(r->text, sizeof(r->text));
	p4d_text_escape_in_place(r->reason, sizeof(r->reason));
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		settle_flag(flags[i]);
	for (size_t i = 0; i < P4D_BACKTEST_LIMITS; i++)
		settle_flag(&r->refused_at[i]);
	if ((unsigned)r->verdict >= P4D_BACKTEST_VERDICTS)
		r->verdict = P4D_BACKTEST_NOT_JUDGED;
	if ((unsigned)r->stage >= P4D_BACKTEST_STAGES)
		r->stage = P4D_BACKTEST_STORED;
	if ((unsigned)r->code > 125)
		r->code = P4D_OK;
	if (!isfinite(r->fraction))
		r->fraction = -1;
}

static void leave(p4d_backtest_result *r)
{
	*r = (p4d_backtest_result){
	    .verdict = P4D_BACKTEST_NOT_JUDGED,
	    .stage = P4D_BACKTEST_STORED,
	    .fraction = -1,
	    .reason = "p4d crashed while it read this script, or a file could not be read within a minute"};
}

int p4d_backtest__of_owner(const p4d_backtest *b, const p4d_backtest_work *work, p4d_backtest_result *result,
			   p4d_error *err)
{
	const size_t all = work->count + work->output_count;
	const owner o = owner_of(work->user);
	size_t at = 0;

	while (at < all) {
		int from;
		const pid_t child = start(b, work, &o, at, &from);
		if (child < 0)
			return p4d_fail(err, P4D_E_IO, "cannot start a process for the scripts of %.60s: %s",
					work->user, strerror(errno));
		while (at < all && receive(from, &result[at]))
			settle(&result[at++]);
		close(from);
		if (at < all)
			kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0)
			if (errno != EINTR)
				break;
		if (at < all)
			leave(&result[at++]);
	}
	return 0;
}
