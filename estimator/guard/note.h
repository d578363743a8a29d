/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict_record.h"

/*
 * The verdict of the submitting side, for slurmctld's log and messages, in the variable P4D_EXPORT_VERDICT of
 * the job: outcome, codes, text, fix, "script" or "", "silent" or "" and the fields of a record, separated by
 * tabs, which no message contains. Users can write it themselves, so it never makes slurmctld more lenient,
 * with the exceptions that p4d_note_heed and p4d_note_heed_script name.
 */
typedef struct p4d_note {
	p4d_outcome outcome;
	bool read;   /* the job runs as without its options, if it has any; its script was judged */
	bool silent; /* the submitting side only observes, so it told the user nothing */
	unsigned codes;
	p4d_code code[P4D_MESSAGES];
	char text[480];
	char fix[480];
	p4d_verdict_record record; /* the verdict as a record; zeroed: not judged, or an earlier release */
} p4d_note;

/* Writes the note for a verdict; "" for what slurmctld finds out by itself: a plan that passes. */
enum { P4D_NOTE_MAX = 1200 + P4D_VERDICT_RECORD };
const char *p4d_note_write(const p4d_verdict *verdict, char buf[P4D_NOTE_MAX]);

/* Reads a note; false: there is none, or it is not one that p4d writes. */
bool p4d_note_read(const char *line, p4d_note *note);

/* Why the submitting side refuses. */
p4d_code p4d_note_reason(const p4d_note *note);

/* Whether the submitting side refuses for the same reason as slurmctld. */
bool p4d_note_same_reason(const p4d_note *note, const p4d_verdict *verdict);

/*
 * Combines the note with slurmctld's own verdict on a job with options:
 * - The note's reason replaces NO_PLAN.
 * - A refusal for the same reason gets the note's fix.
 * - If the job passes, slurmctld reports what the submitting side reported.
 * - A refusal because of the script stays a refusal, since slurmctld may not see the script.
 *
 * Exception: a job with options but no plan passes if the submitting side could not judge it through no fault
 * of the user, on_error is pass, and no plan is required. A user who forges such a note gains nothing:
 * without options the job would pass as well. Returns true if the verdict now says what the note says.
 */
bool p4d_note_heed(const p4d_note *note, p4d_verdict *verdict);

/*
 * The same for a job without options. slurmctld has only the script's text. If it could not judge that, its
 * verdict repeats what the submitting side saw, and refuses what that refused (scripts = judge). The
 * exception: a job that must say what it trains counts as saying so if the submitting side judged its script.
 * A user who forges that could just as well type the options of a small model.
 */
bool p4d_note_heed_script(const p4d_note *note, p4d_verdict *verdict);

/*
 * Adds what only the submitting side judged to the record of slurmctld's verdict. by_client: the verdict says
 * what the note says.
 */
void p4d_note_complete(const p4d_note *note, bool by_client, const p4d_verdict *verdict,
		       p4d_verdict_record *record);
