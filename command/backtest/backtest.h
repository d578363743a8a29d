/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "accounting/accounting.h"
#include "base/error.h"
#include "site/site.h"

/*
 * p4d backtest: p4d's verdicts on jobs that have ended, compared with how they ended. The files of this
 * folder share this header.
 */

typedef enum p4d_backtest_verdict {
	P4D_BACKTEST_PASSED,
	P4D_BACKTEST_WARNED,
	P4D_BACKTEST_REFUSED,
	P4D_BACKTEST_NOT_JUDGED,
	P4D_BACKTEST_VERDICTS
} p4d_backtest_verdict;

/* How a job ended. The three ends by GPU memory are always counted separately. */
typedef enum p4d_backtest_end {
	P4D_BACKTEST_COMPLETED,
	P4D_BACKTEST_SAID,   /* GPU memory ran out: the job's output says so; only with --read-output */
	P4D_BACKTEST_FULL,   /* GPU memory probably ran out: the job failed, and a GPU was measured at 97 %
			      * or more */
	P4D_BACKTEST_EARLY,  /* GPU memory probably ran out: the job failed within ten minutes, and p4d's
			      * prediction is above the limit */
	P4D_BACKTEST_FAILED, /* all other failures: host memory, a node failure, preemption and so on */
	P4D_BACKTEST_TIMEOUT,
	P4D_BACKTEST_CANCELLED,
	P4D_BACKTEST_ENDS
} p4d_backtest_end;

/* How far p4d could process a job. */
typedef enum p4d_backtest_stage {
	P4D_BACKTEST_OF_GPUS,
	P4D_BACKTEST_STORED, /* p4d has its script */
	P4D_BACKTEST_KNOWN,  /* the script starts a training that p4d knows */
	P4D_BACKTEST_WHOLE,  /* p4d read all numbers that it needs */
	P4D_BACKTEST_JUDGED,
	P4D_BACKTEST_STAGES
} p4d_backtest_stage;

enum { P4D_BACKTEST_LIMITS = 4 };
/* fractions of a GPU's memory: 0.90, 0.95, 0.97, 1.00 */
extern const double p4d_backtest__limits[P4D_BACKTEST_LIMITS];

/* The result for one script with its options and directory. A process with the rights of the script's
 * owner sends it as bytes. */
typedef struct p4d_backtest_result {
	p4d_backtest_verdict verdict;
	p4d_backtest_stage stage;
	p4d_code code;    /* code of the first message; 0: there is none */
	bool by_task;     /* the job is an array, whose other tasks may have another result */
	bool above_limit; /* the prediction is above the limit */
	bool said; /* the job's output says that GPU memory ran out; the other members are then unused */
	bool refused_at[P4D_BACKTEST_LIMITS];
	double fraction;         /* predicted share of the GPU; negative: no prediction */
	uint64_t need_bytes;     /* predicted memory of the fullest GPU, in bytes; 0: no prediction */
	uint64_t capacity_bytes; /* memory of the GPU that p4d assumes, in bytes; 0: unknown */
	int64_t newest;          /* modification time of the newest file that was read with the script; 0:
				  * none */
	char model[64], framework[16], gpu[48];
	char options[1024]; /* options of a judged training, in the form of p4d validate's rows; "": too long
			     */
	char place[200];    /* place of the command in the script: "train.sh:12"; "": none */
	char text[400];     /* the first message */
	char reason[120]; /* why p4d did not judge the job, without details that differ between jobs; "": p4d
			     judged it */
} p4d_backtest_result;

/* A job whose script is available. */
typedef struct p4d_backtest_case {
	const p4d_accounting_job *job;
	char *script, *environment; /* owned; environment NULL: not stored */
	size_t length;
} p4d_backtest_case;

/* A job of the table. */
typedef struct p4d_backtest_row {
	const p4d_accounting_job *job;
	const p4d_backtest_result *result;
	p4d_backtest_end end;
	bool said;
	bool changed; /* a file that the script reads was changed after the job was submitted */
	uint64_t measured_bytes;
	p4d_accounting_measured measured;
	double gpu_hours;
} p4d_backtest_row;

typedef struct p4d_backtest_cell {
	uint64_t jobs;
	double gpu_hours;
} p4d_backtest_cell;

typedef struct p4d_backtest_reason {
	const char *text;
	p4d_backtest_cell cell;
} p4d_backtest_reason;

enum { P4D_BACKTEST_TOP = 10 };

/* The jobs with the same script in one cell of the table. */
typedef struct p4d_backtest_group {
	const p4d_backtest_row *row; /* the group's row with the most GPU-hours */
	p4d_backtest_cell cell;
} p4d_backtest_group;

typedef struct p4d_backtest {
	/* settings of the command */
	const char *since, *users, *accounts, *partitions;
	bool read_output;
	p4d_site *site;   /* the site as in p4d.conf */
	p4d_site *strict; /* the site with the lowest of the limits; NULL: it cannot be made */
	p4d_accounting *accounting;
	p4d_accounting_jobs jobs;
	/* filled by p4d_backtest_run */
	p4d_backtest_row *row;
	size_t rows;
	p4d_backtest_result **result; /* owned; results that are equal are stored once */
	size_t results, results_room;
	uint64_t running;                  /* jobs that have not ended, which have no row */
	uint64_t scripts;                  /* number of different scripts that were judged */
	uint64_t changed;                  /* number of rows with changed files */
	uint64_t interactive, not_started; /* rows without a batch script, and rows whose script sacct cannot
					    * show because the job has not started */
	bool environments;                 /* slurmdbd stores the environments of some jobs */
	/* filled by p4d_backtest_count */
	p4d_backtest_cell cell[P4D_BACKTEST_ENDS][P4D_BACKTEST_VERDICTS];
	p4d_backtest_cell stage[P4D_BACKTEST_STAGES]; /* for each stage: jobs that reached it */
	struct {
		p4d_backtest_cell ran; /* jobs that p4d refuses, although they completed */
		p4d_backtest_cell
		    caught[P4D_BACKTEST_ENDS]; /* jobs that p4d refuses, for each kind of end by GPU memory */
	} at[P4D_BACKTEST_LIMITS];
	p4d_backtest_reason reason[P4D_BACKTEST_TOP];
	unsigned reasons;
	p4d_backtest_group ran[P4D_BACKTEST_TOP], died[P4D_BACKTEST_TOP];
	unsigned rans, dieds;
} p4d_backtest;

/* backtest_judge.c: judges a script as sbatch would. It runs in a process with the rights of the script's
 * owner. files: whether the process may read the owner's files. */
void p4d_backtest__judge(const p4d_backtest *b, const p4d_backtest_case *c, bool files,
			 p4d_backtest_result *result);

/* backtest_line.c: the words of a job's SubmitLine. */
typedef struct p4d_backtest_line {
	char *text, **word;
	int words;
	int script; /* index of the script's name; the number of words if there is no script, or if quotes
		     * were lost */
	bool wrap;  /* --wrap has the script */
} p4d_backtest_line;
/* False: no memory. Freed with p4d_backtest__line_free. */
bool p4d_backtest__line_read(p4d_backtest_line *line, const p4d_backtest_case *c);
void p4d_backtest__line_free(p4d_backtest_line *line);

/* backtest_owner.c: judges the cases of one user and reads the outputs of that user's jobs, in a process
 * with that user's rights. result: first one for each case, then one for each job. */
typedef struct p4d_backtest_work {
	const char *user;
	const p4d_backtest_case *cases;
	size_t count;
	const p4d_backtest_case *outputs;
	size_t output_count;
} p4d_backtest_work;
int p4d_backtest__of_owner(const p4d_backtest *b, const p4d_backtest_work *work, p4d_backtest_result *result,
			   p4d_error *err);

/* backtest_output.c: whether the last 64 KiB of a job's output say that GPU memory ran out. */
bool p4d_backtest__says_out_of_memory(const p4d_backtest_case *c);

/* Reports why there is no job to judge: sacct shows no jobs, no jobs with GPUs, or no jobs that have
 * ended. Returns -1. */
int p4d_backtest_no_jobs(const p4d_backtest *b, p4d_error *err);

/* backtest_run.c: judges all jobs. Errors: IO, NO_MEMORY. */
int p4d_backtest_run(p4d_backtest *b, p4d_error *err);
void p4d_backtest_free(p4d_backtest *b);

/* backtest_limits.c: makes the site with the lowest of the limits; NULL: it cannot be made. */
p4d_site *p4d_backtest__strict_site(const p4d_site *site);

/* backtest_count.c */
int p4d_backtest_count(p4d_backtest *b, p4d_error *err);
bool p4d_backtest_is_death(p4d_backtest_end end);
extern const char
    *const p4d_backtest_end_names[P4D_BACKTEST_ENDS]; /* for CSV and JSON, such as "completed" */
extern const char *const p4d_backtest_end_titles[P4D_BACKTEST_ENDS]; /* for tables */
extern const char *const p4d_backtest__verdict_names[P4D_BACKTEST_VERDICTS];
extern const char *const p4d_backtest__stage_titles[P4D_BACKTEST_STAGES];

/* backtest_text.c, backtest_json.c, backtest_html.c */
int p4d_backtest__print(p4d_backtest *b, p4d_error *err);
int p4d_backtest__print_csv(const p4d_backtest *b);
int p4d_backtest__print_json(const p4d_backtest *b, p4d_error *err);
int p4d_backtest__write_html(const p4d_backtest *b, const char *path, p4d_error *err);
