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
	bool by_slurm;                   /* Slurm refused the job for its own reasons */
	unsigned char codes[1000];       /* codes[n]: whether code number n is in the answer */
	char plan[COMPONENTS][PLAN_MAX]; /* "": none */
	char fix[2048];
} verdict;

/* Run `sbatch -H` and `p4d check` with a job whose script was written before. json: "--json" or NULL. */
void submit(const job *j, output *a);
void check(const job *j, const char *json, output *a);
/* Sets the p4d.conf that `p4d check` uses. NULL: the cluster's. */
void check_with(const char *conf);

/* Read the verdict of sbatch, and that of `p4d check --json`. false: the answer could not be read. */
bool of_sbatch(const output *a, verdict *v);
bool of_check(const output *a, verdict *v);

/* Reads a file, at most TEXT_MAX bytes. "": the file does not exist. */
void read_text(const char *path, char *text);
