/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The decision on the submitting side, which may read files of models. slurmctld and slurmstepd never come
 * here. */
#include "guard/guard.h"

/*
 * For sbatch and `p4d check`: resolves the model (and may read its file) and adds the values of the script
 * (job->reading), as far as the site wants it. A job with p4d options gets the values that these leave open;
 * a job without is judged by the script alone. *request then has all of them.
 */
void p4d_guard_submit(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      p4d_request *request, uint32_t *published_batch, p4d_verdict *verdict);
