/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/job_plan.h"
#include "run/settings.h"

/*
 * Prints all options of a run as TOML for --config: given values, defaults, and the plan's choices, each with
 * its source. The sizes of a named model are printed as comments, because p4d-train reads them from the
 * model's file. On the same number of ranks, the printed file gives the same plan. Errors: IO, OVERFLOW.
 */
int p4d_settings_print(const p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err);
