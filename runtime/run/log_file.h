/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Appends to a file of a run's log. A log that can no longer be written is no reason to stop training: that
 * is said once, and *fd becomes -1, with which nothing is done. what: the option and the file; NULL: nothing
 * is said.
 */
void p4d_log_file_write(int *fd, const void *data, size_t bytes, const char *what);
