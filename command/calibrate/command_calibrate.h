/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d calibrate: margins of p4d.conf from rows of jobs that were measured. */
extern const char p4d_calibrate_options[];
int p4d_command_calibrate(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
