/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "slurm_compat.h"

/*
 * The job as sbatch, salloc and srun see it after they have merged the script, the environment and the
 * command line. They keep it in a private structure, but export this structure and functions that read it by
 * option name. In a Slurm that does not export them, options are simply unknown.
 */

/* A copy of an option's value; NULL if it is not set. The caller frees it. */
char *p4d_client_option(const char *name);

/* Visits all set options. This is faster than a call for each option. `visit` owns the value; NULL: the
 * option has no value. */
void p4d_client_options(void (*visit)(const char *name, char *value, void *context), void *context);

/* Whether the job gets the environment of the submission, as it does unless an option says otherwise. */
bool p4d_client_exports_all(void);

/* slurm.conf as Slurm has read it; NULL: the program has not read it. */
const slurm_conf_t *p4d_client_slurm_conf(void);

/* Whether the program is salloc or sbatch: Slurm gives both the same context. */
bool p4d_client_is_salloc(void);

/* The job in which srun creates a step (the job around it, or that of --jobid); 0 if srun submits a job. */
uint32_t p4d_client_job_id(void);

/* Whether p4d may print notes. False with -Q: then it prints only warnings and refusals. */
bool p4d_client_talks(void);

/*
 * If a request that p4d makes to slurmctld fails, Slurm's library prints an error although p4d handles it.
 * Users would think that their own request failed. So p4d_client_hush discards standard error, unless the
 * user asked for more (-v), and p4d_client_unhush restores it. `kept` is the result of p4d_client_hush.
 */
int p4d_client_hush(void);
void p4d_client_unhush(int kept);
