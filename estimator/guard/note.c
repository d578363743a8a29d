/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Errors that only the submitting side can find: from the script and the files that it names, and from the
 * user's rehearsals. */
static bool is_of_script(p4d_code code)
{
	return code == P4D_E_CONTRADICTION || code == P4D_E_NO_EFFECT || code == P4D_E_REHEARSED;
}

/* Whether a message can be the reason of a refusal. Other messages may precede it. */
static bool is_reason(p4d_code code)
{
	return code == P4D_E_REHEARSED ||
	       (code < P4D_E_CHOSE && code != P4D_E_AMBIGUOUS_GPU && code != P4D_E_MIXED_GPUS);
}

/* The message that says why a job is refused; if there is none, the first message. */
static unsigned reason_of(const p4d_verdict *verdict)
{
	for (unsigned i = 0; i < verdict->messages; i++)
		if (is_reason(verdict->message[i].code))
			return i;
	return 0;
}

p4d_code p4d_note_reason(const p4d_note *note)
{
	for (unsigned i = 0; i < note->codes; i++)
		if (is_reason(note->code[i]))
			return note->code[i];
	return note->codes ? note->code[0] : P4D_OK;
}

/*
 * Writes the part of a record that slurmctld may be unable to find out by itself. "": the submitting side
 * judged nothing.
 */
static void write_judged(const p4d_verdict *verdict, char buf[P4D_VERDICT_RECORD])
{
	p4d_verdict_record record;

	if (!verdict->judged && !verdict->digest[0])
		return;
	record = p4d_verdict_record_of(verdict);
	record.approved = false;
	record.code[0] = record.mode[0] = record.read[0] = '\0';
	p4d_verdict_record_fields(&record, buf);
}

const char *p4d_note_write(const p4d_verdict *verdict, char buf[P4D_NOTE_MAX])
{
	p4d_text line = p4d_text_in(buf, P4D_NOTE_MAX);
	const p4d_outcome outcome =
	    verdict->fault_of_site ? P4D_OUTCOME_NOT_JUDGED : p4d_verdict_outcome(verdict);

	/* slurmctld does not know that the submitting side read the script of a job without options */
	const bool read = verdict->read && !verdict->plan[0];
	if (!read && (!verdict->messages || outcome == P4D_OUTCOME_PASS))
		return buf;
	p4d_text_print(&line, "%s\t", p4d_outcome_name(outcome));
	for (unsigned i = 0; i < verdict->messages; i++)
		p4d_text_print(&line, "%sP4D%03d", i ? "," : "", (int)verdict->message[i].code);
	if (verdict->messages)
		p4d_text_print(&line, "\t%s\t%s", verdict->message[reason_of(verdict)].text,
			       verdict->message[reason_of(verdict)].fix);
	else
		p4d_text_add(&line, "\t\t");
	const bool silent = verdict->policy.mode == P4D_MODE_OBSERVE;
	char judged[P4D_VERDICT_RECORD] = "";
	if (!verdict->plan[0]) /* slurmctld checks plans itself */
		write_judged(verdict, judged);
	if (read || silent || *judged)
		p4d_text_print(&line, "\t%s", read ? "script" : "");
	if (silent || *judged)
		p4d_text_add(&line, silent ? "\tsilent" : "\t");
	if (*judged)
		p4d_text_print(&line, "\t%s", judged);
	return buf;
}

/* Reads the field at *at, up to a tab or the end, and escapes it; moves *at past it. */
static void read_field(const char **at, char *buf, size_t size)
{
	char raw[sizeof(((p4d_note *)0)->text)];
	const size_t length = strcspn(*at, "\t");
	p4d_text text = p4d_text_in(buf, size);

	snprintf(raw, sizeof(raw), "%.*s", (int)(length < sizeof(raw) ? length : sizeof(raw) - 1), *at);
	p4d_text_escaped(&text, raw);
	*at += length + ((*at)[length] == '\t');
}

/* Reads codes such as "P4D012,P4D110". */
static bool read_codes(const char *at, p4d_note *note)
{
	note->codes = 0;
	if (!*at)
		return true;
	for (; note->codes < P4D_MESSAGES; note->codes++) {
		char *end;
		if (strncmp(at, "P4D", 3) != 0)
			return false;
		const p4d_code code = (p4d_code)strtoul(at + 3, &end, 10);
		if (end != at + 6 || !p4d_error_code_title(code))
			return false;
		note->code[note->codes] = code;
		at = end + (*end == ',');
		if (end == at)
			break;
	}
	note->codes++;
	return note->codes <= P4D_MESSAGES && !*at;
}

bool p4d_note_read(const char *line, p4d_note *note)
{
	char word[64];

	if (!line)
		return false;
	read_field(&line, word, sizeof(word));
	note->outcome = p4d_outcome_named(word);
	if (note->outcome == P4D_OUTCOMES)
		return false;
	read_field(&line, word, sizeof(word));
	if (!read_codes(word, note))
		return false;
	read_field(&line, note->text, sizeof(note->text));
	read_field(&line, note->fix, sizeof(note->fix));
	read_field(&line, word, sizeof(word));
	note->read = !strcmp(word, "script");
	read_field(&line, word, sizeof(word));
	note->silent = !strcmp(word, "silent");
	memset(&note->record, 0, sizeof(note->record));
	p4d_verdict_record_read_fields(line, &note->record);
	if (p4d_verdict_record_outcome(&note->record) == P4D_OUTCOMES)
		note->record.verdict[0] = '\0';
	/* a verdict without messages needs a note only if it is about a script */
	return note->read || (note->codes && note->outcome != P4D_OUTCOME_PASS);
}

/* Copies the note into the verdict. */
static bool adopt(const p4d_note *note, p4d_verdict *verdict)
{
	verdict->messages = note->codes;
	for (unsigned i = 0; i < note->codes; i++)
		verdict->message[i] = (p4d_message){.code = note->code[i]};
	p4d_message *reason = &verdict->message[reason_of(verdict)];
	memcpy(reason->text, note->text, sizeof(note->text));
	memcpy(reason->fix, note->fix, sizeof(note->fix));
	return true;
}

/*
 * Makes the verdict as strict as the note. The note belongs to the user, so it never makes a verdict milder.
 * A note causes a refusal only for a reason that slurmctld cannot see (unseen).
 */
static void refuse_as(const p4d_note *note, bool unseen, p4d_verdict *verdict)
{
	verdict->would_reject = note->outcome >= P4D_OUTCOME_WOULD_REFUSE;
	if (note->outcome == P4D_OUTCOME_REFUSE && verdict->policy.mode == P4D_MODE_ENFORCE && unseen)
		verdict->action = P4D_REJECT;
}

bool p4d_note_same_reason(const p4d_note *note, const p4d_verdict *verdict)
{
	const p4d_code code = verdict->messages ? verdict->message[reason_of(verdict)].code : P4D_OK,
		       noted = p4d_note_reason(note);

	/* slurmctld does not search for another layout, so it has DOES_NOT_FIT where the note has
	 * NO_LAYOUT */
	return code && (noted == code || (code == P4D_E_DOES_NOT_FIT && noted == P4D_E_NO_LAYOUT));
}

static bool was_judged(const p4d_note *note)
{
	return note->outcome != P4D_OUTCOME_NOT_JUDGED && note->outcome != P4D_OUTCOME_REFUSE &&
	       !(note->codes && note->code[0] == P4D_E_PLAN_REQUIRED);
}

/* Accepts that slurmctld could not read the script: the submitting side judged it and has nothing to
 * report. */
static bool pass(p4d_verdict *verdict)
{
	verdict->read = true;
	verdict->action = P4D_PASS;
	verdict->messages = 0;
	return true;
}

bool p4d_note_heed_script(const p4d_note *note, p4d_verdict *verdict)
{
	const p4d_policy *policy = &verdict->policy;

	if (!note->read || policy->exempt || policy->mode == P4D_MODE_OFF)
		return false;
	if (p4d_verdict_requires_plan(verdict) && policy->scripts != P4D_SCRIPTS_IGNORE && was_judged(note)) {
		verdict->action = P4D_PASS;
		verdict->would_reject = false;
		verdict->messages = 0;
	}
	const bool of_script = is_of_script(p4d_note_reason(note));
	if (verdict->action == P4D_REJECT)
		return false;
	if (!note->codes && note->record.verdict[0] && was_judged(note) && !verdict->judged &&
	    !verdict->would_reject)
		return pass(verdict);
	if (!note->codes || (verdict->judged && !(of_script && note->outcome == P4D_OUTCOME_REFUSE)))
		return false;
	verdict->read = true;
	refuse_as(note, of_script || policy->scripts == P4D_SCRIPTS_JUDGE, verdict);
	return adopt(note, verdict);
}

bool p4d_note_heed(const p4d_note *note, p4d_verdict *verdict)
{
	const p4d_policy *policy = &verdict->policy;
	p4d_message *first = &verdict->message[0];

	if (policy->exempt || policy->mode == P4D_MODE_OFF)
		return false;
	if (verdict->messages && first->code == P4D_E_NO_PLAN) {
		if (note->outcome == P4D_OUTCOME_NOT_JUDGED && policy->on_error == P4D_ON_ERROR_PASS &&
		    !policy->require_plan) {
			verdict->action = P4D_PASS;
			verdict->would_reject = false;
		}
		return adopt(note, verdict);
	}
	if (verdict->action == P4D_REJECT || verdict->would_reject) {
		if (p4d_note_same_reason(note, verdict) && !first->fix[0])
			memcpy(first->fix, note->fix, sizeof(note->fix));
		return false;
	}
	if (note->outcome <= p4d_verdict_outcome(verdict))
		return false;
	refuse_as(note, is_of_script(p4d_note_reason(note)), verdict);
	return adopt(note, verdict);
}

void p4d_note_say_moved(const p4d_note *note, const p4d_job *job, p4d_verdict *verdict)
{
	const p4d_gpu *gpu = verdict->geometry.gpu;
	const char *then = verdict->planned.gpu[0] ? verdict->planned.gpu : note ? note->record.gpu : "";
	const char *partition = job->partition ? job->partition : verdict->geometry.partition;

	if (!verdict->messages || !gpu || !then[0] || !strcmp(gpu->name, then) || !partition[0])
		return;
	p4d_message *reason = &verdict->message[reason_of(verdict)];
	p4d_text text = {.at = reason->text, .size = sizeof(reason->text), .length = strlen(reason->text)};
	p4d_text_add(&text, "; sbatch judged ");
	p4d_text_escaped(&text, then); /* users can forge a note */
	p4d_text_print(&text, ", and slurmctld has the job in partition %.64s", partition);
	if (!reason->fix[0] || !strcmp(reason->fix, P4D_FIX_CHECK))
		snprintf(reason->fix, sizeof(reason->fix), "p4d check --partition=%.64s JOB.sh", partition);
}

void p4d_note_complete(const p4d_note *note, bool by_client, const p4d_verdict *verdict,
		       p4d_verdict_record *record)
{
	const p4d_policy *policy = &verdict->policy;
	const p4d_verdict_record *judged = &note->record;

	if (verdict->judged || record->digest[0] || policy->exempt || policy->mode == P4D_MODE_OFF ||
	    (verdict->messages ? !by_client : !judged->verdict[0]))
		return;
	p4d_verdict_record all = *judged;
	memcpy(all.mode, record->mode, sizeof(all.mode));
	snprintf(all.by, sizeof(all.by), "client");
	snprintf(all.read, sizeof(all.read), "%s", note->read ? "script" : "");
	memcpy(all.code, record->code, sizeof(all.code));
	if (verdict->messages)
		memcpy(all.verdict, record->verdict, sizeof(all.verdict));
	if (!all.gpu[0])
		memcpy(all.gpu, record->gpu, sizeof(all.gpu));
	if (!all.model[0])
		memcpy(all.model, record->model, sizeof(all.model));
	if (!all.nodes) {
		all.nodes = record->nodes;
		all.gpus_per_node = record->gpus_per_node;
	}
	*record = all;
}
