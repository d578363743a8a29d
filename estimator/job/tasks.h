/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/array.h"
#include "job/read_job.h"

/*
 * The tasks of an array job whose script says something that depends on the task's number: it is read for one
 * after the other. Tasks that say the same count once. Number and time are bounded, and together the tasks
 * take no more work than the limits say: what is above is cut.
 */
enum { P4D_TASKS_APART = 16 };

typedef struct p4d_job_tasks {
	p4d_job_script script;
	p4d_shell_limits limits; /* of one reading */
	p4d_reading *reading;    /* of the task that was read last */
	p4d_array array;
	unsigned next;
	unsigned apart; /* tasks so far that say something else than those before */
	bool cut;       /* some were not read */
	uint64_t work;  /* that is left */
	uint64_t until_ns;
	uint64_t seen[P4D_TASKS_APART];
	uint32_t task;
	char number[12];
} p4d_job_tasks;

/*
 * For a script that was read by p4d_job_read with these arguments, which have to stay: what reads it for each
 * task. NULL: the job is no array, or no task says anything else. If only a task starts a training, the
 * reading is that task's.
 */
p4d_job_tasks *p4d_job_tasks_of(p4d_job_tasks *tasks, const p4d_job_script *script,
				const p4d_shell_limits *limits, p4d_reading *reading);

/* Reads the script for the next task that says something else than those before. False: there is none. */
bool p4d_job_tasks_next(p4d_job_tasks *tasks);

/* How many such tasks there are, of all; the next one is the first again. */
unsigned p4d_job_tasks_kinds(p4d_job_tasks *tasks);

/* Reads it again for a task; NULL: as it is known for all. */
void p4d_job_tasks_again(p4d_job_tasks *tasks, const uint32_t *task);
