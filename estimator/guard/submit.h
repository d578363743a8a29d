/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The decision on the submitting side, which may read files of models. slurmctld and slurmstepd never come
 * here. */
#include "guard/guard.h"

/*
 * What sbatch and `p4d check` ask: resolves the model (whose file it may read) and adds what the script says
 * (job->reading), as far as the site wants: to a job with p4d options what these leave open, a job without is
 * judged by it alone. *request is then the whole.
 */
void p4d_guard_submit(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      p4d_request *request, uint32_t *published_batch, p4d_verdict *verdict);
