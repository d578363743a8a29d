/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "job/sbatch.h"

/*
 * The job as sbatch, salloc and srun see it once the script, the environment and the command line are merged.
 * They keep it in a private structure, but export it and functions that read it by option name. In a Slurm
 * that does not, options are simply unknown.
 */

/* A copy of an option's value, NULL when it is not set. The caller frees it. */
char *p4d_client_option(const char *name);

/* Fills the job of an all-zero *sbatch; p4d_sbatch_free releases it. Errors: VALUE, USAGE, NO_MEMORY. */
int p4d_client_job(p4d_sbatch *sbatch, p4d_error *err);

/*
 * The text of the batch script, read with the user's rights; the caller frees it. NULL when there is none or
 * it is unreadable (srun, salloc, a script on stdin).
 */
char *p4d_client_script(size_t *length);

/* salloc or sbatch: Slurm gives both the same context. */
bool p4d_client_is_salloc(void);

/* The job in which srun creates a step (around it, or of --jobid); 0 when it submits a job of its own. */
uint32_t p4d_client_job_id(void);

/* False with -Q: print only warnings and refusals. */
bool p4d_client_talks(void);
