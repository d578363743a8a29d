/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * The answer of Prometheus to a query of GPU memory by job, as curl saved it: `vector` or `matrix`, with the
 * job's id in a label. The largest value of each job counts, over its GPUs and time.
 */
typedef struct p4d_prometheus_job {
	char id[32]; /* Slurm's own number */
	double gib;
} p4d_prometheus_job;

typedef struct p4d_prometheus {
	size_t count, room;
	p4d_prometheus_job *job; /* sorted by id; owned */
	size_t without_job;      /* series that name none */
	size_t dropped;          /* values that are zero, negative, infinite or no number */
} p4d_prometheus;

/* Errors: IO, JSON, VALUE, NO_MEMORY. *all is zero before. */
int p4d_prometheus_read(p4d_prometheus *all, const char *path, p4d_error *err);
void p4d_prometheus_free(p4d_prometheus *all);

/* Adds a value of a job; and, once all are there, sorts them and keeps the largest of each job. */
int p4d_prometheus__add(p4d_prometheus *all, const char *id, double gib, p4d_error *err);
void p4d_prometheus__sort(p4d_prometheus *all);

/* GiB of a job; 0: it is not there. */
double p4d_prometheus_find(const p4d_prometheus *all, const char *id);
