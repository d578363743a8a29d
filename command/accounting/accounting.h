/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Slurm's accounting, as the command `sacct` prints it: ended or running jobs, their scripts and their
 * environments. Works with sacct of 22.05 to 26.05, and needs no library of Slurm. Sizes are bytes, times
 * are seconds since 1970. If sacct does not print a value, the text is "" or the number is 0.
 */

typedef struct p4d_accounting p4d_accounting;

/*
 * Asks sacct for its release and its fields. NULL: there is no sacct in PATH, or it has no accounting.
 * Errors: IO, with sacct's output; NO_MEMORY. The caller frees it with p4d_accounting_close.
 */
p4d_accounting *p4d_accounting_open(p4d_error *err);
void p4d_accounting_close(p4d_accounting *accounting);
/* The release of sacct: 2405 for 24.05; 0: unknown. */
unsigned p4d_accounting_release(const p4d_accounting *accounting);
/* Whether this sacct prints a field ("StdOut", from 24.05 on). Case does not matter. */
bool p4d_accounting_has(const p4d_accounting *accounting, const char *field);

typedef enum p4d_accounting_end {
	P4D_END_NOT_YET, /* the job waits, runs or is suspended */
	P4D_END_COMPLETED,
	P4D_END_FAILED, /* this includes CUDA's out-of-memory error */
	P4D_END_TIMEOUT,
	P4D_END_CANCELLED,
	P4D_END_HOST_MEMORY, /* OUT_OF_MEMORY: the host's memory ran out */
	P4D_END_OF_SITE,     /* NODE_FAIL, BOOT_FAIL, PREEMPTED, DEADLINE, REVOKED, LAUNCH_FAILED */
	P4D_ENDS
} p4d_accounting_end;

typedef struct p4d_accounting_step {
	const char *id; /* "batch", "extern", "0" */
	p4d_accounting_end end;
	uint32_t nodes, tasks, gpus;
	/* gres/gpumem of TRESUsageInMax: of the task that used most; 0: not measured. See
	 * p4d_accounting_gpu_memory. */
	uint64_t most_bytes;
} p4d_accounting_step;

/* Texts belong to the job. */
typedef struct p4d_accounting_job {
	const char *id;  /* the id with which sacct selects the job: "12"; "12_3" in an array; "12+1" in a
			  * heterogeneous job */
	const char *raw; /* Slurm's own number, "15" */
	const char *user, *account, *partition, *qos, *reservation, *name, *cluster;
	const char *work_dir;
	const char *submit_line; /* words of the command line that submitted it, separated by blanks; quotes
				    are lost */
	const char *admin_comment, *extra; /* extra: since 23.11 */
	const char *req_tres, *alloc_tres; /* for p4d_accounting_tres */
	const char *std_out, *std_err;     /* since 24.05; may contain patterns such as %j */
	const char *state;                 /* "FAILED", "CANCELLED by 1000" */
	p4d_accounting_end end;
	int exit_code, exit_signal;
	uint32_t nodes;      /* number of allocated nodes; before the allocation, of requested nodes */
	uint32_t gpus;       /* GPUs of the whole job: allocated or, if it never started, requested */
	uint32_t gpus_asked; /* from ReqTRES */
	char gpu_type[48];   /* type of the allocated GPUs ("h100"); "" if AccountingStorageTRES has no
			      * types */
	uint64_t elapsed_s;
	int64_t submit, start, ended; /* 0: unknown, or not yet */
	size_t steps;
	p4d_accounting_step *step;
	void *memory; /* memory of the texts */
} p4d_accounting_job;

/* GPU-hours of a job: elapsed time multiplied by allocated GPUs. */
double p4d_accounting_gpu_hours(const p4d_accounting_job *job);

/* Selects jobs. A NULL member does not restrict the selection. Lists are separated by commas. */
typedef struct p4d_accounting_query {
	const char *since, *until;                 /* in sacct's formats: "2026-11-01", "now-30days" */
	const char *users, *accounts, *partitions; /* users NULL: all jobs that sacct shows to this user */
	const char *jobs;                          /* ids; if given, since is not needed */
	bool all; /* also select jobs without GPUs; by default only jobs that have or request some */
} p4d_accounting_query;

typedef struct p4d_accounting_jobs {
	size_t count, room;
	p4d_accounting_job *job;
	uint64_t seen;      /* number of jobs that sacct printed, with and without GPUs */
	uint64_t malformed; /* jobs that p4d could not read; not counted in jobs */
} p4d_accounting_jobs;

/*
 * Adds jobs, in the order of sacct, each once. *jobs is zero before the first call; the caller frees it with
 * p4d_accounting_jobs_free, also after an error. Errors: IO, with what sacct printed; NO_MEMORY.
 */
int p4d_accounting_find(p4d_accounting *accounting, const p4d_accounting_query *query,
			p4d_accounting_jobs *jobs, p4d_error *err);
void p4d_accounting_jobs_free(p4d_accounting_jobs *jobs);

typedef enum p4d_accounting_kept {
	P4D_KEPT_SCRIPT,     /* AccountingStoreFlags=job_script */
	P4D_KEPT_ENVIRONMENT /* job_env: lines NAME=VALUE for the names below; for other names in
			      * capitals, only NAME */
} p4d_accounting_kept;

/*
 * Receives the text of the job whose id is ids[index]; the text is NUL-terminated and valid during the call.
 * False: stop.
 */
typedef bool p4d_accounting_take(void *context, size_t index, char *text, size_t length);

/*
 * Gets the scripts or environments that slurmdbd stores for jobs, by their ids (p4d_accounting_job.id). It
 * asks sacct for 500 jobs at a time. Ask for the jobs of one user at a time: sacct prints a heading before
 * the text of each job, and another user's script could contain the same line. sacct has no text for the id
 * of tasks that have not started ("12_[4-9]").
 *
 * p4d calls `take` once for each job with a stored text that this user may see, in any order. Of environments
 * it keeps only the variables that p4d_accounting_may_keep allows. It immediately wipes all others, since
 * they may contain secrets. Errors: IO, NO_MEMORY.
 */
int p4d_accounting_stored(p4d_accounting *accounting, p4d_accounting_kept kind, const char *const *ids,
			  size_t count, p4d_accounting_take *take, void *context, p4d_error *err);

/*
 * Whether p4d may keep a variable: SLURM_*, SBATCH_*, P4D_* (but no keys and tokens), those of PyTorch's
 * allocator, HF_HOME. line: NAME=VALUE.
 */
bool p4d_accounting_may_keep(const char *line);

/*
 * Reads the number of an entry in a TRES text ("cpu=8,gres/gpu:h100=4,mem=64G"). unit: factor for a number
 * without a suffix; K, M, G, T, P and E are powers of 1024. False: there is no such entry, or it is no
 * number.
 */
bool p4d_accounting_tres(const char *text, const char *name, uint64_t unit, uint64_t *number);

/* What gres/gpumem says about the memory of one GPU. */
typedef enum p4d_accounting_measured {
	P4D_MEASURED_NOT,  /* nothing: it is 0 or an impossible number, or no step had GPUs */
	P4D_MEASURED_GPU,  /* memory of the only GPU of the task with the most memory */
	P4D_MEASURED_MEAN, /* mean over the GPUs of the task with the most memory, such as the one task
			    * that torchrun has on a node */
	P4D_MEASURED_LAST  /* memory of some GPU of such a task: sacct before 24.05 only has the last GPU's */
} p4d_accounting_measured;

/*
 * The peak memory of a GPU in bytes, over all steps; 0: not measured. Slurm samples it, so a job that dies in
 * its first step may have had more. It is the memory of the process, including its CUDA context.
 */
uint64_t p4d_accounting_gpu_memory(const p4d_accounting *accounting, const p4d_accounting_job *job,
				   p4d_accounting_measured *how);
