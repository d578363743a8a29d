/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d data and its option help. */
int p4d_command_data(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
extern const char p4d_data_options[];
