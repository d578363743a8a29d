/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* `p4d plot`: draws the logs of several runs of p4d-train as curves, for comparison. */
int p4d_command_plot(const p4d_line *line, p4d_error *err);
