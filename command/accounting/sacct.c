/* SPDX-License-Identifier: Apache-2.0 */
#include "accounting/sacct.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

enum { PATIENCE_MS = 600000, NOT_FOUND = 127, COMPLAINT = 400 };

typedef struct sacct {
	pid_t child;
	int out, err;
	char said[1024]; /* start of sacct's error output */
	p4d_text complaint;
	bool silent; /* sacct has printed nothing for too long */
} sacct;

/* Runs sacct in the child process. */
static void become_sacct(const char *const *words, const int out[2], const int err[2])
{
	int null = open("/dev/null", O_RDONLY);

	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0 &&
	    dup2(err[1], STDERR_FILENO) >= 0 && setenv("SLURM_TIME_FORMAT", "%s", 1) == 0 &&
	    setenv("LC_ALL", "C", 1) == 0)
		execvp(words[0], (char **)words);
	_exit(NOT_FOUND);
}

static int start(sacct *s, const char *const *words, p4d_error *err)
{
	int out[2], complaint[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return p4d_fail(err, P4D_E_IO, "a pipe from sacct: %s", strerror(errno));
	if (pipe2(complaint, O_CLOEXEC) < 0) {
		close(out[0]);
		close(out[1]);
		return p4d_fail(err, P4D_E_IO, "a pipe from sacct: %s", strerror(errno));
	}
	s->child = fork();
	if (s->child == 0)
		become_sacct(words, out, complaint);
	const int why = errno;
	close(out[1]);
	close(complaint[1]);
	s->out = out[0];
	s->err = complaint[0];
	if (s->child > 0)
		return 0;
	close(out[0]);
	close(complaint[0]);
	return p4d_fail(err, P4D_E_IO, "sacct cannot be started: %s", strerror(why));
}

/* Reads from the pipe. False: the pipe has ended. */
static bool read_some(int from, char *some, size_t size, size_t *length)
{
	ssize_t got = read(from, some, size);

	*length = got > 0 ? (size_t)got : 0;
	return got > 0 || (got < 0 && errno == EINTR);
}

/* Reads until both pipes end, or until the sink needs no more. */
static void read_all(sacct *s, p4d_sacct__sink *sink, void *context)
{
	struct pollfd ready[2] = {{.fd = s->out, .events = POLLIN}, {.fd = s->err, .events = POLLIN}};
	static char some[1 << 16];
	bool wants = true;
	size_t length;

	while (wants && (ready[0].fd >= 0 || ready[1].fd >= 0)) {
		const int got = poll(ready, 2, PATIENCE_MS);
		if (got < 0 && errno == EINTR)
			continue;
		s->silent = got == 0;
		if (got <= 0)
			return;
		if (ready[0].revents) {
			if (!read_some(s->out, some, sizeof(some), &length))
				ready[0].fd = -1;
			wants = !length || sink(context, some, length);
		}
		if (ready[1].revents) {
			if (!read_some(s->err, some, sizeof(some), &length))
				ready[1].fd = -1;
			p4d_text_add_bytes(&s->complaint, some, length);
		}
	}
}

/* The first line of sacct's standard error, without the program's name. */
static const char *complaint_of(sacct *s, char line[COMPLAINT])
{
	static const char *const prefixes[] = {"sacct: ", "fatal: ", "error: "};
	p4d_text text = p4d_text_in(line, COMPLAINT);
	char *said = s->said;

	*line = '\0';
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(said, prefixes[i], strlen(prefixes[i])))
			said += strlen(prefixes[i]);
	said[strcspn(said, "\n")] = '\0';
	p4d_text_escaped(&text, said);
	return line;
}

/* Prints the error output of a sacct that succeeds, because it may have seen only a part of the jobs.
 * Prints each text only once, because p4d runs sacct often. */
static void pass_on(const char *complaint)
{
	static char last[COMPLAINT];

	if (!*complaint || !strcmp(complaint, last))
		return;
	snprintf(last, sizeof(last), "%s", complaint);
	fprintf(stderr, "p4d: sacct: %s\n", complaint);
}

static int finish(sacct *s, bool ended, p4d_error *err)
{
	char complaint[COMPLAINT];
	int status = 0;

	close(s->out);
	close(s->err);
	if (!ended)
		kill(s->child, SIGKILL);
	while (waitpid(s->child, &status, 0) < 0)
		if (errno != EINTR)
			break;
	if (s->silent)
		return p4d_fail(err, P4D_E_IO, "sacct printed nothing for %d minutes", PATIENCE_MS / 60000);
	if (!ended || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
		pass_on(complaint_of(s, complaint));
		return 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND && !s->said[0]) {
		p4d_fail(err, P4D_E_IO, "sacct is not in PATH, so p4d cannot ask Slurm's accounting");
		return p4d_fix(err, "run p4d where sacct works, such as a login node");
	}
	complaint_of(s, complaint);
	return p4d_fail(err, P4D_E_IO, "sacct: %s", *complaint ? complaint : "it failed without a message");
}

typedef struct counted {
	p4d_sacct__sink *sink;
	void *context;
	bool enough;
} counted;

static bool count(void *context, const char *bytes, size_t length)
{
	counted *c = context;

	c->enough = !c->sink(c->context, bytes, length);
	return !c->enough;
}

int p4d_sacct__run(const char *const *words, p4d_sacct__sink *sink, void *context, p4d_error *err)
{
	sacct s = {.child = -1};
	counted c = {sink, context, false};

	s.complaint = p4d_text_in(s.said, sizeof(s.said));
	if (start(&s, words, err) < 0)
		return -1;
	read_all(&s, count, &c);
	return finish(&s, !c.enough && !s.silent, err);
}

typedef struct whole {
	p4d_text text;
	size_t most;
} whole;

static bool add(void *context, const char *bytes, size_t length)
{
	whole *w = context;

	p4d_text_add_bytes(&w->text, bytes, length);
	return w->text.length < w->most && !w->text.truncated;
}

char *p4d_sacct__output(const char *const *words, size_t most, p4d_error *err)
{
	whole w = {.text = {.grows = true}, .most = most};

	p4d_text_add(&w.text, "");
	int rc = p4d_sacct__run(words, add, &w, err);
	if (rc == 0 && w.text.truncated)
		rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for what sacct prints");
	if (rc == 0)
		return w.text.at;
	free(w.text.at);
	return NULL;
}
