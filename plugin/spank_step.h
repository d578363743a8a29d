/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "given_options.h"
#include "slurm_compat.h"

/*
 * slurmstepd, the last check: a step with p4d options or a plan must agree with the plan that was approved
 * for its job. init_post_opt makes the verdict, because it may ask slurmctld. task_init enforces the
 * verdict, because a failure there fails the job, and a failure elsewhere would drain the node. The first
 * node asks for all nodes, and ends the step on the other nodes.
 */

/* Never fails. */
void p4d_step_judge(spank_t spank, const p4d_given *given, int argc, char **argv);

/* For every task: 0, or -1 if the step was refused (the first task prints why). */
int p4d_step_task(spank_t spank);

/* In slurmstepd itself, after a task: asks slurmctld to end the parts of a refused step on other nodes.
 * Never fails. */
void p4d_step_task_ended(spank_t spank);
