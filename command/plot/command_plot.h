/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* `p4d plot`: draws logs of p4d-train as curves, next to each other. */
int p4d_command_plot(const p4d_line *line, p4d_error *err);
