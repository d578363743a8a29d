/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/job_plan.h"
#include "run/settings.h"

/*
 * Prints all options of a run as TOML for --config: given values, defaults, and the plan's choices, each with
 * its source. The numbers of a named model are comments, because they are read from its file again. With the
 * same ranks, the printed file leads to the same plan. Errors: IO, OVERFLOW.
 */
int p4d_settings_print(const p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err);
