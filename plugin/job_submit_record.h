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

/* Whether an update has an Extra of its own, with which slurmctld would replace the job's. */
bool p4d_record_is_given(const job_desc_msg_t *update);

/*
 * Renews the record of a job that is updated, if the record is in Extra. record NULL: the update is not
 * judged, and a new Extra keeps the record of the job. A plugin does not see AdminComment at this point, so a
 * record there stays as it was at submission. Call it in slurmctld's order, once for each task of an array.
 */
void p4d_record_renew(const p4d_site *site, job_desc_msg_t *update, const job_desc_msg_t *current,
		      const p4d_verdict_record *record);

/*
 * Why this Slurm keeps no record where p4d.conf wants it; NULL: it does. Any thread may ask: before 23.11,
 * slurmctld frees and reads its configuration anew, under the lock that this takes.
 */
const char *p4d_record_fault(const p4d_site *site);
