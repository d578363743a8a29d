/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * Prometheus's answer to a query of GPU memory by job, as saved by curl: `vector` or `matrix`, with the job's
 * id in a label. The maximum over each job's GPUs and time counts.
 */
typedef struct p4d_prometheus_job {
	char id[32]; /* Slurm's own number */
	double gib;
} p4d_prometheus_job;

typedef struct p4d_prometheus {
	size_t count, room;
	p4d_prometheus_job *job; /* sorted by id; owned */
	size_t without_job;      /* number of series without a job */
	size_t dropped;          /* number of values that are zero, negative, infinite or no number */
} p4d_prometheus;

/* Errors: IO, JSON, VALUE, NO_MEMORY. *all is zero before. */
int p4d_prometheus_read(p4d_prometheus *all, const char *path, p4d_error *err);
void p4d_prometheus_free(p4d_prometheus *all);

/* Adds a value of a job. And, after the last one, sorts the values and keeps the maximum of each job. */
int p4d_prometheus__add(p4d_prometheus *all, const char *id, double gib, p4d_error *err);
void p4d_prometheus__sort(p4d_prometheus *all);

/* GiB of a job; 0: absent. */
double p4d_prometheus_find(const p4d_prometheus *all, const char *id);
