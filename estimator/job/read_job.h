/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stddef.h>

#include "job/job.h"
#include "reader/read_files.h"
#include "reader/reader.h"
#include "rehearsals/rehearsals.h"

/*
 * Reads a job's script as the job will run it: with Slurm's variables of its nodes, tasks and GPUs as far as
 * they are fixed, and with those of the environment that sbatch passes on.
 */
typedef struct p4d_job_script {
	const p4d_job *job;           /* with the script's text */
	const char *name;             /* name of the script, for messages */
	const char *const *arguments; /* NULL-terminated; NULL: none */
	const char *directory;        /* the job's; NULL: unknown */
	char *const *environment;     /* NAME=VALUE */
	size_t variables;             /* number of variables, or as many as there are before a NULL */
	const char *export;           /* sbatch's --export; NULL: all */
	const p4d_request *typed;     /* the job's p4d options; NULL: none */
	const char *task;             /* number of the array's task that runs it; NULL: not known */
	bool submitted;               /* with all of its options: without --array it is no array */
	/* What the site says that a program is; NULL: nothing. */
	const char *(*program)(void *site, const char *path);
	void *site;
	p4d_read_files *files; /* takes the files that are read; NULL: none may be */
	p4d_config_read *(*config)(p4d_config_format format); /* parses their formats; NULL: none */
	/* A command "sbatch" that the script runs, with its arguments; NULL: nobody asks. */
	void (*submits)(void *context, p4d_shell *shell, const p4d_value *words, size_t count);
	/* For a job that a script submits: the environment and the files that this script gives it; NULL: the
	 * script has its own. */
	const char *(*inherited)(void *context, const char *name);
	const char *(*left)(void *context, const char *path, size_t *length);
	/* The value of a variable that only the job will know; p4d_shell_later: nobody knows it. NULL: there
	 * are none. */
	const char *(*later)(void *context, const char *name);
	/* As in p4d_reader_host. */
	void (*starts)(void *context, p4d_shell *shell, const p4d_started *command);
	void *context;                     /* for these functions */
	struct p4d_rehearsals *rehearsals; /* gets the rehearsals of its commands; NULL: not needed */
} p4d_job_script;

/* How a command that a script starts is found among rehearsals. */
typedef struct p4d_job_command {
	char key[P4D_REHEARSALS_KEY_TEXT];
	/* without variables whose value p4d does not know, so that another job may have this key; "": all are
	 * known */
	char of_known[P4D_REHEARSALS_KEY_TEXT];
	char directory[PATH_MAX]; /* where it is started */
} p4d_job_command;

/* command: with its program. False: not all of its words are known. */
bool p4d_job_command_key(const p4d_job *job, p4d_shell *shell, const p4d_started *command,
			 p4d_job_command *to);

/* The reading borrows from the limits' memory, the files and *script. */
void p4d_job_read(const p4d_job_script *script, const p4d_shell_limits *limits, p4d_reading *reading);
