/* SPDX-License-Identifier: Apache-2.0 */
#include "backtest/command_backtest.h"

#include <inttypes.h>
#include <stdio.h>

#include "backtest/backtest.h"

static int check_line(const p4d_line *line, p4d_error *err)
{
	if (!line->json || !line->csv)
		return 0;
	p4d_fail(err, P4D_E_USAGE, "--json and --csv cannot be combined");
	return p4d_fix(err, "p4d help backtest");
}

/* The selection of jobs as a text: "since now-30days, of user anna, in partition h100". */
static const char *asked(const p4d_backtest *b, char *buf, size_t size)
{
	const struct {
		const char *before, *list;
	} of[] = {{"since ", b->since},
		  {", of user ", b->users},
		  {", of account ", b->accounts},
		  {", in partition ", b->partitions}};
	p4d_text text = p4d_text_in(buf, size);

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (of[i].list)
			p4d_text_print(&text, "%s%.64s", of[i].before, of[i].list);
	return buf;
}

int p4d_backtest_no_jobs(const p4d_backtest *b, p4d_error *err)
{
	char which[320];

	asked(b, which, sizeof(which));
	if (!b->jobs.seen) {
		p4d_fail(err, P4D_E_IO, "sacct shows no jobs %s", which);
		return p4d_fix(
		    err, "--since=DATE with an earlier date, or run p4d as a user who may see all jobs");
	}
	if (!b->jobs.count) {
		p4d_fail(err, P4D_E_IO,
			 "sacct shows %" PRIu64
			 " jobs %s, but none with GPUs: Slurm's accounting counts GPUs only if "
			 "slurm.conf says so",
			 b->jobs.seen, which);
		return p4d_fix(err, "AccountingStorageTRES=gres/gpu in slurm.conf");
	}
	p4d_fail(err, P4D_E_IO, "sacct shows %zu jobs with GPUs %s, none of which has ended", b->jobs.count,
		 which);
	return p4d_fix(err, "--since=DATE with an earlier date");
}

/* If sacct gives no scripts, reports the reason. There are several possible reasons, and only one of them
 * is a setting of Slurm. */
static int check_scripts(const p4d_backtest *b, p4d_error *err)
{
	const uint64_t batch = b->rows - b->interactive - b->not_started;

	if (!b->rows || b->stage[P4D_BACKTEST_STORED].jobs)
		return 0;
	if (!batch) {
		p4d_fail(
		    err, P4D_E_IO,
		    "none of the %zu jobs with GPUs that have ended since %.64s has a batch script to judge: "
		    "srun or salloc started %" PRIu64 ", and %" PRIu64 " tasks of arrays never started",
		    b->rows, b->since, b->interactive, b->not_started);
		return p4d_fix(err, "--since=DATE with an earlier date, or p4d report --since=%.64s",
			       b->since);
	}
	p4d_fail(err, P4D_E_IO,
		 "sacct shows %" PRIu64 " jobs of sbatch with GPUs that have ended since %.64s, but none of "
		 "their scripts: Slurm stores scripts only if slurm.conf says so, and "
		 "shows scripts of other users only to operators and administrators",
		 batch, b->since);
	return p4d_fix(err, "AccountingStoreFlags=job_script,job_env in slurm.conf");
}

static int find_jobs(p4d_backtest *b, p4d_error *err)
{
	const p4d_accounting_query query = {
	    .since = b->since, .users = b->users, .accounts = b->accounts, .partitions = b->partitions};

	b->accounting = p4d_accounting_open(err);
	if (!b->accounting || p4d_accounting_find(b->accounting, &query, &b->jobs, err) < 0)
		return -1;
	return b->jobs.count ? 0 : p4d_backtest_no_jobs(b, err);
}

static int run(p4d_backtest *b, const p4d_line *line, p4d_error *err)
{
	b->site = p4d_line_open_site(line->conf, err);
	if (!b->site || find_jobs(b, err) < 0)
		return -1;
	b->strict = p4d_backtest__strict_site(b->site);
	if (p4d_backtest_run(b, err) < 0 || p4d_backtest_count(b, err) < 0 || check_scripts(b, err) < 0)
		return -1;
	if (!b->rows)
		return p4d_backtest_no_jobs(b, err);
	if (line->html && p4d_backtest__write_html(b, line->html, err) < 0)
		return -1;
	if (line->json)
		return p4d_backtest__print_json(b, err);
	return line->csv ? p4d_backtest__print_csv(b) : p4d_backtest__print(b, err);
}

int p4d_command_backtest(const p4d_line *line, p4d_error *err)
{
	p4d_backtest b = {.since = line->since ? line->since : "now-30days",
			  .users = line->job.user,
			  .accounts = line->job.account,
			  .partitions = line->job.partition,
			  .read_output = line->read_output};

	if (check_line(line, err) < 0)
		return -1;
	const int rc = run(&b, line, err);
	p4d_backtest_free(&b);
	return rc;
}
