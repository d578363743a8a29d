/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "base/error.h"

/*
 * getopt_long with p4d's messages. letters must start with ':' (or "+:" to stop at the first operand). The
 * values of table must be above 255, so that they differ from letters. Set optind to 0 before the first call.
 *
 * Returns 1 with *which (a letter or a value of the table) and optarg; 0 at the end; -1 with P4D_E_USAGE if
 * an option is unknown or ambiguous, lacks its value, or has a value but takes none.
 */
int p4d_arguments_next(int argc, char *const argv[], const char *letters, const struct option *table,
		       int *which, p4d_error *err);

/*
 * True for "--name" and "--name=value" if the table has no option of that name and none that starts with it.
 */
bool p4d_arguments_unknown(const char *word, const struct option *table);
