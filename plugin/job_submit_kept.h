/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/guard.h"
#include "job_environment.h"

/*
 * Verdicts of the last jobs with a plan. Sweeps and pipelines submit the same plan by the hundred, and all
 * that a verdict depends on is compared to the byte: the job, its variables of p4d's, what p4d_watch_acquire
 * has, and the second, since a mode may begin with any. A job that needs more than P4D_KEPT_BYTES for that is
 * judged each time. One thread at a time.
 */
enum { P4D_KEPT_BYTES = 12 << 10 };

/*
 * True: *verdict is what was kept for the same job. False: judge the job, and call p4d_kept_add with the
 * result before the next p4d_kept_find. generation: the number that p4d_watch_acquire returned.
 */
bool p4d_kept_find(const p4d_job *job, const p4d_environment *env, uint64_t generation, p4d_verdict *verdict);
void p4d_kept_add(const p4d_verdict *verdict);
