/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict_record.h"

/*
 * The verdict of the submitting side (sbatch, salloc, srun), for slurmctld's log and messages. It is in the
 * variable P4D_EXPORT_VERDICT of the job. Fields: outcome, codes, text, fix, "script" or "", "silent" or "",
 * and the fields of a record. They are separated by tabs, which no message contains. Users can forge the
 * note, so it never makes slurmctld more lenient, with the exceptions described at p4d_note_heed and
 * p4d_note_heed_script.
 */
typedef struct p4d_note {
	p4d_outcome outcome;
	bool read;   /* the job runs as if it had no p4d options; p4d judged its script */
	bool silent; /* the submitting side only observes, so it told the user nothing */
	unsigned codes;
	p4d_code code[P4D_MESSAGES];
	char text[480];
	char fix[480];
	p4d_verdict_record record; /* the verdict as a record; zeroed if the job was not judged, or if an
				      earlier release wrote the note */
} p4d_note;

/* Writes the note for a verdict; "" for a plan that passes, because slurmctld finds that out by itself. */
enum { P4D_NOTE_MAX = 1200 + P4D_VERDICT_RECORD };
const char *p4d_note_write(const p4d_verdict *verdict, char buf[P4D_NOTE_MAX]);

/* Reads a note. False: there is none, or p4d did not write it. */
bool p4d_note_read(const char *line, p4d_note *note);

/* The reason why the submitting side refuses. */
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
 * Exception: a job with options but no plan passes if the submitting side could not judge it for a reason
 * that is not the user's fault, on_error is pass, and the site requires no plan. A user who forges such a
 * note gains nothing: without options the job would pass as well. Returns true if the verdict now repeats the
 * note.
 */
bool p4d_note_heed(const p4d_note *note, p4d_verdict *verdict);

/* If slurmctld judged other GPUs than the submitting side, because another plugin moved the job: adds that to
 * the reason, with the partition and a command for p4d check. note NULL: there is no note. */
void p4d_note_say_moved(const p4d_note *note, const p4d_job *job, p4d_verdict *verdict);

/*
 * Like p4d_note_heed, for a job without options. slurmctld has only the script's text. If it could not judge
 * that text, its verdict repeats the note; it refuses the job if the submitting side did (scripts = judge).
 * Exception: a site may demand that jobs say what they train; a job whose script the submitting side judged
 * meets that demand. A user who forges such a note could just as well type the options of a small model.
 */
bool p4d_note_heed_script(const p4d_note *note, p4d_verdict *verdict);

/*
 * Adds to the record of slurmctld's verdict what only the submitting side judged. by_client: the verdict
 * repeats the note.
 */
void p4d_note_complete(const p4d_note *note, bool by_client, const p4d_verdict *verdict,
		       p4d_verdict_record *record);
