/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The decision on the submitting side, which may read model files. slurmctld and slurmstepd never call
 * this. */
#include "guard/guard.h"

/*
 * For sbatch and `p4d check`: resolves the model (and may read its file) and adds the script's values
 * (job->reading) as far as the site's setting allows. The script fills the options that the user left open; a
 * job without p4d options is judged by its script alone. On return, *request has all values.
 */
void p4d_guard_submit(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      p4d_request *request, uint32_t *published_batch, p4d_verdict *verdict);

/*
 * Fills the message about a p4d option among the script's arguments, where sbatch does not take it. command:
 * "sbatch". False: no argument is one.
 */
bool p4d_guard_misplaced(const char *const *arguments, const char *command, const char *script,
			 p4d_message *message);
