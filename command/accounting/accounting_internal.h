/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "accounting/accounting.h"

struct p4d_accounting {
	unsigned release;
	char *fields; /* sacct --helpformat */
};

enum { P4D_ACCOUNTING_DELIMITER = 20 };

/*
 * The fields of a job's or step's line; accounting_line.c reads them. FIELD has the order of sacct's output.
 * A record ends at the first line break in its last field (accounting_records.h). Therefore the last field is
 * a number, which contains no line break.
 */
#define P4D_ACCOUNTING_FIELDS(FIELD) \
	FIELD(ID, "JobID") \
	FIELD(RAW, "JobIDRaw") \
	FIELD(USER, "User") \
	FIELD(ACCOUNT, "Account") \
	FIELD(PARTITION, "Partition") \
	FIELD(QOS, "QOS") \
	FIELD(RESERVATION, "Reservation") \
	FIELD(NAME, "JobName") \
	FIELD(CLUSTER, "Cluster") \
	FIELD(WORK_DIR, "WorkDir") \
	FIELD(SUBMIT_LINE, "SubmitLine") \
	FIELD(ADMIN_COMMENT, "AdminComment") \
	FIELD(EXTRA, "Extra") \
	FIELD(STD_OUT, "StdOut") \
	FIELD(STD_ERR, "StdErr") \
	FIELD(STATE, "State") \
	FIELD(EXIT, "ExitCode") \
	FIELD(REQ_TRES, "ReqTRES") \
	FIELD(ALLOC_TRES, "AllocTRES") \
	FIELD(IN_MAX, "TRESUsageInMax") \
	FIELD(SUBMIT, "Submit") \
	FIELD(START, "Start") \
	FIELD(END, "End") \
	FIELD(ELAPSED, "ElapsedRaw") \
	FIELD(TASKS, "NTasks") \
	FIELD(NODES, "NNodes")

typedef enum p4d_accounting_field {
#define FIELD(id, name) P4D_FIELD_##id,
	P4D_ACCOUNTING_FIELDS(FIELD)
#undef FIELD
	    P4D_FIELDS
} p4d_accounting_field;

/*
 * Fills a job from the fields of its line, which belong to the job from then on. False: the line is no job.
 */
bool p4d_accounting__job(p4d_accounting_job *job, char *const value[P4D_FIELDS]);
/* Adds the step of a line to its job. False: there was no memory. */
bool p4d_accounting__step(p4d_accounting_job *job, char *const value[P4D_FIELDS]);
