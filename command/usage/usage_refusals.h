/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "report/table.h"

struct json_object;

/* Jobs that p4d refused. Slurm's accounting does not have them, so they are read from slurmctld's log, or
 * from a login node's log (client_log). If a user submits the same job repeatedly, it counts once. */
typedef struct p4d_usage_refusal {
	char code[8];  /* the first code, which is the reason: "P4D012" */
	char job[160]; /* user, name and model: jobs with the same values are the same job */
} p4d_usage_refusal;

/* The refusals with one code. */
typedef struct p4d_usage_refused {
	char code[8];
	size_t refusals, jobs;
} p4d_usage_refused;

typedef struct p4d_usage_refusals {
	const char *path; /* path of the log; NULL: no log was read */
	size_t lines;     /* number of p4d's lines in the log, of any kind */
	size_t count, room, codes, codes_room;
	p4d_usage_refusal *refusal;
	p4d_usage_refused *of; /* sorted, the most frequent code first */
} p4d_usage_refusals;

/* Adds the refusals in a log, and counts them. Errors: IO, NO_MEMORY. */
int p4d_usage_refusals__read(p4d_usage_refusals *all, const char *path, p4d_error *err);
void p4d_usage_refusals__free(p4d_usage_refusals *all);

/* Sum of the refusals with all codes. */
p4d_usage_refused p4d_usage_refusals__sum(const p4d_usage_refusals *all);
/* Adds columns and rows to an empty table. */
void p4d_usage_refusals__fill(const p4d_usage_refusals *all, p4d_table *table);
struct json_object *p4d_usage_refusals__json(const p4d_usage_refusals *all);
