/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4d.so: the entry points of the SPANK plugin, by Slurm's contexts.
 *
 *   sbatch, salloc   allocator   spank_submit.c
 *   srun             local       spank_submit.c (a job of its own, or a step of the job around it)
 *   slurmstepd       remote      spank_step.c
 */
#include <stdlib.h>

#include "client_job.h"
#include "slurm_compat.h"
#include "spank_options.h"
#include "spank_step.h"
#include "spank_submit.h"

/* what Slurm looks up */
#pragma GCC visibility push(default)
SPANK_PLUGIN(p4d, 1)
int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv);
int slurm_spank_task_init(spank_t spank, int argc, char **argv);
#pragma GCC visibility pop

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		/* a job submitted from inside a job must not inherit its options */
		if (getenv("SLURM_JOB_ID"))
			p4d_options_clean_environment(NULL);
		p4d_options_from_environment(p4d_client_is_salloc() ? "SALLOC" : "SBATCH");
		return p4d_options_register(spank);
	case S_CTX_LOCAL:
		p4d_options_from_environment("SLURM");
		return p4d_options_register(spank);
	case S_CTX_REMOTE:
		return p4d_options_register(spank);
	default:
		return 0;
	}
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
	int rc = 0;

	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		rc = p4d_submit_job(spank, argc, argv);
		p4d_options_reset();
		break;
	case S_CTX_LOCAL:
		rc = p4d_client_job_id() ? p4d_submit_step(spank, argc, argv)
					 : p4d_submit_job(spank, argc, argv);
		p4d_options_reset();
		break;
	case S_CTX_REMOTE:
		p4d_step_judge(spank, argc, argv);
		break;
	default:
		break;
	}
	return rc;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return p4d_step_task(spank);
}
