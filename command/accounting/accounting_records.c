/* SPDX-License-Identifier: Apache-2.0 */
#include "accounting/accounting_records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum { RECORD_BYTES = 4 << 20 };
static const uint64_t most_bytes = (uint64_t)4 << 30; /* maximum memory for all jobs that are kept */

static void free_job(p4d_accounting_job *job)
{
	for (size_t i = 0; i < job->steps; i++)
		free((char *)job->step[i].id);
	free(job->step);
	free(job->memory);
	*job = (p4d_accounting_job){.raw = NULL};
}

void p4d_accounting_jobs_free(p4d_accounting_jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++)
		free_job(&jobs->job[i]);
	free(jobs->job);
	*jobs = (p4d_accounting_jobs){.count = 0};
}

/* Adds the last job to the list. All of its steps have been read. */
static void keep_last(p4d_accounting_records *r)
{
	p4d_accounting_jobs *jobs = r->jobs;

	if (!r->last.raw)
		return;
	if (!p4d_grow(&jobs->job, &jobs->room, jobs->count + 1, sizeof(jobs->job[0]))) {
		r->no_memory = true;
		free_job(&r->last);
		return;
	}
	jobs->job[jobs->count++] = r->last;
	r->last = (p4d_accounting_job){.raw = NULL};
}

static void take_step(p4d_accounting_records *r, char *const value[P4D_FIELDS])
{
	const size_t length = strlen(r->raw);
	const char *raw = value[P4D_FIELD_RAW];

	if (r->last.raw && length && !strncmp(raw, r->raw, length) && raw[length] == '.' &&
	    !p4d_accounting__step(&r->last, value))
		r->no_memory = true;
}

/* Reads the job or step of a whole record. Takes over the record's memory if it keeps the job. */
static void take_record(p4d_accounting_records *r, char *memory, size_t length, char *const value[P4D_FIELDS])
{
	p4d_accounting_job job;

	if (strchr(value[P4D_FIELD_RAW], '.')) {
		take_step(r, value);
		free(memory);
		return;
	}
	keep_last(r);
	if (!p4d_accounting__job(&job, value)) {
		r->jobs->malformed++;
		free(memory);
		return;
	}
	r->jobs->seen++;
	if (!job.gpus && !r->all) {
		free(memory);
		return;
	}
	r->bytes += length + sizeof(job);
	r->too_many = r->bytes > most_bytes;
	job.memory = memory;
	snprintf(r->raw, sizeof(r->raw), "%s", job.raw);
	r->last = job;
}

/* Cuts a copy of the record into fields at its separators. */
static void end_record(p4d_accounting_records *r)
{
	static char none[] = "";
	char *memory = strdup(r->text.at), *at = memory;
	char *value[P4D_FIELDS];
	size_t i = 0;

	if (!memory) {
		r->no_memory = true;
		return;
	}
	for (size_t f = 0; f < P4D_FIELDS; f++)
		value[f] = none;
	for (; at && i < r->fields; i++) {
		char *next = strstr(at, r->delimiter);
		value[r->field[i]] = at;
		if (next) {
			*next = '\0';
			next += strlen(r->delimiter);
		}
		at = next;
	}
	if (i == r->fields && !at) {
		take_record(r, memory, r->text.length + 1, value);
		return;
	}
	r->jobs->malformed++;
	free(memory);
}

/* Counts the separators in the last line. */
static size_t count_delimiters(const p4d_accounting_records *r)
{
	size_t count = 0;

	for (const char *at = r->text.at + r->line; (at = strstr(at, r->delimiter));
	     at += strlen(r->delimiter))
		count++;
	return count;
}

static void begin_record(p4d_accounting_records *r)
{
	r->text.length = r->line = r->delimiters = 0;
	if (r->text.at)
		r->text.at[0] = '\0';
}

/* Adds a piece of a line. is_end: the piece ends the line. */
static void take_piece(p4d_accounting_records *r, const char *bytes, size_t length, bool is_end)
{
	if (r->skips) {
		r->skips = !is_end;
		return;
	}
	p4d_text_add_bytes(&r->text, bytes, length);
	r->no_memory = r->no_memory || r->text.truncated;
	if (r->text.length > RECORD_BYTES) {
		r->skips = !is_end;
		r->jobs->malformed++;
		begin_record(r);
	} else if (is_end && !r->no_memory) {
		r->delimiters += count_delimiters(r);
		if (r->delimiters + 1 >= r->fields) {
			end_record(r);
			begin_record(r);
		} else {
			p4d_text_add(&r->text, "\n");
			r->line = r->text.length;
		}
	}
}

bool p4d_accounting__records_take(void *context, const char *bytes, size_t length)
{
	p4d_accounting_records *r = context;

	while (length) {
		const char *end = memchr(bytes, '\n', length);
		const size_t piece = end ? (size_t)(end - bytes) : length;
		take_piece(r, bytes, piece, end != NULL);
		bytes += piece + (end != NULL);
		length -= piece + (end != NULL);
	}
	return !r->no_memory && !r->too_many;
}

int p4d_accounting__records_end(p4d_accounting_records *r, p4d_error *err)
{
	/* the output ended inside a record, or sacct printed something else */
	if (r->text.length)
		r->jobs->malformed++;
	keep_last(r);
	free(r->text.at);
	r->text.at = NULL;
	if (r->no_memory)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", r->jobs->count);
	if (!r->too_many)
		return 0;
	p4d_fail(err, P4D_E_IO,
		 "sacct has more than %zu jobs with GPUs; p4d would need more than %" PRIu64
		 " GiB of memory for them",
		 r->jobs->count, most_bytes >> 30);
	return p4d_fix(err, "--since=DATE with a later date");
}
