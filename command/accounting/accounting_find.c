/* SPDX-License-Identifier: Apache-2.0 */
/* Asks sacct for jobs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "accounting/accounting_records.h"
#include "accounting/sacct.h"

static const char *const names[P4D_FIELDS] = {
#define FIELD(id, name) name,
    P4D_ACCOUNTING_FIELDS(FIELD)
#undef FIELD
};

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
	p4d_text text; /* the command's words, one after another */
	size_t at[WORDS];
} sacct_line;

static void add_word(sacct_line *c, const char *option, const char *value)
{
	c->at[c->words++] = c->text.length;
	p4d_text_add(&c->text, option);
	p4d_text_add(&c->text, value);
	p4d_text_add_bytes(&c->text, "", 1);
}

static void make_command(sacct_line *c, p4d_accounting_records *r, const p4d_accounting_query *q,
			 const p4d_accounting *a)
{
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
	p4d_accounting_records r = {.jobs = jobs, .all = query->all, .text = {.grows = true}};
	sacct_line c = {.text = {.grows = true}};

	make_delimiter(r.delimiter);
	make_command(&c, &r, query, a);
	int rc = c.text.truncated ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the options of sacct")
				  : p4d_sacct__run(c.word, p4d_accounting__records_take, &r, err);
	free(c.text.at);
	/* an error of sacct itself is reported first */
	if (p4d_accounting__records_end(&r, rc < 0 ? NULL : err) < 0)
		rc = -1;
	if (rc == 0 && jobs->malformed)
		fprintf(stderr, "p4d: left out %" PRIu64 " record%s of sacct that could not be read\n",
			jobs->malformed, jobs->malformed == 1 ? "" : "s");
	return rc;
}
