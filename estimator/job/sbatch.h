/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "job/job.h"
#include "request/request.h"

/*
 * Parses a command line, the environment and the #SBATCH lines of a script as sbatch does. The sources may be
 * read in any order: as in sbatch, the command line overrides the environment, which overrides the script.
 */

/* sbatch options that decide where a job runs and where its output goes. P4d's own options follow them in
 * p4d_sbatch.value. */
typedef enum p4d_sbatch_field {
	P4D_SBATCH_NONE,
	P4D_SBATCH_ACCOUNT,
	P4D_SBATCH_ARRAY,
	P4D_SBATCH_CHDIR,
	P4D_SBATCH_CLUSTERS,
	P4D_SBATCH_CONSTRAINT,
	P4D_SBATCH_CORES_PER_SOCKET,
	P4D_SBATCH_CPUS_PER_GPU,
	P4D_SBATCH_CPUS_PER_TASK,
	P4D_SBATCH_ERROR,
	P4D_SBATCH_EXCLUDE,
	P4D_SBATCH_EXCLUSIVE,
	P4D_SBATCH_EXPORT,
	P4D_SBATCH_EXPORT_FILE,
	P4D_SBATCH_EXTRA_NODE_INFO,
	P4D_SBATCH_GET_USER_ENV,
	P4D_SBATCH_GPUS,
	P4D_SBATCH_GPUS_PER_NODE,
	P4D_SBATCH_GPUS_PER_SOCKET,
	P4D_SBATCH_GPUS_PER_TASK,
	P4D_SBATCH_GRES,
	P4D_SBATCH_HINT,
	P4D_SBATCH_MEM,
	P4D_SBATCH_MEM_PER_CPU,
	P4D_SBATCH_MEM_PER_GPU,
	P4D_SBATCH_MEM_UPDATE,
	P4D_SBATCH_MINCPUS,
	P4D_SBATCH_NODEFILE,
	P4D_SBATCH_NODELIST,
	P4D_SBATCH_NODES,
	P4D_SBATCH_NTASKS,
	P4D_SBATCH_NTASKS_PER_CORE,
	P4D_SBATCH_NTASKS_PER_GPU,
	P4D_SBATCH_NTASKS_PER_NODE,
	P4D_SBATCH_OUTPUT,
	P4D_SBATCH_OVERCOMMIT,
	P4D_SBATCH_PARTITION,
	P4D_SBATCH_QOS,
	P4D_SBATCH_REQUEUE,
	P4D_SBATCH_SOCKETS_PER_NODE,
	P4D_SBATCH_RESERVATION,
	P4D_SBATCH_THREADS_PER_CORE,
	P4D_SBATCH_TRES_PER_TASK,
	P4D_SBATCH_WRAP,
	P4D_SBATCH_CONF, /* the next six belong to `p4d check`, not to sbatch */
	P4D_SBATCH_JSON,
	P4D_SBATCH_ELSEWHERE,
	P4D_SBATCH_STRICT,
	P4D_SBATCH_SKIP_UNKNOWN, /* command-line options start here */
	P4D_SBATCH_GPU,
	P4D_SBATCH_P4D_GPU, /* --p4d-gpu: sbatch has no such option, and p4d's error says so */
	P4D_SBATCH_HELP,
	P4D_SBATCH_FIELDS
} p4d_sbatch_field;

typedef enum p4d_sbatch_source {
	P4D_FROM_SCRIPT,
	P4D_FROM_ENVIRONMENT,
	P4D_FROM_COMMAND_LINE
} p4d_sbatch_source;

enum { P4D_SBATCH_VALUES = P4D_SBATCH_FIELDS + P4D_OPTIONS };

/* One job, or one component of a heterogeneous job. Zero it first. The caller owns it; p4d_sbatch_free
 * releases it. */
typedef struct p4d_sbatch {
	char *value[P4D_SBATCH_VALUES]; /* as typed, "" for options without a value; NULL: unset */
	uint8_t source[P4D_SBATCH_VALUES];
	bool skips_foreign; /* also skip options of other plugins on the command line; for an sbatch
			     * command inside a script */
	const char *prefix; /* prefix of the variables for p4d's options; NULL: SBATCH */
	unsigned release;   /* Slurm's version, 2511 for 25.11; 0: unknown, or it does not matter */
	/* filled by p4d_sbatch_job and p4d_sbatch_request */
	char *gres, *gpus, *gpus_per_task, *gpus_per_socket; /* in the syntax of p4d_gres_parse */
	char *nodelist;                                      /* NULL: as in the option */
	char *foreign; /* first option of the script that neither sbatch nor p4d has, "--name"; NULL: none */
	unsigned foreigns;   /* number of such options */
	const char *alike;   /* the known option that may be meant instead of `foreign`; NULL: none */
	p4d_job job;         /* borrows from this struct; contains no script */
	p4d_request request; /* only what the user set */
} p4d_sbatch;

/*
 * Reads a command line; ignores argv[0]. *operand: the index of the first non-option argument, which is the
 * script, or the ":" before the next component of a heterogeneous job; argc if there is none. Errors: USAGE.
 */
int p4d_sbatch_arguments(p4d_sbatch *sbatch, int argc, char *const argv[], int *operand, p4d_error *err);

/* Reads SBATCH_PARTITION, SBATCH_P4D_TP and so on from NAME=VALUE strings. An empty value counts as unset. */
int p4d_sbatch_environment(p4d_sbatch *sbatch, char *const environment[], p4d_error *err);

/* Like p4d_sbatch_environment, with a function that returns the value of one variable, or NULL. */
int p4d_sbatch_variables(p4d_sbatch *sbatch, const char *(*variable)(void *context, const char *name),
			 void *context, p4d_error *err);

/*
 * Reads the #SBATCH lines of one component (0 unless the job is heterogeneous), up to the first command, as
 * sbatch does. *components: number of components in the script. An unknown long option may belong to another
 * SPANK plugin: its name is stored in foreign, and its value is skipped. Errors: USAGE with the line, also
 * for scripts that sbatch refuses.
 */
int p4d_sbatch_script(p4d_sbatch *sbatch, const char *text, size_t length, unsigned component,
		      unsigned *components, p4d_error *err);

/* The number of the first #SBATCH line after the first command, which sbatch ignores; 0: none. *count:
 * number of such lines. */
unsigned p4d_sbatch_late_line(const char *text, size_t length, unsigned *count);

/*
 * Interprets the values of sbatch's own options after all sources are read, and fills `job`. Errors: VALUE,
 * USAGE.
 */
int p4d_sbatch_job(p4d_sbatch *sbatch, p4d_error *err);
/*
 * Interprets the values of p4d's options after all sources are read, and fills `request`. P4d's variables in
 * the environment are defaults. They do not turn a job without GPUs or without a model into a p4d job: its
 * request stays empty. Errors: VALUE, USAGE.
 */
int p4d_sbatch_request(p4d_sbatch *sbatch, p4d_error *err);

void p4d_sbatch_free(p4d_sbatch *sbatch);
