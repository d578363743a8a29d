/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "job/job.h"

/*
 * The largest size of a job's texts, and the largest number of partitions that a job may list. slurmctld
 * calls its plugins before it checks anything, and holds its locks during the call. p4d does not read longer
 * texts and refuses such a job under the site's strictest policy. Nobody needs longer texts, because Slurm
 * also refuses them (older releases accept them in updates of jobs). Node lists have no limit: no policy
 * depends on them, and if a list is too long to compare, p4d assumes that the job may get any node. Errors:
 * VALUE.
 */
int p4d_job_check_limits(const p4d_job *job, p4d_error *err);
