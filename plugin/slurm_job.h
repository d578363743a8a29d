/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "slurm_compat.h"

/*
 * Overrides fields of *job with those that a description sets (not NULL, NO_VAL or 0), so that an update can
 * be applied to the job's record. An empty text removes the record's text. Strings are borrowed from the
 * description.
 */
void p4d_job_from_desc(p4d_job *job, const job_desc_msg_t *desc);

/* True if a description sets a field that p4d_job_from_desc reads; otherwise it cannot change a verdict. */
bool p4d_desc_touches_job(const job_desc_msg_t *desc);

/* Like p4d_job_from_desc, for the record of an existing job. */
void p4d_job_from_info(p4d_job *job, const job_info_t *info);
