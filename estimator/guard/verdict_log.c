/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/verdict_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guard/verdict_record.h"

/* maximum bytes of a user's name or text that the log shows */
enum { VALUE_BYTES = 256 };

static bool says(const p4d_verdict *verdict, p4d_code code)
{
	for (unsigned i = 0; i < verdict->messages; i++)
		if (verdict->message[i].code == code)
			return true;
	return false;
}

p4d_outcome p4d_verdict_outcome(const p4d_verdict *verdict)
{
	if (verdict->action == P4D_REJECT)
		return P4D_OUTCOME_REFUSE;
	if (verdict->would_reject)
		return P4D_OUTCOME_WOULD_REFUSE;
	if (!verdict->judged)
		return P4D_OUTCOME_NOT_JUDGED;
	if (says(verdict, P4D_E_CHANGED))
		return P4D_OUTCOME_REWRITE;
	/* messages about choices and assumptions of p4d count as remarks */
	const int remarks = says(verdict, P4D_E_CHOSE) + says(verdict, P4D_E_ASSUMED) +
			    says(verdict, P4D_E_READ) +
			    (verdict->action == P4D_PASS && says(verdict, P4D_E_REHEARSED));
	return verdict->messages > (unsigned)remarks ? P4D_OUTCOME_WARN : P4D_OUTCOME_PASS;
}

const char *p4d_outcome_name(p4d_outcome outcome)
{
	static const char *const names[P4D_OUTCOMES] = {
	    [P4D_OUTCOME_PASS] = "pass",
	    [P4D_OUTCOME_WARN] = "warn",
	    [P4D_OUTCOME_REWRITE] = "rewrite",
	    [P4D_OUTCOME_NOT_JUDGED] = "not-judged",
	    [P4D_OUTCOME_WOULD_REFUSE] = "would-refuse",
	    [P4D_OUTCOME_REFUSE] = "refuse",
	};

	return names[outcome];
}

p4d_outcome p4d_outcome_named(const char *name)
{
	p4d_outcome outcome = P4D_OUTCOME_PASS;

	while (outcome < P4D_OUTCOMES && strcmp(name, p4d_outcome_name(outcome)) != 0)
		outcome++;
	return outcome;
}

bool p4d_verdict_is_logged(const p4d_verdict_record *record, p4d_log level)
{
	if (level == P4D_LOG_NONE || !record->verdict[0])
		return false;
	return level == P4D_LOG_ALL || p4d_verdict_record_outcome(record) >= P4D_OUTCOME_NOT_JUDGED;
}

static void put(p4d_text *line, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends a key. printf would be slow, and slurmctld writes a line for every job. */
static void put_key(p4d_text *line, const char *key)
{
	p4d_text_add(line, " ");
	p4d_text_add(line, key);
	p4d_text_add(line, "=");
}

static void put(p4d_text *line, const char *key, const char *format, ...)
{
	char value[VALUE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	put_key(line, key);
	p4d_text_quoted(line, value);
}

static void put_text(p4d_text *line, const char *key, const char *value)
{
	if (value && strnlen(value, VALUE_BYTES) == VALUE_BYTES) {
		put(line, key, "%.*s", VALUE_BYTES - 1, value);
		return;
	}
	put_key(line, key);
	p4d_text_quoted(line, value ? value : "");
}

static void put_number(p4d_text *line, const char *key, bool known, int decimals, double number)
{
	if (known)
		put(line, key, "%.*f", decimals, number);
	else
		put_text(line, key, NULL);
}

/* Writes the memory that only the submitting side predicted, and says so. */
static void put_memory(p4d_text *line, const p4d_verdict *verdict, const p4d_verdict_record *r)
{
	const bool judged = verdict->judged, known = judged || r->need_gib > 0,
		   compared = r->capacity_gib > 0;

	put_text(line, "phase", r->phase);
	put_number(line, "need_gib", known, 1, r->need_gib);
	put_number(line, "capacity_gib", compared, 1, r->capacity_gib);
	put_number(line, "fraction", compared, 3,
		   judged ? verdict->estimate.fraction : r->need_gib / r->capacity_gib);
	put_number(line, "limit", judged, 3,
		   judged ? p4d_site_policy_limit(&verdict->policy, verdict->layout.framework) : 0);
}

/* Appends the codes of all messages, joined by commas; or (!codes) their texts, joined by "; ". */
static void put_messages(p4d_text *line, const p4d_verdict *verdict, bool codes)
{
	char value[P4D_MESSAGES * sizeof(verdict->message[0].text)];
	p4d_text list = p4d_text_in(value, sizeof(value));

	for (unsigned i = 0; i < verdict->messages; i++)
		if (codes)
			p4d_text_entry(&list, ",", "P4D%03d", (int)verdict->message[i].code);
		else
			p4d_text_entry(&list, "; ", "%s", verdict->message[i].text);
	put_key(line, codes ? "code" : "text");
	p4d_text_quoted(line, value);
}

/* The job's account and QOS: as typed or, if the cluster's accounting is known, the default. */
static const char *account_of(const p4d_job *job)
{
	return job->account || !p4d_associations_known(job->associations)
		   ? job->account
		   : p4d_associations_default_account(job->associations, job->user);
}

static const char *qos_of(const p4d_job *job, const char *account, const char *partition)
{
	return job->qos || !p4d_associations_known(job->associations)
		   ? job->qos
		   : p4d_associations_default_qos(job->associations, job->user, account, partition,
						  strcspn(partition, ","));
}

const char *p4d_verdict_line(const p4d_verdict_subject *subject, const p4d_verdict *verdict, char *buf,
			     size_t size)
{
	p4d_text line = p4d_text_in(buf, size);
	const p4d_job *job = subject->job;
	const p4d_geometry *geometry = &verdict->geometry;
	const p4d_verdict_record *r = subject->record;
	p4d_verdict_record own;

	if (!r) {
		own = p4d_verdict_record_of(verdict);
		r = &own;
	}
	p4d_text_add(&line, "p4d:");
	put_text(&line, "event", subject->event);
	put_text(&line, "verdict",
		 r->verdict[0] ? r->verdict : p4d_outcome_name(p4d_verdict_outcome(verdict)));
	put_messages(&line, verdict, true);
	put_text(&line, "job", subject->name);
	put_text(&line, "job_id", subject->job_id);
	put_text(&line, "id", r->id);
	put(&line, "uid", "%" PRIu32, subject->uid);
	const char *partition = job->partition ? job->partition : geometry->partition;
	const char *account = account_of(job);
	put_text(&line, "account", account);
	put_text(&line, "partition", partition);
	put_text(&line, "qos", qos_of(job, account, partition));
	put_text(&line, "model", r->model);
	put_text(&line, "framework", r->framework);
	put_text(&line, "gpu", r->gpu);
	put_number(&line, "nodes", r->nodes, 0, r->nodes);
	put_memory(&line, verdict, r);
	put_text(&line, "digest", r->digest);
	put_text(&line, "mode", p4d_site_mode_name(verdict->policy.mode));
	put_text(&line, "read", verdict->read ? "script" : NULL);
	put_text(&line, "source", subject->source);
	put_messages(&line, verdict, false);
	return buf;
}
