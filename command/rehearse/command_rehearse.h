/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d rehearse: runs a training program on simulated GPUs, and prints the memory that it used. */
int p4d_command_rehearse(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
extern const char p4d_rehearse_help[];

/* Whether this program was started as a launcher of a job script that a shell runs (shell_launch.h);
 * *status is then its exit status. */
bool p4d_shell_launch_is(int argc, char *argv[], int *status);
