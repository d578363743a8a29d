/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_submit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

enum { WORDS = 512 };

/* Appends a text as one quoted word of a shell command. */
static void add_quoted(p4d_text *text, const char *word)
{
	p4d_text_add(text, " '");
	for (; *word; word++)
		p4d_text_add_bytes(text, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
	p4d_text_add(text, "'");
}

/* Writes the command that the user typed, without --submit. Words after the script belong to the script. */
static int write_command(p4d_text *text, const char *script, int argc, char *argv[], p4d_error *err)
{
	char program[PATH_MAX];
	bool before = true;
	const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length < 0)
		return p4d_fail(err, P4D_E_IO, "/proc/self/exe: %s", strerror(errno));
	program[length] = '\0';
	p4d_text_add(text, "exec");
	add_quoted(text, program);
	add_quoted(text, "rehearse");
	for (int i = 1; i < argc; i++) {
		before = before && argv[i] != script;
		if (!before || (strcmp(argv[i], "--submit") != 0 &&
				strncmp(argv[i], "--submit=", strlen("--submit=")) != 0))
			add_quoted(text, argv[i]);
	}
	return text->truncated ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the job's command") : 0;
}

static void run(char *const words[], int out)
{
	dup2(out, STDOUT_FILENO);
	execvp(words[0], words);
	fprintf(stderr, "p4d: %s: %s\n", words[0], strerror(errno));
	_exit(127);
}

/* Runs sbatch --parsable and reads the job's number. */
static int submit(char *const words[], char *id, size_t size, p4d_error *err)
{
	int pipes[2], status = -1;
	size_t length = 0;
	ssize_t got = 0;

	fflush(NULL);
	if (pipe(pipes))
		return p4d_fail(err, P4D_E_IO, "sbatch: %s", strerror(errno));
	const pid_t child = fork();
	if (!child)
		run(words, pipes[1]);
	close(pipes[1]);
	while (length + 1 < size && (got = read(pipes[0], id + length, size - 1 - length)) > 0)
		length += (size_t)got;
	close(pipes[0]);
	id[length] = '\0';
	id[strspn(id, "0123456789")] = '\0';
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child < 0 || status || !*id)
		return p4d_fail(err, P4D_E_IO, "sbatch did not submit the job");
	return 0;
}

static int submit_rehearsal(const p4d_rehearse_options *o, char *command, char *id, size_t size,
			    p4d_error *err)
{
	char partition[256],
	    *words[] = {"sbatch", "--parsable", "--job-name=p4d-rehearse", "--wrap", command, NULL, NULL};

	snprintf(partition, sizeof(partition), "--partition=%s", o->submit);
	if (*o->submit)
		words[5] = partition;
	return submit(words, id, size, err);
}

static int submit_job(const p4d_rehearse_options *o, const char *after, char *id, size_t size, p4d_error *err)
{
	char dependency[64],
	    *words[WORDS] = {"sbatch", "--parsable", dependency, "--kill-on-invalid-dep=yes"};
	size_t count = 4;

	snprintf(dependency, sizeof(dependency), "--dependency=afterok:%s", after);
	for (unsigned i = 0; i < o->typed_count; i++)
		words[count++] = o->typed[i];
	words[count++] = (char *)o->script;
	for (char **word = o->program; *word; word++) {
		if (count + 1 == WORDS)
			return p4d_fail(err, P4D_E_USAGE, "more than %d arguments", WORDS);
		words[count++] = *word;
	}
	return submit(words, id, size, err);
}

static void cancel(char *id)
{
	char *const words[] = {"scancel", id, NULL};
	const pid_t child = fork();

	if (!child)
		run(words, STDERR_FILENO);
	if (child > 0)
		waitpid(child, NULL, 0);
}

int p4d_rehearse__submit(const p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err)
{
	char rehearsal[32], job[32];
	p4d_text command = {.grows = true};
	int rc = -1;

	if (!o->script)
		return p4d_fail(err, P4D_E_USAGE, "--submit takes a job script, not a program");
	if (!write_command(&command, o->script, argc, argv, err) &&
	    !submit_rehearsal(o, command.at, rehearsal, sizeof(rehearsal), err)) {
		rc = submit_job(o, rehearsal, job, sizeof(job), err);
		if (rc)
			cancel(rehearsal);
		else
			printf("Job %s rehearses %s. If it fits, job %s runs it.\n", rehearsal, o->script,
			       job);
	}
	free(command.at);
	return rc;
}
