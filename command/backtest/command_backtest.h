/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/* p4d backtest: p4d's verdicts on jobs that have ended. */
int p4d_command_backtest(const p4d_line *line, p4d_error *err);
