/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/guard.h"
#include "job_environment.h"

/*
 * Verdicts of the most recent jobs with a plan. Sweeps and pipelines submit the same plan hundreds of
 * times. A stored verdict is used only if the job and its p4d variables are equal byte by byte, the data of
 * p4d_watch_acquire have the same generation, and the clock shows the same second, because p4d.conf may set a
 * time from which another mode applies. A job whose data exceed
 * P4D_KEPT_BYTES is judged each time. Only one thread at a time may call these functions.
 */
enum { P4D_KEPT_BYTES = 12 << 10 };

/*
 * True: *verdict is the stored one for an equal job. False: judge the job, and call p4d_kept_add with the
 * result before the next p4d_kept_find. generation: the number from p4d_watch_acquire.
 */
bool p4d_kept_find(const p4d_job *job, const p4d_environment *env, uint64_t generation, p4d_verdict *verdict);
void p4d_kept_add(const p4d_verdict *verdict);
