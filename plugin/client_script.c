/* SPDX-License-Identifier: Apache-2.0 */
#include "client_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client_option.h"
#include "slurm_compat.h"

enum { SCRIPT_MAX_BYTES = 4 << 20, WORDS_MAX_BYTES = 1 << 20 };

/* Reads a whole regular file. NULL: another type, too large or unreadable. */
static char *read_file(const char *path, size_t *length)
{
	const int fd = p4d_file_open(path);
	struct stat st;
	char *text = NULL;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		text = p4d_file_read(fd, SCRIPT_MAX_BYTES, length);
	close(fd);
	return text;
}

/*
 * Reads the script of `sbatch < job.sh`. sbatch has already read the file, so p4d reads it again from its
 * start. A pipe has no data any more, but slurmctld sees its script.
 */
static char *read_standard_input(size_t *length)
{
	const off_t end = lseek(STDIN_FILENO, 0, SEEK_CUR);
	struct stat st;

	if (end <= 0 || fstat(STDIN_FILENO, &st) < 0 || !S_ISREG(st.st_mode) ||
	    lseek(STDIN_FILENO, 0, SEEK_SET) < 0)
		return NULL;
	char *text = p4d_file_read(STDIN_FILENO, SCRIPT_MAX_BYTES, length);
	lseek(STDIN_FILENO, end, SEEK_SET);
	return text;
}

/* Reads the script in " SCRIPT ARGUMENT...", and leaves only its name in `line`. The name may contain or
 * end with a blank. */
static char *read_script(char *line, size_t *length)
{
	char *text = NULL;

	for (char *at = line; at && !text;) {
		at = strchr(at + 1, ' ');
		if (at)
			*at = '\0';
		text = read_file(line + (*line == ' '), length);
		if (at && !text)
			*at = ' ';
	}
	return text;
}

void p4d_client_script_open(p4d_client_script *script)
{
	*script = (p4d_client_script){.text = NULL};
	/* srun has no argv yet, and would crash */
	if (spank_context() != S_CTX_ALLOCATOR || p4d_client_is_salloc())
		return;
	char *wrap = p4d_client_option("wrap");
	if (wrap) {
		const int length = asprintf(&script->text, "#!/bin/sh\n%s\n",
					    wrap); /* as Slurm makes the script of --wrap */
		script->text = length < 0 ? NULL : script->text;
		script->length = length < 0 ? 0 : (size_t)length;
		script->name = strdup("--wrap");
		free(wrap);
		return;
	}
	script->name = p4d_client_option("argv");
	if (script->name && *script->name) {
		const size_t all = strlen(script->name);
		script->text = read_script(script->name, &script->length);
		script->rest = all - strlen(script->name);
		script->is_file = true;
		return;
	}
	script->text = read_standard_input(&script->length);
	free(script->name);
	script->name = strdup("stdin");
}

bool p4d_client_script_has_option(const p4d_client_script *script)
{
	/* read_script() ended the name before the first argument */
	return script->text && script->rest && strstr(script->name + strlen(script->name) + 1, "--p4d-");
}

/* Reads the words of this process's command line, each with its NUL. NULL: they cannot be read. */
static char *read_words(size_t *length)
{
	const int fd = p4d_file_open("/proc/self/cmdline");
	char *words = fd < 0 ? NULL : p4d_file_read(fd, WORDS_MAX_BYTES, length);

	if (fd >= 0)
		close(fd);
	return words;
}

/* Writes " 'WORD'", quoted for a shell; returns the end of the text. */
static char *quote(char *to, const char *word)
{
	to = stpcpy(to, " '");
	for (; *word; word++) {
		if (*word == '\'')
			to = stpcpy(to, "'\\'");
		*to++ = *word;
	}
	return stpcpy(to, "'");
}

bool p4d_client_script_of_srun(p4d_client_script *script)
{
	static const char first[] = "#!/bin/sh\nsrun";
	size_t length = 0;

	*script = (p4d_client_script){.words = read_words(&length)};
	script->words_length = length;
	if (!script->words)
		return false;
	script->name = strdup("srun");
	script->arguments = calloc(1, sizeof(*script->arguments));
	/* room for the quoted text, even if every word consists of quotes */
	script->text = malloc(sizeof(first) + 7 * length + 1);
	if (!script->name || !script->arguments || !script->text)
		return false;
	char *end = stpcpy(script->text, first);
	for (size_t at = strlen(script->words) + 1; at < length; at += strlen(script->words + at) + 1)
		end = quote(end, script->words + at);
	script->length = (size_t)(stpcpy(end, "\n") - script->text);
	return true;
}

/* Shortens the script's path to the name that the user typed; Slurm puts the directory before it. */
static void shorten_name(char *name, const char *typed)
{
	const size_t all = strlen(name), end = strlen(typed);

	if (end && end <= all && !strcmp(name + all - end, typed))
		memmove(name, typed, end + 1);
}

/*
 * The arguments are the last words of the command line; in Slurm's text, each follows a blank. Returns a list
 * of them.
 */
static const char **cut_arguments(const p4d_client_script *script)
{
	const size_t length = script->words_length;
	const char **word = calloc(length + 2, sizeof(*word));
	size_t count = 0, rest = script->rest;

	for (size_t at = 0; word && at < length; at += strlen(script->words + at) + 1)
		word[count++] = script->words + at;
	size_t first = count;
	while (word && first && rest && strlen(word[first - 1]) < rest)
		rest -= strlen(word[--first]) + 1;
	if (rest || !word) {
		free(word);
		return NULL;
	}
	if (script->is_file && first)
		shorten_name(script->name, word[first - 1]);
	memmove(word, word + first, (count - first + 1) * sizeof(*word));
	return word;
}

void p4d_client_script_name(p4d_client_script *script)
{
	if (!script->name || !script->text || script->words)
		return;
	if (*script->name == ' ')
		memmove(script->name, script->name + 1, strlen(script->name));
	script->words = read_words(&script->words_length);
	if (script->words)
		script->arguments = cut_arguments(script);
}

void p4d_client_script_free(p4d_client_script *script)
{
	free(script->text);
	free(script->name);
	free(script->words);
	free(script->arguments);
	*script = (p4d_client_script){.text = NULL};
}
