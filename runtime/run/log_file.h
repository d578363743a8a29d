/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Appends to a file of a run's log. If a write fails, training continues: the failure is reported once, and
 * *fd becomes -1. If *fd is -1, the function does nothing. what: the option and the file, for the report;
 * NULL: no report.
 */
void p4d_log_file_write(int *fd, const void *data, size_t bytes, const char *what);
