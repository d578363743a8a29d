/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored scripts and environments. sacct prints them one after another, each under a heading with the job,
 * and a user may write such a heading into a script. If a heading occurs twice, p4d asks again for each
 * half of the list. If it asks for a single job, all output belongs to this job, whatever it contains.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accounting/accounting_internal.h"
#include "accounting/sacct.h"
#include "base/text.h"

enum { AT_ONCE = 500 };
static const size_t list_bytes = (size_t)1 << 30; /* maximum output of one sacct: 500 scripts of up to 2
						   * MiB */

static const char rule[] =
    "--------------------------------------------------------------------------------\n";

typedef struct asked_for {
	p4d_accounting_kept kind;
	const char *const *ids;
	p4d_accounting_take *take;
	void *context;
	bool enough;
} asked_for;

typedef struct heading {
	char *at, *text; /* the heading, and the text below it */
	size_t index;
} heading;

static const char *before(p4d_accounting_kept kind)
{
	return kind == P4D_KEPT_SCRIPT ? "Batch Script for " : "Environment used for ";
}

static const char *after(p4d_accounting_kept kind)
{
	return kind == P4D_KEPT_SCRIPT ? "\n" : " (must be batch to display)\n";
}

bool p4d_accounting_may_keep(const char *line)
{
	static const char *const begins[] = {"SLURM_",
					     "SBATCH_",
					     "P4D_",
					     "HF_HOME=",
					     "PYTORCH_ALLOC_CONF=",
					     "PYTORCH_CUDA_ALLOC_CONF=",
					     "PYTORCH_HIP_ALLOC_CONF="};
	static const char *const secrets[] = {"KEY", "TOKEN", "JWT", "SECRET", "PASS", "CRED"};
	const size_t name = strcspn(line, "=");
	bool keeps = false;

	if (line[name] != '=')
		return false;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		keeps = keeps || !strncmp(line, begins[i], strlen(begins[i]));
	for (size_t i = 0; keeps && i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		const char *found = strstr(line, secrets[i]);
		keeps = !found || found >= line + name;
	}
	return keeps;
}

/* Whether a name consists of capital letters, like most names of environment variables. Other names are
 * not accepted, because a line inside a multi-line value may look like one. */
static bool is_name(const char *line, size_t length)
{
	enum { NAME = 64 };

	return length && length <= NAME && !strchr("0123456789", line[0]) &&
	       strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") >= length;
}

/* Moves the variables that may be kept to the front and wipes the others. Returns the new length. */
static size_t filter(char *text, size_t length)
{
	size_t kept = 0;

	for (char *line = text, *next; line < text + length; line = next) {
		next = line + strcspn(line, "\n");
		*next++ = '\0';
		const size_t name = strcspn(line, "=");
		const bool keeps = p4d_accounting_may_keep(line);
		const size_t size = keeps                               ? (size_t)(next - line)
				    : line[name] && is_name(line, name) ? name + 1
									: 0;
		if (!size)
			continue;
		memmove(text + kept, line, size);
		kept += size;
		text[kept - 1] = '\n';
	}
	kept = kept < length ? kept : length; /* the last line may not end with a line break */
	explicit_bzero(text + kept, length - kept);
	text[kept] = '\0';
	return kept;
}

/* The index of an id in a list; count if it is not there. */
static size_t index_of(const asked_for *s, size_t first, size_t count, const char *id, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(s->ids[first + i], id, length) && !s->ids[first + i][length])
			return i;
	return count;
}

/* Finds the job of the list to which a heading line belongs. */
static bool is_heading(const asked_for *s, size_t first, size_t count, char *line, heading *found)
{
	const char *begin = before(s->kind), *end = after(s->kind);

	if (strncmp(line, begin, strlen(begin)) != 0)
		return false;
	const char *id = line + strlen(begin);
	const size_t length = strcspn(id, " \n");
	char *below = line + strlen(begin) + length;
	if (strncmp(below, end, strlen(end)) != 0 || strncmp(below + strlen(end), rule, strlen(rule)) != 0)
		return false;
	*found = (heading){line, below + strlen(end) + strlen(rule), index_of(s, first, count, id, length)};
	return found->index < count;
}

/* Finds the headings of a list's jobs in the text. False: a heading occurs twice. */
static bool find_headings(const asked_for *s, size_t first, size_t count, char *text, heading *headings,
			  size_t *found)
{
	bool seen[AT_ONCE] = {false};
	heading h;

	*found = 0;
	for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (!is_heading(s, first, count, line, &h))
			continue;
		if (count == 1 && *found)
			return true; /* a line of the script that looks like a heading */
		if (seen[h.index])
			return false;
		seen[h.index] = true;
		headings[(*found)++] = h;
	}
	return true;
}

static void give(asked_for *s, size_t first, const heading *h, char *end)
{
	char *text = h->text;
	size_t length = (size_t)(end - text);

	/* sacct adds a line break after each text, and prints a remark if no text is stored */
	if (length && text[length - 1] == '\n')
		length--;
	text[length] = '\0';
	if (!strcmp(text, "NONE") || !strcmp(text, "NONE\n") || !length)
		return;
	if (s->kind == P4D_KEPT_ENVIRONMENT)
		length = filter(text, length);
	s->enough = !s->take(s->context, first + h->index, text, length);
}

static void give_all(asked_for *s, size_t first, const heading *headings, size_t found, char *end)
{
	for (size_t i = 0; i < found && !s->enough; i++)
		give(s, first, &headings[i], i + 1 < found ? headings[i + 1].at : end);
}

/* Whether an id stands for all tasks of an array that have not started, such as "12_[4-9]". sacct prints
 * this id, but refuses any list of ids that contains it. */
static bool is_of_tasks(const char *id)
{
	return strchr(id, '[');
}

/* Writes the ids of a list as an option of sacct; returns their number. */
static size_t add_ids(const asked_for *s, size_t first, size_t count, p4d_text *list)
{
	size_t added = 0;

	p4d_text_add(list, "--jobs=");
	for (size_t i = first; i < first + count; i++)
		if (!is_of_tasks(s->ids[i]))
			p4d_text_print(list, "%s%s", added++ ? "," : "", s->ids[i]);
	return added;
}

static char *ask(const asked_for *s, size_t first, size_t count, p4d_error *err)
{
	p4d_text list = {.grows = true};
	const bool asks = add_ids(s, first, count, &list) > 0; /* without ids sacct would print all jobs */
	const char *what = s->kind == P4D_KEPT_SCRIPT ? "--batch-script" : "--env-vars";
	const char *const words[] = {"sacct", "--allusers", "--allocations", what, list.at, NULL};
	char *text = list.truncated ? NULL : asks ? p4d_sacct__output(words, list_bytes, err) : strdup("");

	if (list.truncated || (!asks && !text))
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a list of jobs");
	free(list.at);
	return text;
}

static int give_list(asked_for *s, size_t first, size_t count, p4d_error *err)
{
	heading headings[AT_ONCE];
	size_t found, half = count / 2;
	char *text = ask(s, first, count, err);

	if (!text)
		return -1;
	const size_t length = strlen(text);
	const bool clear = find_headings(s, first, count, text, headings, &found);
	if (clear)
		give_all(s, first, headings, found, text + length);
	if (s->kind == P4D_KEPT_ENVIRONMENT)
		explicit_bzero(text, length);
	free(text);
	if (clear)
		return 0;
	int rc = give_list(s, first, half, err);
	return rc < 0 || s->enough ? rc : give_list(s, first + half, count - half, err);
}

int p4d_accounting_stored(p4d_accounting *accounting, p4d_accounting_kept kind, const char *const *ids,
			  size_t count, p4d_accounting_take *take, void *context, p4d_error *err)
{
	asked_for s = {kind, ids, take, context, false};

	(void)accounting;
	for (size_t at = 0; at < count && !s.enough; at += AT_ONCE)
		if (give_list(&s, at, count - at < AT_ONCE ? count - at : AT_ONCE, err) < 0)
			return -1;
	return 0;
}
