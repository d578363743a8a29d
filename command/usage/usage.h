/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "backtest/backtest.h"
#include "guard/verdict_record.h"
#include "measure/memory_log.h"
#include "measure/prometheus.h"
#include "report/table.h"
#include "usage/usage_refusals.h"

struct json_object;

/*
 * p4d report: p4d's verdicts on jobs that have ended, their memory, and how they ended. The files of this
 * folder share this header. Sizes are GiB.
 */

/* Sources of measurements, from less to more accurate. */
typedef enum p4d_usage_source {
	P4D_USAGE_NOT_MEASURED,
	P4D_USAGE_GPUMEM,     /* gres/gpumem from sacct */
	P4D_USAGE_JOBSTATS,   /* a JS1: record in AdminComment */
	P4D_USAGE_PROMETHEUS, /* --prometheus */
	P4D_USAGE_NVML,       /* --slurmd-log: a line of p4d.so */
	P4D_USAGE_LOG,        /* --log */
	P4D_USAGE_SOURCES
} p4d_usage_source;

typedef struct p4d_usage_row {
	const p4d_backtest_row *of;
	p4d_verdict_record record; /* zeroed: the job has none */
	bool joined;               /* the job has a record */
	bool unguarded;            /* the job's only record is in Extra, where the user could have written
				    * it */
	p4d_outcome outcome;       /* outcome in the record; P4D_OUTCOMES: there is no record */
	bool overridden;           /* p4d refused the job and the user overrode that (P4D113) */
	double need, capacity;     /* predicted memory and capacity of the fullest GPU: from the record, else
				      predicted now; 0: unknown */
	double measured;           /* measured memory of a GPU; 0: not measured */
	p4d_usage_source source;
	const char *what; /* "device", "reserved", "allocated" */
	bool censored;    /* the measurement is 0.9 of the GPU's memory or more */
	bool mean;        /* the measurement is a mean over GPUs that use different amounts of memory, so
			   * it must not be compared with the fullest GPU */
	bool comparable;  /* `need` was predicted at submission, and for the quantity that was measured */
	/* a smaller request that would have had enough memory; 0: there is none */
	uint32_t fewer_nodes, fewer_per_node;
	const p4d_gpu *smaller; /* a GPU of the site with less memory on which the job fits; NULL: there is
				 * none */
} p4d_usage_row;

/* How jobs are grouped for a table. */
typedef enum p4d_usage_key {
	P4D_USAGE_CODE,
	P4D_USAGE_ACCOUNT,
	P4D_USAGE_PARTITION,
	P4D_USAGE_MODEL,
	P4D_USAGE_FRAMEWORK,
	P4D_USAGE_USER, /* users, only with --names */
	P4D_USAGE_KEYS
} p4d_usage_key;
extern const char *const p4d_usage__key_names[P4D_USAGE_KEYS];

/* Jobs that are in one row of a table. outcome[P4D_OUTCOMES]: jobs without a record. */
typedef struct p4d_usage_group {
	char key[64];
	p4d_backtest_cell all, outcome[P4D_OUTCOMES + 1], end[P4D_BACKTEST_ENDS], overridden;
} p4d_usage_group;

/* Errors of the predictions for a framework's jobs. An error is predicted / measured - 1. */
typedef struct p4d_usage_errors {
	char framework[24];
	unsigned jobs, censored, covered; /* Numbers of jobs. jobs: those that are compared. censored:
					   * those left out because the GPU was nearly full. covered: those
					   * whose measurement is at most the prediction */
	double mean, low, high;           /* error: mean, 5 % and 95 % quantile */
} p4d_usage_errors;

enum { P4D_USAGE_FRAMEWORKS = 16 };

typedef struct p4d_usage {
	p4d_backtest jobs;
	const char *id; /* ids of the jobs that the user named; NULL: all jobs since a date */
	bool names;
	p4d_prometheus prometheus, nvml; /* zeroed: not given */
	p4d_usage_refusals refusals;     /* from --refusals; zero without it */
	p4d_memory_log log;              /* log of the single job that the user named; zero: not given */
	p4d_usage_row *row;
	size_t rows;
	unsigned joined, measured, not_measured, censored, incomparable;
	unsigned
	    unguarded; /* number of jobs whose only record is in Extra, where users could have written it */
	unsigned of_source[P4D_USAGE_SOURCES];
	/* jobs by how they ended, and by the verdict at submission; [P4D_OUTCOMES]: no record */
	p4d_backtest_cell cell[P4D_BACKTEST_ENDS][P4D_OUTCOMES + 1];
	p4d_backtest_cell overridden[P4D_BACKTEST_ENDS];
	p4d_backtest_cell fewer, fewer_saved,
	    smaller; /* fewer_saved: GPU-hours of the GPUs that jobs do not need */
	p4d_usage_errors errors[P4D_USAGE_FRAMEWORKS];
	unsigned frameworks;
} p4d_usage;

/* usage_join.c: a row for each job, from its records and measurements. Errors: NO_MEMORY. */
int p4d_usage__join(p4d_usage *u, p4d_error *err);

/* The framework from the record, else from p4d's reading of the script now; "": unknown. */
const char *p4d_usage__framework(const p4d_usage_row *row);

/* usage_count.c: all sums. Errors: NO_MEMORY. */
int p4d_usage__count(p4d_usage *u, p4d_error *err);
/* The lines of a table, most GPU-hours first; the caller frees them. NULL: no memory. */
p4d_usage_group *p4d_usage__divide(const p4d_usage *u, p4d_usage_key by, size_t *count);

/* usage_deaths.c: jobs that p4d passed and that ran out of GPU memory, most GPU-hours first. The caller
 * frees the list. NULL: no memory. */
const p4d_usage_row **p4d_usage__passed_deaths(const p4d_usage *u, size_t *count);
/* Adds columns and the first `most` of these jobs to an empty table. *count: their total number. Errors:
 * NO_MEMORY. */
enum { P4D_USAGE_DEATHS = 10 };
int p4d_usage__fill_deaths(const p4d_usage *u, size_t most, p4d_table *table, size_t *count, p4d_error *err);
/* Mean GPU-hours of jobs that ran out of GPU memory, whatever the evidence that memory ran out; 0: there
 * were none. */
double p4d_usage__hours_of_death(const p4d_usage *u, uint64_t *jobs);

/* usage_text.c: prints the report. page NULL: to the terminal. Errors: NO_MEMORY. */
int p4d_usage__print(const p4d_usage *u, FILE *page, p4d_error *err);
/* usage_html.c, usage_json.c. Errors: IO, NO_MEMORY. */
int p4d_usage__write_html(const p4d_usage *u, const char *path, p4d_error *err);
int p4d_usage__print_json(const p4d_usage *u, p4d_error *err);

/* usage_job.c: prints one job. note: in one line, for mail and epilogs. */
void p4d_usage__print_job(const p4d_usage_row *row, bool note);
struct json_object *p4d_usage__json_job(const p4d_usage_row *row);

/* usage_rows.c: writes rows for p4d validate and p4d calibrate. Errors: IO, NO_MEMORY. */
int p4d_usage__write_rows(const p4d_usage *u, const char *path, unsigned *written, p4d_error *err);

extern const char *const p4d_usage__source_names[P4D_USAGE_SOURCES];
