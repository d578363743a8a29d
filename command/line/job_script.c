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

int p4d_line_open_script(const char *name, const char *directory, char *path, size_t size, p4d_error *err)
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
