/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

/* Opens a file for reading and never blocks, not even on a FIFO. On failure returns -1 with errno. */
int p4d_file_open(const char *path);

/*
 * The whole content of a file, NUL-terminated; the caller frees it. NULL with errno: EFBIG if the file has
 * more than `most` bytes, ENOMEM.
 */
char *p4d_file_read(int fd, size_t most, size_t *length);

static inline bool p4d_file_is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The last part of a path. */
static inline const char *p4d_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
