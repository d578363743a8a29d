/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "slurm_compat.h"

/*
 * The submitting side, once all options are known. argc, argv: of the plugstack line. Both return 0, or -1 to
 * stop the submission (never a positive number: sbatch before 25.05 would submit).
 */

/* sbatch, salloc, and srun outside of a job: one call per component of the job. */
int p4d_submit_job(spank_t spank, int argc, char **argv);

/* srun inside a job. */
int p4d_submit_step(spank_t spank, int argc, char **argv);
