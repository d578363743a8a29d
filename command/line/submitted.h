/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "job/read_job.h"
#include "job/sbatch.h"
#include "job/tasks.h"

/*
 * The jobs that a job script submits itself by sbatch commands, with a file, a here-document or --wrap. It
 * keeps at most P4D_SUBMITTED different jobs. Tasks of an array that differ count as separate jobs. The
 * caller fills the members marked below, and sets all others to zero.
 */
enum { P4D_SUBMITTED = 16, P4D_SUBMITTED_FILES = 64 };

typedef struct p4d_submitted_job {
	p4d_sbatch sbatch; /* its options, and the job that they request */
	p4d_reading reading;
	char name[PATH_MAX]; /* name of its script, for messages */
	char from[PATH_MAX]; /* the script that submits it */
	uint32_t line;       /* line of the sbatch command */
	char *script, **arguments, *memory;
	size_t hash;
	bool itself;  /* true: the script submits itself again */
	bool of_task; /* it is a task of an array */
	uint32_t task;
	uint32_t differs[P4D_TASKS_APART]; /* for each kind of task: the number of a task of this kind */
	unsigned kinds;                    /* 0: all tasks are alike, or it is no array */
	bool cut;                          /* there may be more kinds of tasks than the list has */
} p4d_submitted_job;

typedef struct p4d_submitted {
	/* set by the caller */
	const char *script; /* the submitting script. If it submits itself again, that is not another job */
	size_t length;
	p4d_read_files *files;
	char **environment; /* environment of the job that runs the script */
	const char *(*program)(void *site, const char *path); /* as in p4d_job_script */
	void *site;
	/* filled by p4d_submitted_add */
	p4d_submitted_job *job[P4D_SUBMITTED];
	unsigned count;
	unsigned more;   /* number of jobs that were not kept */
	unsigned unread; /* number of jobs whose script or options depend on unknown values */
	/* for the job that is being read */
	p4d_shell *shell;
	char *left[P4D_SUBMITTED_FILES]; /* files that the script has written until now */
	unsigned lefts;
	char text[1024];
} p4d_submitted;

/* p4d_job_script.submits, with a p4d_submitted as context. */
void p4d_submitted_add(void *context, p4d_shell *shell, const p4d_value *words, size_t count);
void p4d_submitted_free(p4d_submitted *submitted);
