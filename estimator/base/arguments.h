/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "base/error.h"

/*
 * getopt_long with the messages of p4d. letters must start with ':' (or "+:" to stop at the first operand);
 * the values of table must be above 255, so that short and long options can be told apart. Set optind to 0
 * before the first call.
 *
 * Returns 1 with *which (a letter or a value of the table) and optarg, 0 at the end, -1 with P4D_E_USAGE when
 * the option is unknown, ambiguous, lacks its value or has one that it must not have.
 */
int p4d_arguments_next(int argc, char *const argv[], const char *letters, const struct option *table,
		       int *which, p4d_error *err);

/* True for "--name" and "--name=value" if no option of the table has that name, nor one that starts so. */
bool p4d_arguments_unknown(const char *word, const struct option *table);
