/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Compares scripts with the commands that bash would start. */
#include "support/support.h"

#include "base/text.h"
#include "shell/shell.h"

typedef struct trace {
	char buf[4096];
	p4d_text text;
} trace;

static const char *variable(void *context, const char *name)
{
	(void)context;
	return !strcmp(name, "HOME")                 ? "/home/u"
	       : !strcmp(name, "LATER")              ? p4d_shell_later
	       : !strcmp(name, "SLURM_NNODES")       ? "2"
	       : !strcmp(name, "SLURM_GPUS_ON_NODE") ? "4"
	       : !strcmp(name, "SLURM_JOB_NODELIST") ? p4d_shell_later
						     : NULL;
}

static const char *file(void *context, const char *path, size_t *length)
{
	static const char text[] = "N=3\nf() { run $1; }\n";

	(void)context;
	if (strcmp(path, "/job/lib.sh") != 0)
		return NULL;
	*length = sizeof(text) - 1;
	return text;
}

/* Writes "<a> <b c>;" for each command, with "?" before a command that may not run. */
static void command(void *context, p4d_shell *shell, const p4d_value *words, size_t count, bool certain)
{
	trace *t = context;
	char word[256];

	(void)shell;
	p4d_text_add(&t->text, certain ? "" : "?");
	for (size_t i = 0; i < count; i++)
		p4d_text_print(&t->text, "<%s>", p4d_value_text(words[i], word, sizeof(word)));
	p4d_text_add(&t->text, ";");
}

static const char *run_limited(trace *t, const char *script, const p4d_shell_limits *limits,
			       const char **stopped)
{
	static const char *const arguments[] = {"one", "two words", NULL};
	const p4d_shell_host host = {t, variable, file, NULL, NULL, command, NULL, NULL};

	t->text = p4d_text_in(t->buf, sizeof(t->buf));
	*stopped = p4d_shell_read(&host, limits, "job.sh", script, strlen(script), arguments, "/job");
	return t->buf;
}

static const char *run_within(trace *t, const char *script, uint64_t work, const char **stopped)
{
	static _Alignas(16) char memory[1 << 20];
	const p4d_shell_limits limits = {memory, sizeof(memory), work};

	return run_limited(t, script, &limits, stopped);
}

static void means(const char *script, const char *wanted)
{
	trace t;
	const char *stopped;
	const char *found = run_within(&t, script, P4D_SHELL_WORK, &stopped);

	if (strcmp(found, wanted) != 0)
		fail_msg("%s\n  is  %s\n  not %s", script, found, wanted);
	assert_null(stopped);
}
