/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/guard.h"

/* A verdict as one line of a log. */

typedef enum p4d_outcome {
	P4D_OUTCOME_PASS,
	P4D_OUTCOME_WARN,         /* passed with a warning */
	P4D_OUTCOME_REWRITE,      /* passed with options that p4d changed */
	P4D_OUTCOME_NOT_JUDGED,   /* passed without a check */
	P4D_OUTCOME_WOULD_REFUSE, /* passed because of the mode or an override */
	P4D_OUTCOME_REFUSE,
	P4D_OUTCOMES
} p4d_outcome;

p4d_outcome p4d_verdict_outcome(const p4d_verdict *verdict);
const char *p4d_outcome_name(p4d_outcome outcome); /* "would-refuse" */
p4d_outcome p4d_outcome_named(const char *name);   /* P4D_OUTCOMES: there is no such outcome */

typedef struct p4d_verdict_record p4d_verdict_record;

/*
 * True if a site with this `log` setting logs the verdict of this record. refusals: logs refused jobs, jobs
 * that would be refused, and jobs with a plan or options that p4d did not check, because such jobs evade a
 * refusal. Jobs without a verdict are not logged: p4d has nothing to say about them, or they are exempt, or
 * the mode is off.
 */
bool p4d_verdict_is_logged(const p4d_verdict_record *record, p4d_log level);

/* Facts about the job of a verdict. Texts may be NULL. */
typedef struct p4d_verdict_subject {
	const char *event;                /* submit, update or step */
	const char *source;               /* who decided: client or controller */
	const char *name;                 /* name of the job */
	const char *job_id;               /* NULL at submission: the job has no id yet */
	const p4d_verdict_record *record; /* the record kept with the job; NULL: made from the verdict */
	uint32_t uid;                     /* user of the request */
	const p4d_job *job;
} p4d_verdict_subject;

/* Any verdict fits a line of this size. */
enum { P4D_VERDICT_LINE = 16384 };

/*
 * Writes `p4d: event="submit" verdict="refuse" ...` as p4d.conf(5) documents it. All keys are always present,
 * in a fixed order; values are quoted and free of control characters. Returns buf.
 */
const char *p4d_verdict_line(const p4d_verdict_subject *subject, const p4d_verdict *verdict, char *buf,
			     size_t size);
