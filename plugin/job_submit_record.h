/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict_record.h"
#include "slurm_compat.h"

/* What slurmctld keeps of a verdict with the job: the approval of its plan, and the record. */

/* Names the verdict in the log and in the record: another one for each, also after a restart. */
void p4d_record_name(p4d_verdict_record *record);

/* Puts both into a job that is submitted, after the words of others there. */
void p4d_record_keep(const p4d_site *site, job_desc_msg_t *desc, const p4d_verdict *verdict,
		     const p4d_verdict_record *record);

/*
 * Renews the record of a job that is updated, if the record is in Extra. A plugin does not see AdminComment
 * at this point, so a record there stays as it was at submission.
 */
void p4d_record_renew(const p4d_site *site, job_desc_msg_t *update, const job_desc_msg_t *current,
		      const p4d_verdict_record *record);

/* Why this Slurm keeps no record where p4d.conf wants it; NULL: it does. */
const char *p4d_record_fault(const p4d_site *site, const char *scheduler_parameters);
