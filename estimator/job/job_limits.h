/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "job/job.h"

/*
 * The most characters of a job's texts, and the most partitions that it may list: slurmctld calls its plugins
 * before it checks anything, and holds its locks during the call. p4d does not read longer texts, so it
 * refuses such a job, under the strictest policy of the site: Slurm accepts no longer texts either, or
 * (updates in older releases) nobody needs them. Node lists have no limit: no policy depends on them, and if
 * a list is too long to compare, p4d assumes that the job may get any node. Errors: VALUE.
 */
int p4d_job_check_limits(const p4d_job *job, p4d_error *err);
