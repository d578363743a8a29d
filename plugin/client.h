/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "given_options.h"
#include "module.h"
#include "slurm_compat.h"

/* libp4d-client.so: all work of p4d.so for a job or step that has a p4d option or a plan. It is a separate
 * library because every sbatch, srun and step of the cluster loads p4d.so, but few of them need this work. */

typedef struct p4d_client_calls {
	p4d_module_build build;

	/*
	 * Called by the command that submits, after all options are known. argc, argv: arguments of the line
	 * in plugstack.conf. Both return 0, or -1 to stop the submission. (They never return a positive
	 * number, because sbatch before 25.05 would then submit.)
	 */
	/* for sbatch, salloc, and srun outside of a job; called once for each component of the job */
	int (*submit_job)(spank_t spank, const p4d_given *given, int argc, char **argv);
	/* for srun inside a job */
	int (*submit_step)(spank_t spank, const p4d_given *given, int argc, char **argv);

	/* for slurmstepd: see spank_step.h */
	void (*step_judge)(spank_t spank, const p4d_given *given, int argc, char **argv);
	int (*step_task)(spank_t spank);
	void (*step_task_ended)(spank_t spank);
} p4d_client_calls;

/* The only symbol that the library exports. */
#pragma GCC visibility push(default)
extern const p4d_client_calls p4d_client;
#pragma GCC visibility pop
