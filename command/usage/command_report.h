/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d report: p4d's verdicts on jobs, and the jobs' memory. */
extern const char p4d_report_options[];
int p4d_command_report(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
