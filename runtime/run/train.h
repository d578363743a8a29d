/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "comm/comm.h"
#include "run/job_plan.h"
#include "run/settings.h"

/*
 * Runs one rank, from joining the other ranks to the last step. Returns its exit status: 0: done;
 * P4D_EXIT_AGAIN: a signal stopped the run; else the number of a code, after one rank has printed the reason.
 * The caller must have checked the plan.
 */
int p4d_train(const p4d_settings *settings, const p4d_job_plan *plan, const p4d_ranks *ranks);
