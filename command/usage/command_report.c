/* SPDX-License-Identifier: Apache-2.0 */
#include "usage/command_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/json_file.h"
#include "base/option.h"
#include "base/text.h"
#include "measure/step_lines.h"
#include "report/report.h"
#include "usage/usage.h"

const char p4d_report_options[] =
    "\n"
    "  --since DATE                only jobs that ended since DATE, as sacct reads dates (now-30days)\n"
    "  --user, --account, --partition LIST\n"
    "                              only jobs of these users or accounts, or in these partitions\n"
    "  --read-output               search the output files of failed jobs for \"out of memory\"\n"
    "  --names                     also print numbers for each user, and write user names into rows\n"
    "  --rows FILE                 also write a row for each measured job, for p4d calibrate\n"
    "  --prometheus FILE           take the memory of jobs from an answer of Prometheus that curl saved\n"
    "  --slurmd-log FILE           take the memory of jobs from lines of p4d.so (measure=nvml)\n"
    "  --refusals FILE             also count the jobs that p4d refused, from slurmctld's log\n"
    "  --log FILE                  take the memory of the one JOBID from its log (Megatron-LM, ...)\n"
    "  --note                      print one line for each job, for mail and epilogs\n"
    "  --conf FILE                 the p4d.conf to use\n"
    "  --html FILE                 also write a web page with tables and pictures\n"
    "  --json                      print JSON, as p4d-json(5) describes it\n"
    "\n"
    "With JOBIDs, p4d reports only these jobs, in the form for their users.";

enum { ASKED = 4096 };

typedef struct report_arguments {
	const char *since, *users, *accounts, *partitions, *rows, *prometheus, *slurmd_log, *refusals, *log,
	    *conf, *html;
	bool names, note, json, help, read_output;
	char asked[ASKED]; /* ids separated by commas, "": all jobs */
} report_arguments;

/* Takes ids in the form that sacct reads. */
static int take_ids(report_arguments *a, int count, char *word[], p4d_error *err)
{
	p4d_text ids = p4d_text_in(a->asked, sizeof(a->asked));

	for (int i = 0; i < count; i++) {
		if (!word[i][0] || word[i][strspn(word[i], "0123456789_+,")]) {
			p4d_fail(err, P4D_E_USAGE, "\"%.64s\" is not a job id such as 123 or 123_4", word[i]);
			return p4d_fix(err, "p4d help report");
		}
		p4d_text_entry(&ids, ",", "%s", word[i]);
	}
	if (ids.truncated)
		return p4d_fail(err, P4D_E_USAGE, "more than %d characters of job ids", ASKED - 1);
	if (a->note && !count)
		return p4d_fail(err, P4D_E_USAGE, "--note needs a job id");
	if (count && (a->rows || a->html)) {
		const char *option = a->rows ? "--rows" : "--html";
		p4d_fail(err, P4D_E_USAGE, "%s has no effect with job ids", option);
		return p4d_fix(err, "p4d report %s %.300s", option, a->rows ? a->rows : a->html);
	}
	if (a->log && (count != 1 || strchr(a->asked, ',')))
		return p4d_fail(err, P4D_E_USAGE, "--log is the log of one job: give the id of this job");
	return 0;
}

static int parse(report_arguments *a, int argc, char *argv[], p4d_error *err)
{
	/* numbers of the options: those with a text first, as in the two lists below */
	enum {
		SINCE = 256,
		USER,
		ACCOUNT,
		PARTITION,
		ROWS,
		PROMETHEUS,
		SLURMD_LOG,
		REFUSALS,
		LOG,
		CONF,
		HTML,
		TEXTS,
		OUTPUT,
		NAMES,
		NOTE,
		JSON,
		HELP
	};
	static const struct option table[] = {
	    {"since", required_argument, NULL, SINCE},
	    {"user", required_argument, NULL, USER},
	    {"account", required_argument, NULL, ACCOUNT},
	    {"partition", required_argument, NULL, PARTITION},
	    {"rows", required_argument, NULL, ROWS},
	    {"prometheus", required_argument, NULL, PROMETHEUS},
	    {"slurmd-log", required_argument, NULL, SLURMD_LOG},
	    {"refusals", required_argument, NULL, REFUSALS},
	    {"log", required_argument, NULL, LOG},
	    {"conf", required_argument, NULL, CONF},
	    {"html", required_argument, NULL, HTML},
	    {"read-output", no_argument, NULL, OUTPUT},
	    {"names", no_argument, NULL, NAMES},
	    {"note", no_argument, NULL, NOTE},
	    {"json", no_argument, NULL, JSON},
	    {"help", no_argument, NULL, HELP},
	    {NULL, 0, NULL, 0},
	};
	const char **const texts[] = {&a->since, &a->users,      &a->accounts,   &a->partitions,
				      &a->rows,  &a->prometheus, &a->slurmd_log, &a->refusals,
				      &a->log,   &a->conf,       &a->html};
	int which, more, rc = 0;

	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":h", table, &which, err)) != 0) {
		if (more < 0)
			return err->fix[0] ? -1 : p4d_fix(err, "p4d help report");
		a->names |= which == NAMES;
		a->note |= which == NOTE;
		a->json |= which == JSON;
		a->read_output |= which == OUTPUT;
		a->help |= which == HELP || which == 'h';
		if (which >= SINCE && which < TEXTS)
			rc = p4d_option_once(texts[which - SINCE], table[which - SINCE].name, optarg, err);
	}
	return rc < 0 || a->help ? rc : take_ids(a, argc - optind, argv + optind, err);
}

/* Explains why there are no jobs to report. */
static int no_jobs(const p4d_usage *u, p4d_error *err)
{
	if (u->id) {
		p4d_fail(err, P4D_E_IO, "sacct shows no job with id %.64s that has GPUs and has ended",
			 u->id);
		return p4d_fix(err, "sacct -X -j %.64s", u->id);
	}
	return p4d_backtest_no_jobs(&u->jobs, err);
}

static int find_jobs(p4d_usage *u, p4d_error *err)
{
	p4d_backtest *b = &u->jobs;
	const p4d_accounting_query query = {.since = u->id ? NULL : b->since,
					    .users = b->users,
					    .accounts = b->accounts,
					    .partitions = b->partitions,
					    .jobs = u->id};

	b->accounting = p4d_accounting_open(err);
	if (!b->accounting || p4d_accounting_find(b->accounting, &query, &b->jobs, err) < 0 ||
	    p4d_backtest_run(b, err) < 0 || p4d_backtest_count(b, err) < 0)
		return -1;
	if (!b->rows)
		return no_jobs(u, err);
	if (!u->log.format || b->rows == 1)
		return 0;
	p4d_fail(err, P4D_E_USAGE, "--log is the log of one job, but %.64s names %zu jobs", u->id, b->rows);
	return p4d_fix(err, "p4d report --log FILE %.64s", b->row[0].job->id);
}

static int print_jobs(const p4d_usage *u, const report_arguments *a, p4d_error *err)
{
	struct json_object *list = a->json ? json_object_new_array() : NULL;

	for (size_t i = 0; i < u->rows; i++) {
		if (list)
			json_object_array_add(list, p4d_usage__json_job(&u->row[i]));
		else
			p4d_usage__print_job(&u->row[i], a->note);
	}
	if (!list)
		return 0;
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "jobs", list);
	return p4d_report_json_print(object, err);
}

static int report(p4d_usage *u, const report_arguments *a, p4d_error *err)
{
	unsigned written;

	if ((a->refusals && p4d_usage_refusals__read(&u->refusals, a->refusals, err) < 0) ||
	    (a->slurmd_log && p4d_step_lines_read(&u->nvml, a->slurmd_log, err) < 0) ||
	    (a->prometheus && p4d_prometheus_read(&u->prometheus, a->prometheus, err) < 0) ||
	    (a->log && p4d_memory_log_read(&u->log, a->log, err) < 0))
		return -1;
	u->jobs.site = p4d_line_open_site(a->conf, err);
	if (!u->jobs.site || find_jobs(u, err) < 0 || p4d_usage__join(u, err) < 0 ||
	    p4d_usage__count(u, err) < 0)
		return -1;
	if (u->id)
		return print_jobs(u, a, err);
	if (a->rows && p4d_usage__write_rows(u, a->rows, &written, err) < 0)
		return -1;
	if (a->html && p4d_usage__write_html(u, a->html, err) < 0)
		return -1;
	if (a->json)
		return p4d_usage__print_json(u, err);
	if (p4d_usage__print(u, NULL, err) < 0)
		return -1;
	if (a->rows)
		printf("\n%s: %u rows, for p4d calibrate\n", a->rows, written);
	return 0;
}

int p4d_command_report(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	report_arguments a = {.since = NULL};

	if (parse(&a, argc, argv, err) < 0)
		return -1;
	if (a.help) {
		p4d_line_help(self, true);
		return 0;
	}
	p4d_usage u = {.names = a.names,
		       .id = a.asked[0] ? a.asked : NULL,
		       .jobs = {.since = a.since ? a.since : "now-30days",
				.users = a.users,
				.accounts = a.accounts,
				.partitions = a.partitions,
				.read_output = a.read_output}};
	const int rc = report(&u, &a, err);
	free(u.row);
	p4d_prometheus_free(&u.prometheus);
	p4d_prometheus_free(&u.nvml);
	p4d_usage_refusals__free(&u.refusals);
	p4d_backtest_free(&u.jobs);
	return rc;
}
