/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d rehearse: runs a training program on GPUs that are not there, and says what it held. */
int p4d_command_rehearse(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
extern const char p4d_rehearse_help[];
