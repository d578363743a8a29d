/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Appends to a file of a run's log. If the file can no longer be written, training continues: the failure is
 * reported once, and *fd becomes -1. With an fd of -1 the function does nothing. what: the option and the
 * file; NULL: no report.
 */
void p4d_log_file_write(int *fd, const void *data, size_t bytes, const char *what);
