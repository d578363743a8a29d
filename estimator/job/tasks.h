/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/array.h"
#include "job/read_job.h"

/*
 * The tasks of a job array whose script depends on the task's number. p4d reads the script for one task after
 * the other, and counts tasks with equal readings once. The number of tasks and the total work are bounded by
 * `limits`; tasks beyond these bounds are not read.
 */
enum { P4D_TASKS_APART = 16 };

typedef struct p4d_job_tasks {
	p4d_job_script script;
	p4d_shell_limits limits; /* limits of one reading */
	p4d_reading *reading;    /* reading of the last task */
	p4d_array array;
	unsigned next;
	unsigned apart; /* number of different readings that p4d found so far */
	bool cut;       /* some tasks were not read */
	uint64_t work;  /* work that is left */
	uint64_t until_ns;
	uint64_t seen[P4D_TASKS_APART];
	uint32_t task;
	char number[12];
} p4d_job_tasks;

/*
 * Prepares reading a script for each task. p4d_job_read must have read the script with these arguments, which
 * must stay valid. NULL: the job is no array, or all tasks have the same reading. If only one task starts a
 * training, *reading is that task's reading.
 */
p4d_job_tasks *p4d_job_tasks_of(p4d_job_tasks *tasks, const p4d_job_script *script,
				const p4d_shell_limits *limits, p4d_reading *reading);

/* Reads the script for the next task whose reading differs from those before. False: there is none. */
bool p4d_job_tasks_next(p4d_job_tasks *tasks);

/* The number of different readings among all tasks. Afterwards, the next task is the first one again. */
unsigned p4d_job_tasks_kinds(p4d_job_tasks *tasks);

/* Reads the script again with the number of a task. NULL: without a task number. */
void p4d_job_tasks_again(p4d_job_tasks *tasks, const uint32_t *task);
