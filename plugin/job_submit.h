/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict_log.h"
#include "slurm_compat.h"

struct job_record; /* opaque, slurmctld's */

/* Looks up the partitions, the user and the accounts of a job. */
#pragma GCC visibility push(default)
extern const char plugin_name[];
extern const char plugin_type[];
extern unsigned int plugin_version;
int init(void);
int fini(void);
int job_submit(job_desc_msg_t *desc, uint32_t uid, char **err_msg);
#if P4D_MODIFY_ERR_MSG
int job_modify(job_desc_msg_t *desc, struct job_record *record, uint32_t uid, char **err_msg);
#else
int job_modify(job_desc_msg_t *desc, struct job_record *record, uint32_t uid);
#endif
#pragma GCC visibility pop

/* Logs a verdict according to the site's setting. */
void p4d_job_submit_log_verdict(const p4d_site *site, const p4d_verdict_subject *subject,
				const p4d_verdict *verdict);

/* Passes the verdict's messages for the user to Slurm, below those of earlier plugins. */
void p4d_job_submit_say_verdict(const p4d_verdict *verdict, char **err_msg);

/* Return code of a refused submission or update. A user without err_msg (REST) sees the text of this code. */
#define P4D_REFUSED ESLURM_INVALID_GRES
