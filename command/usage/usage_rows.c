/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes rows of jobs with the columns that p4d validate and p4d calibrate read. Users are named u1, u2, ...
 * unless --names is given, so that p4d calibrate can count them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/new_file.h"
#include "base/text.h"
#include "usage/usage.h"

/* A job that was ended from outside has reached its peak memory if it ran for at least RAN_S seconds. */
enum { RAN_S = 600 };

static bool ran(const p4d_usage_row *row)
{
	switch (row->of->end) {
	case P4D_BACKTEST_COMPLETED:
		return true;
	case P4D_BACKTEST_TIMEOUT:
	case P4D_BACKTEST_CANCELLED:
		return row->of->job->elapsed_s >= RAN_S;
	default:
		return false;
	}
}

static bool is_row(const p4d_usage_row *row)
{
	const p4d_backtest_result *r = row->of->result;

	if (!*r->options || !*r->gpu)
		return false;
	return row->of->end == P4D_BACKTEST_SAID || (ran(row) && row->measured > 0 && !row->mean);
}

static void add_row(p4d_text *text, const p4d_usage *u, const p4d_usage_row *row, unsigned user)
{
	const p4d_accounting_job *job = row->of->job;
	const unsigned release = p4d_accounting_release(u->jobs.accounting);
	const bool died = row->of->end == P4D_BACKTEST_SAID;
	const time_t at = (time_t)job->ended;
	char day[16] = "", slurm[16] = "", name[72];
	struct tm tm;

	if (job->ended > 0 && localtime_r(&at, &tm))
		strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	if (release)
		snprintf(slurm, sizeof(slurm), "%u.%02u", release / 100, release % 100);
	if (u->names)
		snprintf(name, sizeof(name), "%.63s", job->user);
	else
		snprintf(name, sizeof(name), "u%u", user);
	p4d_text_print(text, "job-%s,%s,%s,1,\"%s\",%s,", job->id, row->of->result->framework,
		       row->of->result->gpu, row->of->result->options, died ? "device" : row->what);
	if (!died)
		p4d_text_print(text, "%.2f", row->measured);
	p4d_text_print(text, ",%d,,%s,%s,,%s,%s\n", died, day, slurm, name,
		       p4d_usage__source_names[row->source]);
}

int p4d_usage__write_rows(const p4d_usage *u, const char *path, unsigned *written, p4d_error *err)
{
	p4d_text text = {.grows = true};
	unsigned user = 0;

	*written = 0;
	p4d_text_add(&text,
		     "row_id,class,gpu,validate,options,what,measured_gib,oom,seen,date,slurm,driver,user,"
		     "source\n");
	/* a user's jobs are adjacent */
	for (size_t i = 0; i < u->rows; i++) {
		user += !i || strcmp(u->row[i].of->job->user, u->row[i - 1].of->job->user) != 0;
		if (!is_row(&u->row[i]))
			continue;
		add_row(&text, u, &u->row[i], user);
		++*written;
	}
	return p4d_new_file_put_text(path, &text, err);
}
