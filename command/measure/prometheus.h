/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Reads Prometheus's answer to a query of GPU memory by job, as curl saves it: a `vector` or `matrix`,
 * with the job's id in a label. For each job, it keeps the maximum over all GPUs and times. */
typedef struct p4d_prometheus_job {
	char id[32]; /* Slurm's number of the job */
	double gib;
} p4d_prometheus_job;

typedef struct p4d_prometheus {
	size_t count, room;
	p4d_prometheus_job *job; /* sorted by id; owned */
	size_t without_job;      /* number of series without a job's id */
	size_t dropped;          /* number of values that are zero, negative, infinite or no number */
} p4d_prometheus;

/* *all must be zero before. Errors: IO, JSON, VALUE, NO_MEMORY. */
int p4d_prometheus_read(p4d_prometheus *all, const char *path, p4d_error *err);
void p4d_prometheus_free(p4d_prometheus *all);

/* p4d_prometheus__add adds a value of a job. p4d_prometheus__sort, called after the last value, sorts the
 * jobs and keeps the maximum of each. */
int p4d_prometheus__add(p4d_prometheus *all, const char *id, double gib, p4d_error *err);
void p4d_prometheus__sort(p4d_prometheus *all);

/* GiB of a job; 0: the job is not in the list. */
double p4d_prometheus_find(const p4d_prometheus *all, const char *id);
