/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Opens a file for reading and never blocks, not even on a FIFO. On failure returns -1 with errno. */
int p4d_file_open(const char *path);

/*
 * The whole content of a file, NUL-terminated; the caller frees it. NULL with errno: EFBIG if the file has
 * more than `most` bytes, ENOMEM.
 */
char *p4d_file_read(int fd, size_t most, size_t *length);
