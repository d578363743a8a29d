/* SPDX-License-Identifier: Apache-2.0 */
#include "line/submitted.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "line/line.h"

enum { MEMORY = 6 << 20, WORDS = 256, PATH = 512 };

/* Writes an unset variable in place of the unknown part of a text, so that the reader of the job treats
 * the value as unknown. Slurm's variables in the text have the values of the submitting script. */
static void add_unknown(p4d_text *text, const char *why)
{
	const size_t length =
	    strspn(why + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	if (*why == '$' && length && !strcmp(why + 1 + length, " is not set") &&
	    strncmp(why + 1, "SLURM_", 6) != 0)
		p4d_text_print(text, "${%.*s}", (int)length, why + 1);
	else
		p4d_text_add(text, "${P4D_UNREAD}");
}

static void add_value(p4d_text *text, const p4d_shell *shell, p4d_value value)
{
	for (uint32_t i = 0; i < value.length; i++)
		if (value.at[i].unknown)
			add_unknown(text, p4d_shell_unknown(shell, value.at[i].unknown));
		else
			p4d_text_add_bytes(text, &value.at[i].c, 1);
}

/* A value as a text, which the caller frees; NULL: no memory. */
static char *text_of(const p4d_shell *shell, p4d_value value)
{
	p4d_text text = {.grows = true};

	p4d_text_add(&text, "");
	add_value(&text, shell, value);
	return text.at;
}

/* Whether a part is unknown of an option that decides where the job runs, or of one that gives values of
 * the model. */
static bool has_unknown_option(const p4d_sbatch *sbatch)
{
	for (int i = 0; i < P4D_SBATCH_VALUES; i++)
		if (sbatch->value[i] && strstr(sbatch->value[i], "${"))
			return true;
	return false;
}

/* Adds empty lines before a text, so that its lines have the same numbers as in its file. */
static void add_lines(p4d_text *text, uint32_t line)
{
	while (line-- > 1)
		p4d_text_add(text, "\n");
}

/* Stores where a text comes from: the file and line of its first character that comes from a file. */
static void place(const p4d_shell *shell, p4d_value value, p4d_submitted_job *job, uint32_t *line)
{
	uint32_t above = 0;

	*line = 1;
	for (uint32_t i = 0; i < value.length; i++) {
		if (!value.at[i].unknown && value.at[i].line) {
			snprintf(job->name, sizeof(job->name), "%s",
				 p4d_shell_file_name(shell, value.at[i].file));
			*line = value.at[i].line > above ? value.at[i].line - above : 1;
			return;
		}
		above += value.at[i].c == '\n';
	}
}

/*
 * Returns the text of the job's script; *line: the number of its first line in its file. NULL: p4d cannot
 * read it.
 */
static char *script_of(p4d_shell *shell, const p4d_value *words, size_t count, size_t operand,
		       p4d_submitted_job *job, uint32_t *line)
{
	const char *wrap = job->sbatch.value[P4D_SBATCH_WRAP], *text = NULL;
	p4d_value value = {0};
	p4d_text all = {.grows = true};
	size_t length;

	*line = 1;
	if (wrap) {
		p4d_text_print(&all, "#!/bin/sh\n%s\n", wrap);
		*line = job->line > 1 ? job->line - 1 : 1;
		return all.at;
	}
	if (operand < count) {
		if (!p4d_shell_file(shell, words[operand], &value, &text, &length))
			return NULL;
		snprintf(job->name, sizeof(job->name), "%s", job->arguments[operand]);
	} else if (!p4d_shell_input(shell, &value)) {
		return NULL;
	}
	if (text)
		p4d_text_add_bytes(&all, text, length);
	else
		add_value(&all, shell, value);
	if (!text)
		place(shell, value, job, line);
	return all.at;
}

/* Returns the arguments as texts; NULL: one of them is unknown. Unset variables add nothing. */
static char **arguments_of(p4d_shell *shell, const p4d_value *words, size_t count, const p4d_value **kept,
			   size_t *number)
{
	char **all = calloc(count + 1, sizeof(*all));
	p4d_value *left = calloc(count, sizeof(*left));
	bool known = all && left && count < WORDS;

	*number = 0;
	for (size_t i = 0; known && i < count; i++) {
		if (p4d_value_is_unset(words[i]))
			continue;
		left[*number] = words[i];
		known = !p4d_value_may_be_options(words[i]) && (all[*number] = text_of(shell, words[i]));
		*number += known;
	}
	*kept = left;
	for (size_t i = 0; !known && all && i < *number; i++)
		free(all[i]);
	if (known)
		return all;
	free(all);
	return NULL;
}

static void free_job(p4d_submitted_job *job)
{
	if (!job)
		return;
	for (char **at = job->arguments; at && *at; at++)
		free(*at);
	p4d_sbatch_free(&job->sbatch);
	free(job->arguments);
	free(job->script);
	free(job->memory);
	free(job);
}

static size_t hash_of(const p4d_submitted_job *job)
{
	size_t hash = 0;

	for (const char *at = job->script; *at; at++)
		hash = hash * 31 + (unsigned char)*at;
	for (char **word = job->arguments; *word; word++)
		for (const char *at = *word; *at; at++)
			hash = hash * 31 + (unsigned char)*at;
	if (job->of_task)
		hash = (hash + 1) * 31 + job->task;
	return hash;
}

/* A variable of the environment that the script passes to its jobs. */
static const char *inherited(void *context, const char *name)
{
	p4d_submitted *s = context;
	p4d_value value;

	if (!p4d_shell_exported(s->shell, name, &value))
		return NULL;
	if (p4d_value_unknown(value))
		return value.length == 1 && p4d_value_is_unset(value) ? NULL : p4d_shell_later;
	if (value.length >= sizeof(s->text))
		return p4d_shell_later;
	return p4d_value_text(value, s->text, sizeof(s->text));
}

/* The value of a variable in sbatch's options. If it is unknown, p4d does not know the option. */
static const char *for_sbatch(void *context, const char *name)
{
	const char *value = inherited(context, name);

	return value == p4d_shell_later ? "${P4D_UNREAD}" : value;
}

/* Whether the job's environment sets PyTorch's allocator to expandable segments. */
static bool is_expandable(p4d_submitted *s)
{
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = inherited(s, names[i]);
		if (value && value != p4d_shell_later && strstr(value, P4D_EXPANDABLE_SEGMENTS))
			return true;
	}
	return false;
}

/* The content of a file that the script has written; NULL: the script has not written it. */
static const char *left(void *context, const char *path, size_t *length)
{
	p4d_submitted *s = context;
	p4d_cell cells[PATH];
	p4d_value written;
	const char *text;
	const size_t size = strlen(path);

	if (size >= PATH || s->lefts == P4D_SUBMITTED_FILES)
		return NULL;
	for (size_t i = 0; i < size; i++)
		cells[i] = (p4d_cell){.c = path[i], .quoted = 1};
	if (!p4d_shell_file(s->shell, (p4d_value){cells, (uint32_t)size}, &written, &text, length) || text)
		return NULL;
	char *copy = text_of(s->shell, written);
	if (!copy)
		return NULL;
	*length = strlen(copy);
	return s->left[s->lefts++] = copy;
}

/* Finds the tasks of an array that differ. */
static void take_kinds(p4d_submitted_job *job, const p4d_job_script *script, const p4d_shell_limits *limits)
{
	p4d_job_tasks each, *tasks = p4d_job_tasks_of(&each, script, limits, &job->reading);

	while (tasks && p4d_job_tasks_next(tasks))
		job->differs[job->kinds++] = tasks->task;
	job->cut = tasks && tasks->cut;
	if (tasks)
		p4d_job_tasks_again(tasks, NULL);
}

static void read_job(p4d_submitted *s, p4d_submitted_job *job, size_t operand, size_t count)
{
	char *const *arguments = job->arguments + (operand < count ? operand + 1 : count);
	char directory[PATH_MAX] = "", number[16];
	p4d_value here;

	if (p4d_shell_variable(s->shell, "PWD", &here) && !p4d_value_unknown(here))
		p4d_value_text(here, directory, sizeof(directory));
	snprintf(number, sizeof(number), "%" PRIu32, job->task);
	job->sbatch.job.script = job->script;
	job->sbatch.job.script_length = strlen(job->script);
	const p4d_job_script script = {.job = &job->sbatch.job,
				       .name = job->name,
				       .arguments = (const char *const *)arguments,
				       .directory = *directory ? directory : NULL,
				       .environment = s->environment,
				       .variables = SIZE_MAX,
				       .submitted = true,
				       .task = job->of_task ? number : NULL,
				       .export = job->sbatch.value[P4D_SBATCH_EXPORT],
				       .files = s->files,
				       .program = s->program,
				       .site = s->site,
				       .config = p4d_line_config,
				       .inherited = inherited,
				       .left = left,
				       .context = s};
	const p4d_shell_limits limits = {job->memory, MEMORY, P4D_SHELL_WORK};
	p4d_job_read(&script, &limits, &job->reading);
	if (!job->of_task)
		take_kinds(job, &script, &limits);
	job->sbatch.job.reading = job->reading.reader || *job->reading.comment ? &job->reading : NULL;
}

static bool was_taken(const p4d_submitted *s, const p4d_submitted_job *job)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->job[i]->hash == job->hash)
			return true;
	return false;
}

/* Reads options and script of a job as sbatch would. False: p4d does not know them. */
static bool take_job(p4d_submitted *s, p4d_submitted_job *job, const p4d_value *words, size_t count)
{
	const p4d_value *kept;
	unsigned components;
	uint32_t line;
	int operand;
	size_t number;
	p4d_text padded = {.grows = true};

	job->arguments = arguments_of(s->shell, words, count, &kept, &number);
	job->sbatch.skips_foreign = true;
	job->sbatch.job.expandable = is_expandable(s);
	bool known = job->arguments &&
		     p4d_sbatch_arguments(&job->sbatch, (int)number, job->arguments, &operand, NULL) == 0;
	job->script = known ? script_of(s->shell, kept, number, (size_t)operand, job, &line) : NULL;
	free((void *)kept);
	known = job->script && p4d_sbatch_variables(&job->sbatch, for_sbatch, s, NULL) == 0 &&
		p4d_sbatch_script(&job->sbatch, job->script, strlen(job->script), 0, &components, NULL) == 0;
	if (!known || components > 1 || has_unknown_option(&job->sbatch) ||
	    p4d_sbatch_job(&job->sbatch, NULL) < 0)
		return false;
	job->itself = strlen(job->script) == s->length && !memcmp(job->script, s->script, s->length);
	if (job->itself)
		return false;
	add_lines(&padded, line);
	p4d_text_add(&padded, job->script);
	free(job->script);
	job->script = padded.at;
	job->memory = malloc(MEMORY);
	job->hash = job->script ? hash_of(job) : 0;
	if (!job->script || !job->memory)
		return false;
	if (!was_taken(s, job))
		read_job(s, job, (size_t)operand, number);
	return true;
}

/* Adds the job for one task of its array; NULL: for all tasks. Returns NULL if the job is not kept. */
static p4d_submitted_job *add_job(p4d_submitted *s, const p4d_value *words, size_t count,
				  const uint32_t *task)
{
	p4d_submitted_job *job = s->count < P4D_SUBMITTED ? calloc(1, sizeof(*job)) : NULL;

	if (!job) {
		s->more++;
		return NULL;
	}
	job->of_task = task;
	job->task = task ? *task : 0;
	job->line = words[0].at[0].line;
	snprintf(job->from, sizeof(job->from), "%s", p4d_shell_file_name(s->shell, words[0].at[0].file));
	snprintf(job->name, sizeof(job->name), "%s", job->from);
	const bool known = take_job(s, job, words, count);
	s->unread += !known && !job->itself;
	if (known && !was_taken(s, job)) {
		s->job[s->count++] = job;
		return job;
	}
	free_job(job);
	return NULL;
}

void p4d_submitted_add(void *context, p4d_shell *shell, const p4d_value *words, size_t count)
{
	p4d_submitted *s = context;

	s->shell = shell;
	p4d_submitted_job *job = add_job(s, words, count, NULL);
	const unsigned at = s->count;
	for (unsigned i = 0; job && i < job->kinds; i++)
		add_job(s, words, count, &job->differs[i]);
	/* the entries of the tasks replace the entry of the whole array */
	if (!job || job->cut || s->count == at)
		return;
	memmove(&s->job[at - 1], &s->job[at], (s->count - at) * sizeof(s->job[0]));
	s->count--;
	free_job(job);
}

void p4d_submitted_free(p4d_submitted *s)
{
	for (unsigned i = 0; i < s->count; i++)
		free_job(s->job[i]);
	for (unsigned i = 0; i < s->lefts; i++)
		free(s->left[i]);
	*s = (p4d_submitted){.script = NULL};
}
