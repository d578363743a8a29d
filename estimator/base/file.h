/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Opens for reading without ever blocking, not even on a FIFO. -1 with errno. */
int p4d_file_open(const char *path);

/*
 * The whole content, NUL-terminated; the caller frees. NULL with errno: EFBIG when it is more than `most`
 * bytes, ENOMEM.
 */
char *p4d_file_read(int fd, size_t most, size_t *length);
