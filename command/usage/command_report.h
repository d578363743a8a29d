/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d report: what p4d said of jobs, and what they took. */
extern const char p4d_report_options[];
int p4d_command_report(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
