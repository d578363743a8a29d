/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of sacct. Users write some fields (names, SubmitLine), with any character in them, so fields are
 * separated by a text that nobody can know beforehand, and a record ends at the first line break behind as
 * many of those as there are fields.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "accounting/accounting_internal.h"
#include "accounting/sacct.h"
#include "base/grow.h"
#include "base/text.h"

enum { RECORD_BYTES = 4 << 20 };
static const uint64_t most_bytes = (uint64_t)4 << 30; /* of all jobs that are kept */

static const char *const names[P4D_FIELDS] = {
#define FIELD(id, name) name,
    P4D_ACCOUNTING_FIELDS(FIELD)
#undef FIELD
};

typedef struct records {
	p4d_accounting_jobs *jobs;
	const p4d_accounting_query *query;
	char delimiter[P4D_ACCOUNTING_DELIMITER];
	p4d_accounting_field field[P4D_FIELDS]; /* those that this sacct has */
	size_t fields;
	p4d_text text;           /* of the record that is being read */
	size_t checked;          /* so much of it has no line break at its end */
	bool skips;              /* the rest of a line that is too long */
	p4d_accounting_job last; /* whose steps follow; raw NULL: none */
	char raw[16];            /* of it */
	uint64_t bytes;          /* of all that are kept */
	bool no_memory, too_many;
} records;

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

/* The job of the lines before goes where it belongs. */
static void keep_last(records *r)
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

static void take_step(records *r, char *const value[P4D_FIELDS])
{
	const size_t length = strlen(r->raw);
	const char *raw = value[P4D_FIELD_RAW];

	if (r->last.raw && length && !strncmp(raw, r->raw, length) && raw[length] == '.' &&
	    !p4d_accounting__step(&r->last, value))
		r->no_memory = true;
}

/* A whole record, whose memory it takes if it keeps the job. */
static void take_record(records *r, char *memory, size_t length, char *const value[P4D_FIELDS])
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
	if (!job.gpus && !r->query->all) {
		free(memory);
		return;
	}
	r->bytes += length + sizeof(job);
	r->too_many = r->bytes > most_bytes;
	job.memory = memory;
	snprintf(r->raw, sizeof(r->raw), "%s", job.raw);
	r->last = job;
}

/* Cuts a copy of the record at its delimiters. */
static void end_record(records *r)
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

static size_t count_delimiters(const records *r)
{
	size_t count = 0;

	for (const char *at = r->text.at; (at = strstr(at, r->delimiter)); at += strlen(r->delimiter))
		count++;
	return count;
}

static void begin_record(records *r)
{
	r->text.length = 0;
	if (r->text.at)
		r->text.at[0] = '\0';
}

/* A line, or the beginning of one: is_end. */
static void take_piece(records *r, const char *bytes, size_t length, bool is_end)
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
		if (count_delimiters(r) + 1 >= r->fields) {
			end_record(r);
			begin_record(r);
		} else {
			p4d_text_add(&r->text, "\n");
		}
	}
}

static bool take(void *context, const char *bytes, size_t length)
{
	records *r = context;

	while (length) {
		const char *end = memchr(bytes, '\n', length);
		const size_t piece = end ? (size_t)(end - bytes) : length;
		take_piece(r, bytes, piece, end != NULL);
		bytes += piece + (end != NULL);
		length -= piece + (end != NULL);
	}
	return !r->no_memory && !r->too_many;
}

static void make_delimiter(char delimiter[P4D_ACCOUNTING_DELIMITER])
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)(uintptr_t)&random;
	snprintf(delimiter, P4D_ACCOUNTING_DELIMITER, "\x1f%016" PRIx64 "\x1f", random);
}

enum { WORDS = 16 };
typedef struct sacct_line {
	const char *word[WORDS + 1];
	size_t words;
	p4d_text text; /* of the words, each behind the other */
	size_t at[WORDS];
} sacct_line;

static void add_word(sacct_line *c, const char *option, const char *value)
{
	c->at[c->words++] = c->text.length;
	p4d_text_add(&c->text, option);
	p4d_text_add(&c->text, value);
	p4d_text_add_bytes(&c->text, "", 1);
}

static void make_command(sacct_line *c, records *r, const p4d_accounting *a)
{
	const p4d_accounting_query *q = r->query;

	add_word(c, "sacct", "");
	add_word(c, "--parsable2", "");
	add_word(c, "--noheader", "");
	add_word(c, "--noconvert", "");
	add_word(c, "--delimiter=", r->delimiter);
	add_word(c, q->users ? "--user=" : "--allusers", q->users ? q->users : "");
	if (q->since)
		add_word(c, "--starttime=", q->since);
	if (q->until)
		add_word(c, "--endtime=", q->until);
	if (q->accounts)
		add_word(c, "--accounts=", q->accounts);
	if (q->partitions)
		add_word(c, "--partition=", q->partitions);
	if (q->jobs)
		add_word(c, "--jobs=", q->jobs);
	c->at[c->words++] = c->text.length;
	for (int f = 0; f < P4D_FIELDS; f++)
		if (p4d_accounting_has(a, names[f])) {
			p4d_text_print(&c->text, "%s%s", r->fields ? "," : "--format=", names[f]);
			r->field[r->fields++] = (p4d_accounting_field)f;
		}
	p4d_text_add_bytes(&c->text, "", 1);
	for (size_t i = 0; i < c->words && !c->text.truncated; i++)
		c->word[i] = c->text.at + c->at[i];
}

int p4d_accounting_find(p4d_accounting *a, const p4d_accounting_query *query, p4d_accounting_jobs *jobs,
			p4d_error *err)
{
	records r = {.jobs = jobs, .query = query, .text = {.grows = true}};
	sacct_line c = {.text = {.grows = true}};

	make_delimiter(r.delimiter);
	make_command(&c, &r, a);
	int rc = c.text.truncated ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the options of sacct")
				  : p4d_sacct__run(c.word, take, &r, err);
	keep_last(&r);
	if (rc == 0 && r.no_memory)
		rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", jobs->count);
	if (rc == 0 && r.too_many) {
		p4d_fail(err, P4D_E_IO,
			 "sacct has more than %zu jobs with GPUs, which take more than %" PRIu64
			 " GiB of memory",
			 jobs->count, most_bytes >> 30);
		rc = p4d_fix(err, "--since=DATE with a later date");
	}
	free(r.text.at);
	free(c.text.at);
	return rc;
}
