/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_SLURM_JOB_H
#define P4D_SLURM_JOB_H

#include "job/job.h"
#include "slurm_compat.h"

/*
 * Lays what a description says over *job: fields it leaves unset (NULL, NO_VAL, 0) keep their value, so an
 * update can be laid over the record it updates. Strings stay owned by the description.
 */
void p4d_job_from_desc(p4d_job *job, const job_desc_msg_t *desc);

/* True when a description says anything that p4d_job_from_desc reads: an update without these cannot change a
 * verdict. */
bool p4d_desc_touches_job(const job_desc_msg_t *desc);

/* The same for the record of an existing job. */
void p4d_job_from_info(p4d_job *job, const job_info_t *info);

#endif
