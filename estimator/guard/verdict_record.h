/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/digest.h"
#include "guard/verdict_log.h"

/*
 * A verdict as one word, which slurmctld keeps with the job: in AdminComment, or in Extra. This is the only
 * place that knows its grammar; p4d.conf(5) documents it under RECORD.
 *
 *   word   = "p4d:" DIGEST ":" fields    of a job with an approved plan, whose digest it is
 *          | "p4d-verdict:" fields       of any other job
 *   fields = field { "," field }
 *   field  = NEED "of" CAPACITY "GiB" | NEED "GiB" | NAME "=" VALUE
 *
 * A value has no blank, comma or control character: these are written as %xx. A reader skips names that it
 * does not know. Words of earlier releases have fewer fields.
 */
struct p4d_verdict_record {
	bool approved;                 /* p4d approved a plan */
	char digest[P4D_DIGEST_TEXT];  /* digest of the approved plan, or of the judged layout; "": p4d judged
					  none */
	double need_gib, capacity_gib; /* memory that the fullest GPU needs and has; 0: unknown */
	uint32_t nodes, gpus_per_node; /* the job's nodes, and GPUs of each; 0: unknown */
	uint32_t tp, cp, pp, micro_batch; /* numbers of the layout; 0: unknown */
	char model[64], framework[24], phase[24], gpu[48];
	char verdict[16]; /* name of a p4d_outcome; "": a record of an earlier release */
	char code[40];    /* all codes, joined by "+": P4D113+P4D012 */
	char mode[16];    /* mode of the site */
	char read[16];    /* "script": p4d judged the script */
	char by[16];      /* "client": the submitting side's verdict, which users could forge */
	char id[32];      /* id in the verdict's line of slurmctld's log */
};

/* The size of the longest word, with its NUL. */
enum { P4D_VERDICT_RECORD = 896 };

/* Makes a record from a verdict; leaves id and by empty. */
p4d_verdict_record p4d_verdict_record_of(const p4d_verdict *verdict);

/* Writes the whole word. Returns buf. */
const char *p4d_verdict_record_write(const p4d_verdict_record *record, char buf[P4D_VERDICT_RECORD]);
/* Writes only the fields. Returns buf. */
const char *p4d_verdict_record_fields(const p4d_verdict_record *record, char buf[P4D_VERDICT_RECORD]);

/*
 * Reads the first record in a text that has other words as well. False: there is none, or it is malformed;
 * *record is then zeroed. text may be NULL.
 */
bool p4d_verdict_record_read(const char *text, p4d_verdict_record *record);
/* Like p4d_verdict_record_read, for a text that consists of the fields. */
bool p4d_verdict_record_read_fields(const char *fields, p4d_verdict_record *record);

/* Whether a word starts like a record, whatever follows. */
bool p4d_verdict_record_is_word(const char *word);

/* The number of an outcome; P4D_OUTCOMES: there is no such name. */
p4d_outcome p4d_verdict_record_outcome(const p4d_verdict_record *record);
