/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Appends to a file of a run's log. If a log can no longer be written, training goes on: the failure is
 * reported once, and *fd becomes -1, with which nothing is done. what: the option and the file; NULL: no
 * report.
 */
void p4d_log_file_write(int *fd, const void *data, size_t bytes, const char *what);
