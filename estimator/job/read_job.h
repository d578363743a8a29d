/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stddef.h>

#include "job/job.h"
#include "reader/read_files.h"
#include "reader/reader.h"
#include "rehearsals/rehearsals.h"

/*
 * Reads a job's script as the job will run it: with Slurm's variables for its nodes, tasks and GPUs as far as
 * they are fixed, and with the environment that sbatch passes on.
 */
typedef struct p4d_job_script {
	const p4d_job *job;           /* including the script's text */
	const char *name;             /* name of the script, for messages */
	const char *const *arguments; /* NULL-terminated; NULL: none */
	const char *directory;        /* the job's working directory; NULL: unknown */
	char *const *environment;     /* NAME=VALUE */
	size_t variables;             /* number of strings in `environment`; a NULL in it ends it earlier */
	const char *export;           /* sbatch's --export; NULL: all */
	const p4d_request *typed;     /* the job's p4d options; NULL: none */
	const char *task;             /* number of the array task that runs it; NULL: unknown */
	bool submitted; /* `typed` has all options of the job, so without --array the job is no array */
	/* The framework that the site names for a program; NULL: none. */
	const char *(*program)(void *site, const char *path);
	void *site;
	p4d_read_files *files; /* stores the files that are read; NULL: p4d may read no files */
	p4d_config_read *(*config)(p4d_config_format format); /* parses their formats; NULL: p4d parses
							       * none */
	/* Called for a command "sbatch" that the script runs, with its arguments. NULL: p4d ignores such
	 * commands. */
	void (*submits)(void *context, p4d_shell *shell, const p4d_value *words, size_t count);
	/*
	 * A job that another script submits may use variables and files that this script sets. `inherited`
	 * returns the value of such a variable, and `left` the content of such a file. NULL: no other script
	 * submits the job.
	 */
	const char *(*inherited)(void *context, const char *name);
	const char *(*left)(void *context, const char *path, size_t *length);
	/* The value of a variable that only the running job knows. p4d_shell_later: the value is unknown.
	 * NULL: there are no such variables. */
	const char *(*later)(void *context, const char *name);
	/* As in p4d_reader_host. */
	void (*starts)(void *context, p4d_shell *shell, const p4d_started *command);
	void *context;                     /* argument of these functions */
	struct p4d_rehearsals *rehearsals; /* gets the rehearsals of the script's commands; NULL: not
					    * needed */
} p4d_job_script;

/* The keys with which a command of a script is looked up among rehearsals. */
typedef struct p4d_job_command {
	char key[P4D_REHEARSALS_KEY_TEXT];
	/* the key without variables whose value p4d does not know, so that another job may have this key;
	 * "": all values are known */
	char of_known[P4D_REHEARSALS_KEY_TEXT];
	char directory[PATH_MAX]; /* directory in which the command starts */
} p4d_job_command;

/* command: includes its program. False: p4d does not know all of its words. */
bool p4d_job_command_key(const p4d_job *job, p4d_shell *shell, const p4d_started *command,
			 p4d_job_command *to);

/* The reading borrows from the memory of `limits`, from the files and from *script. */
void p4d_job_read(const p4d_job_script *script, const p4d_shell_limits *limits, p4d_reading *reading);
