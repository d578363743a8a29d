/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"

/* Shared by gres.c, job_gpu.c and job.c. */

/* p4d_gres_parse, and with bare also the text of --gpus and the like: "4", "h100:4", "h100:2,a100:2". */
int p4d_gres__parse_gpus(const char *text, bool bare, char *type, size_t size, uint32_t *count,
			 p4d_error *err);

/* What follows the blanks and the plus sign that Slurm accepts in front of a number. */
const char *p4d_gres__sign(const char *text);

/* The live cluster, queried at most once and only when needed. */
typedef struct p4d_job_lazy_cluster {
	p4d_cluster_source source;
	void *context;
	bool asked;
	const p4d_cluster *cluster;
} p4d_job_lazy_cluster;
const p4d_cluster *p4d_job__lazy(p4d_job_lazy_cluster *lazy);

/* Iterates over a comma-separated list: at points to the rest, name gets the next name. False at the end. */
bool p4d_job__next_name(const char **at, char *name, size_t size);

/*
 * The GPU a job may get. type: of its GRES request, "" when untyped. Fills gpu, gpu_types, ambiguous and
 * partition of out.
 */
int p4d_job__gpu(const p4d_site *site, const p4d_job *job, const char *type, p4d_job_lazy_cluster *lazy,
		 p4d_geometry *out, p4d_error *err);
