/* SPDX-License-Identifier: Apache-2.0 */
/* Gets the scripts of each user's jobs and judges each different script once. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "backtest/backtest.h"
#include "base/digest.h"
#include "base/grow.h"
#include "line/line.h"

enum { AT_ONCE = 500 };

static const p4d_backtest_result no_script = {
    .verdict = P4D_BACKTEST_NOT_JUDGED,
    .fraction = -1,
    .reason = "Slurm stores no script of the job, or does not show the script to you"};
static const p4d_backtest_result interactive = {.verdict = P4D_BACKTEST_NOT_JUDGED,
						.fraction = -1,
						.reason =
						    "started by srun or salloc, without a batch script"};

static const p4d_backtest_result not_started = {
    .verdict = P4D_BACKTEST_NOT_JUDGED,
    .fraction = -1,
    .reason = "tasks of an array that never started: sacct does not show their script"};

/* A script's result, in a tree that is sorted by key. */
typedef struct judged_script {
	char key[P4D_DIGEST_TEXT];
	p4d_backtest_result *result;
} judged_script;

/* Jobs of one user that are judged together. */
typedef struct batch {
	p4d_backtest *b;
	p4d_backtest_row *row; /* the first of the batch's rows */
	size_t rows;
	p4d_backtest_case cases[AT_ONCE]; /* one case for each row */
	char key[AT_ONCE][P4D_DIGEST_TEXT];
	void **tree;
	p4d_error *err;
} batch;

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const judged_script *)a)->key, ((const judged_script *)b)->key);
}

static void free_script(void *node)
{
	free(node);
}

static bool is_interactive(const p4d_accounting_job *job)
{
	const char *end = job->submit_line + strcspn(job->submit_line, " ");
	const char *name = end;

	while (name > job->submit_line && name[-1] != '/')
		name--;
	return (end - name == 4 && !strncmp(name, "srun", 4)) ||
	       (end - name == 6 && !strncmp(name, "salloc", 6));
}

static bool take_script(void *context, size_t index, char *text, size_t length)
{
	batch *of = context;
	p4d_backtest_case *c = &of->cases[index];

	free(c->script);
	c->script = malloc(length + 1);
	if (!c->script)
		return false;
	memcpy(c->script, text, length + 1);
	c->length = length;
	return true;
}

/* Stores the environment of a job without Slurm's own variables, because those differ even between equal
 * jobs. */
static bool take_environment(void *context, size_t index, char *text, size_t length)
{
	batch *of = context;
	p4d_backtest_case *c = &of->cases[index];
	size_t kept = 0;

	free(c->environment);
	c->environment = malloc(length + 2);
	if (!c->environment)
		return false;
	for (char *line; (line = strsep(&text, "\n"));)
		if (*line && strncmp(line, "SLURM_", 6) != 0 && strncmp(line, "P4D_", 4) != 0) {
			const size_t size = strlen(line);
			memcpy(c->environment + kept, line, size);
			c->environment[kept + size] = '\n';
			kept += size + 1;
		}
	c->environment[kept] = '\0';
	of->b->environments = true;
	return true;
}

static int fetch(batch *of)
{
	const char *ids[AT_ONCE];
	p4d_accounting *a = of->b->accounting;

	for (size_t i = 0; i < of->rows; i++) {
		ids[i] = of->row[i].job->id;
		of->cases[i] = (p4d_backtest_case){.job = of->row[i].job};
	}
	if (p4d_accounting_stored(a, P4D_KEPT_SCRIPT, ids, of->rows, take_script, of, of->err) < 0 ||
	    p4d_accounting_stored(a, P4D_KEPT_ENVIRONMENT, ids, of->rows, take_environment, of, of->err) < 0)
		return -1;
	return 0;
}

static void add_text(p4d_digest *digest, const char *text)
{
	p4d_digest_add(digest, text, strlen(text) + 1);
}

/* Makes a key from everything that the verdict depends on. with_task: this includes the number of the
 * array task. */
static void make_key(const p4d_backtest_case *c, bool with_task, char key[P4D_DIGEST_TEXT])
{
	const p4d_accounting_job *job = c->job;
	const char *const texts[] = {job->submit_line, job->work_dir,
				     job->partition,   job->qos,
				     job->account,     job->reservation,
				     job->req_tres,    job->gpu_type,
				     job->name,        c->environment ? c->environment : "\n"};
	const char *task = strpbrk(job->id, "_+");
	p4d_digest digest = p4d_digest_begin();

	p4d_digest_add(&digest, c->script, c->length);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		add_text(&digest, texts[i]);
	add_text(&digest, !task ? "" : with_task ? task : *task == '+' ? "+" : "_");
	p4d_digest_text(&digest, key);
}

static judged_script *find_script(const batch *of, const char *key)
{
	judged_script wanted;

	memcpy(wanted.key, key, sizeof(wanted.key));
	void *node = tfind(&wanted, of->tree, compare_keys);
	return node ? *(judged_script **)node : NULL;
}

/* Adds an entry for the result of a new script. NULL: no memory. */
static judged_script *add_script(batch *of, const char *key)
{
	p4d_backtest *b = of->b;
	judged_script *script = calloc(1, sizeof(*script));
	p4d_backtest_result *result = calloc(1, sizeof(*result));

	if (!script || !result ||
	    !p4d_grow(&b->result, &b->results_room, b->results + 1, sizeof(b->result[0]))) {
		free(script);
		free(result);
		p4d_fail(of->err, P4D_E_NO_MEMORY, "no memory for the answers to %zu scripts", b->results);
		return NULL;
	}
	b->result[b->results++] = result;
	memcpy(script->key, key, sizeof(script->key));
	script->result = result;
	if (tsearch(script, of->tree, compare_keys))
		return script;
	free(script);
	p4d_fail(of->err, P4D_E_NO_MEMORY, "no memory for the answers to %zu scripts", b->results);
	return NULL;
}

/* Judges the new scripts among the rows that have no result yet. */
static int judge_new(batch *of, bool with_task)
{
	p4d_backtest_case cases[AT_ONCE];
	judged_script *script[AT_ONCE];
	size_t count = 0;

	for (size_t i = 0; i < of->rows; i++) {
		if (!of->cases[i].script || of->row[i].result)
			continue;
		make_key(&of->cases[i], with_task, of->key[i]);
		if (find_script(of, of->key[i]))
			continue;
		script[count] = add_script(of, of->key[i]);
		if (!script[count])
			return -1;
		cases[count++] = of->cases[i];
	}
	if (!count)
		return 0;
	p4d_backtest_result *result = calloc(count, sizeof(*result));
	if (!result)
		return p4d_fail(of->err, P4D_E_NO_MEMORY, "no memory for the answers to %zu scripts", count);
	const p4d_backtest_work work = {.user = of->row[0].job->user, .cases = cases, .count = count};
	const int rc = p4d_backtest__of_owner(of->b, &work, result, of->err);
	for (size_t i = 0; i < count; i++)
		*script[i]->result = result[i];
	free(result);
	of->b->scripts += count;
	return rc;
}

static const p4d_backtest_result *without_script(const p4d_accounting_job *job)
{
	if (strchr(job->id, '['))
		return &not_started;
	return is_interactive(job) ? &interactive : &no_script;
}

/*
 * Copies the results of scripts to rows. For arrays it copies only results that are valid for all tasks,
 * unless `final`.
 */
static void give_results(batch *of, bool final)
{
	for (size_t i = 0; i < of->rows; i++) {
		p4d_backtest_row *row = &of->row[i];
		if (row->result)
			continue;
		if (!of->cases[i].script) {
			row->result = without_script(row->job);
			of->b->interactive += row->result == &interactive;
			of->b->not_started += row->result == &not_started;
			continue;
		}
		const judged_script *script = find_script(of, of->key[i]);
		if (script && (final || !script->result->by_task || !strchr(row->job->id, '_')))
			row->result = script->result;
	}
}

/* Searches the outputs of jobs that did not complete for words about GPU memory. */
static int read_outputs(batch *of)
{
	p4d_backtest_case cases[AT_ONCE];
	p4d_backtest_row *row[AT_ONCE];
	p4d_backtest_work work = {.user = of->row[0].job->user, .outputs = cases};

	for (size_t i = 0; i < of->rows; i++)
		if (of->row[i].job->end != P4D_END_COMPLETED && of->row[i].job->start) {
			row[work.output_count] = &of->row[i];
			cases[work.output_count++] = of->cases[i];
		}
	p4d_backtest_result *result = calloc(work.output_count + 1, sizeof(*result));
	if (!result)
		return p4d_fail(of->err, P4D_E_NO_MEMORY, "no memory for the outputs of %zu jobs", of->rows);
	const int rc = p4d_backtest__of_owner(of->b, &work, result, of->err);
	for (size_t i = 0; i < work.output_count; i++)
		row[i]->said = result[i].said;
	free(result);
	return rc;
}

static int judge_batch(batch *of)
{
	int rc = fetch(of);

	if (rc == 0)
		rc = judge_new(of, false);
	if (rc == 0) {
		give_results(of, false);
		rc = judge_new(of, true);
	}
	if (rc == 0) {
		give_results(of, true);
		rc = of->b->read_output ? read_outputs(of) : 0;
	}
	for (size_t i = 0; i < of->rows; i++) {
		free(of->cases[i].script);
		free(of->cases[i].environment);
	}
	return rc;
}

static int judge_user(p4d_backtest *b, size_t first, size_t rows, p4d_error *err)
{
	batch *of = malloc(sizeof(*of));
	void *tree = NULL;
	int rc = 0;

	if (!of)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", rows);
	for (size_t at = 0; at < rows && rc == 0; at += AT_ONCE) {
		*of = (batch){.b = b, .row = b->row + first + at, .tree = &tree, .err = err};
		of->rows = rows - at < AT_ONCE ? rows - at : AT_ONCE;
		rc = judge_batch(of);
	}
	tdestroy(tree, free_script);
	free(of);
	return rc;
}

static int by_user(const void *a, const void *b)
{
	const p4d_accounting_job *one = ((const p4d_backtest_row *)a)->job,
				 *other = ((const p4d_backtest_row *)b)->job;
	const int order = strcmp(one->user, other->user);

	/* keeps sacct's order, in which an array's tasks are sorted */
	return order ? order : (one > other) - (one < other);
}

static int make_rows(p4d_backtest *b, p4d_error *err)
{
	b->row = calloc(b->jobs.count + 1, sizeof(b->row[0]));
	if (!b->row)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", b->jobs.count);
	for (size_t i = 0; i < b->jobs.count; i++) {
		const p4d_accounting_job *job = &b->jobs.job[i];
		if (job->end == P4D_END_NOT_YET) {
			b->running++;
			continue;
		}
		p4d_backtest_row *row = &b->row[b->rows++];
		row->job = job;
		row->gpu_hours = p4d_accounting_gpu_hours(job);
		row->measured_bytes = p4d_accounting_gpu_memory(b->accounting, job, &row->measured);
	}
	qsort(b->row, b->rows, sizeof(b->row[0]), by_user);
	return 0;
}

int p4d_backtest_run(p4d_backtest *b, p4d_error *err)
{
	if (make_rows(b, err) < 0)
		return -1;
	p4d_live_cluster(NULL); /* p4d asks for the cluster here once, and not again in each process */
	for (size_t at = 0, end; at < b->rows; at = end) {
		for (end = at + 1; end < b->rows && !strcmp(b->row[end].job->user, b->row[at].job->user);)
			end++;
		if (judge_user(b, at, end - at, err) < 0)
			return -1;
	}
	return 0;
}

void p4d_backtest_free(p4d_backtest *b)
{
	for (size_t i = 0; i < b->results; i++)
		free(b->result[i]);
	free(b->result);
	free(b->row);
	p4d_accounting_jobs_free(&b->jobs);
	p4d_accounting_close(b->accounting);
	p4d_site_free(b->strict);
	p4d_site_free(b->site);
}
