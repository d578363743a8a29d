/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Opens for reading without ever waiting: not for the writer of a FIFO either. -1 with errno. */
int p4d_file_open(const char *path);

/*
 * All that can be read there, with a NUL behind it; the caller frees. NULL with errno: EFBIG when it is more
 * than `most` bytes, ENOMEM.
 */
char *p4d_file_read(int fd, size_t most, size_t *length);
