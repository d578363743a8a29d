/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/sbatch.h"
#include "reader/reader.h"
#include "report/advice.h"

/* sbatch's answer for one component of a job, and what p4d check adds. All members are borrowed. */
typedef struct p4d_checked {
	const p4d_sbatch *sbatch;
	const p4d_verdict *verdict;
	const p4d_advice *advice;
	const p4d_reading
	    *script; /* what was read in the script if p4d found no training there; NULL: it found one */
} p4d_checked;

/* Prints sbatch's messages on stderr, and the outcome on stdout. prefix: text before each line: "", or "1:
 * " for a component. */
void p4d_answer_print(const p4d_checked *answer, const char *prefix);

/* The answer as an object of --json, described in p4d(1). The caller owns it. */
struct json_object *p4d_answer_json(const p4d_checked *answer);

/*
 * The code of the message that refuses the job. It becomes the exit status. The first message of the
 * verdict may be a note, such as P4D120. strict: a warning also gives its code, and P4D117 is returned if
 * nothing was checked.
 */
p4d_code p4d_answer_code(const p4d_verdict *verdict, bool strict);
/* Reports a p4d option among the script's arguments (up to a NULL), where sbatch does not see it. */
void p4d_answer_misplaced(char *const *arguments, const char *script);
/* Warns that Slurm's commands did not answer in time: sbatch may know more. */
void p4d_answer_late(void);
