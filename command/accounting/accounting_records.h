/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "accounting/accounting_internal.h"
#include "base/text.h"

/*
 * Reads the lines of sacct. Users can put any character into some fields (names, SubmitLine). p4d
 * therefore lets sacct separate fields by a random text, which no user can know. A record ends at the
 * first line break after as many separators as there are fields.
 */
typedef struct p4d_accounting_records {
	/* set by the caller; all other members are zero at first */
	p4d_accounting_jobs *jobs;                /* gets the jobs */
	bool all;                                 /* also add jobs without GPUs */
	char delimiter[P4D_ACCOUNTING_DELIMITER]; /* without a line break */
	p4d_accounting_field field[P4D_FIELDS];   /* the fields, in the order in which sacct prints them */
	size_t fields;
	/* the record that is being read */
	p4d_text text;
	size_t line, delimiters; /* start of its last line, and number of separators before that */
	bool skips;              /* skips the rest of a line that is too long */
	p4d_accounting_job
	    last;       /* the job to which steps in the following lines belong; raw NULL: there is none */
	char raw[16];   /* JobIDRaw of `last` */
	uint64_t bytes; /* bytes of all jobs that are kept */
	bool no_memory, too_many;
} p4d_accounting_records;

/* Takes a piece of sacct's output. It is a p4d_sacct__sink. false: no memory, or too many jobs. */
bool p4d_accounting__records_take(void *records, const char *bytes, size_t length);
/* Call it at the end of the output. Errors: IO, NO_MEMORY. */
int p4d_accounting__records_end(p4d_accounting_records *records, p4d_error *err);
