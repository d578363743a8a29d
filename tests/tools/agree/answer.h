/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "job.h"

enum { TEXT_MAX = 65536, PLAN_MAX = 8192 };

typedef struct output {
	int status;
	char out[TEXT_MAX], err[TEXT_MAX];
} output;

typedef struct verdict {
	bool refused;
	bool by_slurm;                   /* refused by Slurm for its own reasons */
	unsigned char codes[1000];       /* by number: is it there? */
	char plan[COMPONENTS][PLAN_MAX]; /* "": none */
	char fix[2048];
} verdict;

/* Run `sbatch -H` and `p4d check` with a job whose script is written. json: "--json" or NULL. */
void submit(const job *j, output *a);
void check(const job *j, const char *json, output *a);
/* The p4d.conf of `p4d check` from now on; NULL: the cluster's. */
void check_with(const char *conf);

/* What sbatch did, and the answer of `p4d check --json`. False if that could not be read. */
bool of_sbatch(const output *a, verdict *v);
bool of_check(const output *a, verdict *v);

/* A file, cut to TEXT_MAX; "" without one. */
void read_text(const char *path, char *text);
