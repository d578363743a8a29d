/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "job/job.h"

/*
 * How long the texts of a job may be, and how many partitions it may list: slurmctld calls its plugins before
 * it checks anything, and holds its locks meanwhile. What is beyond is not read, so such a job is refused,
 * under the strictest policy of the site: Slurm takes no longer texts either, or (updates in older releases)
 * nobody needs them. Node lists are not among them: no policy depends on them, and of those that are too long
 * to compare the job may get any node. Errors: VALUE.
 */
int p4d_job_check_limits(const p4d_job *job, p4d_error *err);
