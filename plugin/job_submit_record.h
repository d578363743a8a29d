/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict_record.h"
#include "slurm_compat.h"

/* Data that slurmctld keeps with the job about a verdict: the approval of its plan, and the record. */

/* A new id that names the verdict in the log and in the record; unique also across restarts. */
void p4d_record_name(p4d_verdict_record *record);

/* Puts the approval and the record into a submitted job, after other tools' words in the same field. */
void p4d_record_keep(const p4d_site *site, job_desc_msg_t *desc, const p4d_verdict *verdict,
		     const p4d_verdict_record *record);

/* Whether an update contains an Extra, with which slurmctld would replace the job's. */
bool p4d_record_is_given(const job_desc_msg_t *update);

/*
 * Renews the record of an updated job, if the record is in Extra. record NULL: the update is not judged, and
 * a new Extra keeps the job's record. A plugin does not see AdminComment at this point, so a record there
 * stays as it was at submission. Call it in slurmctld's order, once for each task of an array.
 */
void p4d_record_renew(const p4d_site *site, job_desc_msg_t *update, const job_desc_msg_t *current,
		      const p4d_verdict_record *record);

/*
 * Why this Slurm keeps no record at the place that p4d.conf names; NULL: it does. Any thread may call this.
 * Before 23.11, slurmctld frees and rereads its configuration under the lock that this takes.
 */
const char *p4d_record_fault(const p4d_site *site);
