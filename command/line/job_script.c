/* SPDX-License-Identifier: Apache-2.0 */
#include "line/job_script.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int open_in_path(const char *name, char *path, size_t size)
{
	for (const char *at = getenv("PATH"); at && *at; at += strcspn(at, ":"), at += *at == ':') {
		int length = snprintf(path, size, "%.*s/%s", (int)strcspn(at, ":"), at, name);
		int file = length > 0 && (size_t)length < size ? p4d_file_open(path) : -1;
		if (file >= 0)
			return file;
	}
	errno = ENOENT;
	return -1;
}

/*
 * Opens a script relative to `directory`, the value of --chdir (NULL: not given). path gets the full path.
 * -1: it is no regular file.
 */
static int open_script(const char *name, const char *directory, char *path, size_t size, p4d_error *err)
{
	struct stat status;
	int length = name[0] == '/' || !directory ? snprintf(path, size, "%s", name)
						  : snprintf(path, size, "%s/%s", directory, name);

	if (length < 0 || (size_t)length >= size)
		return p4d_fail(err, P4D_E_IO, "%.64s...: the path is too long", name);
	int file = p4d_file_open(path);
	if (file < 0 && errno == ENOENT && !strchr(name, '/')) {
		char found[PATH_MAX];
		file = open_in_path(name, found, sizeof(found));
		if (file >= 0)
			snprintf(path, size, "%s", found);
	}
	if (file < 0)
		return p4d_fail(err, P4D_E_IO, "job script %.200s: %s", path, strerror(errno));
	if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
		return file;
	close(file);
	return p4d_fail(err, P4D_E_IO, "%.200s is not a regular file", path);
}

static char *too_large(const char *name, p4d_error *err)
{
	p4d_fail(err, P4D_E_IO, "%.200s: larger than %d MiB, Slurm would reject it", name,
		 P4D_LINE_SCRIPT_BYTES >> 20);
	return NULL;
}

static char *no_memory(p4d_error *err)
{
	p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the batch script");
	return NULL;
}

static char *read_text(int from, const char *name, size_t *length, p4d_error *err)
{
	char *text = p4d_file_read(from, P4D_LINE_SCRIPT_BYTES, length);

	if (text)
		return text;
	if (errno == ENOMEM)
		return no_memory(err);
	if (errno == EFBIG)
		return too_large(name, err);
	p4d_fail(err, P4D_E_IO, "%.200s: %m", name);
	return NULL;
}

char *p4d_line_read_script(const char *name, const char *directory, size_t *length, p4d_error *err)
{
	char path[PATH_MAX];

	if (!name)
		return read_text(STDIN_FILENO, "standard input", length, err);
	const int file = open_script(name, directory, path, sizeof(path), err);
	if (file < 0)
		return NULL;
	char *text = read_text(file, path, length, err);
	close(file);
	return text;
}

char *p4d_line_script_wrapped(const char *wrap, size_t *length, p4d_error *err)
{
	char *text;
	const int written = asprintf(&text, "#!/bin/sh\n%s\n", wrap);

	if (written < 0)
		return no_memory(err);
	*length = (size_t)written;
	return text;
}

char *p4d_line_script_copy(const char *from, size_t size, const char *name, size_t *length, p4d_error *err)
{
	if (size > P4D_LINE_SCRIPT_BYTES)
		return too_large(name, err);
	char *text = malloc(size + 1);
	if (!text)
		return no_memory(err);
	memcpy(text, from, size);
	text[size] = '\0';
	*length = size;
	return text;
}
