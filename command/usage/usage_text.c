/* SPDX-License-Identifier: Apache-2.0 */
/* Prints p4d report on a terminal, or as the body of a page, with the same sentences and tables. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "picture/page.h"
#include "report/table.h"
#include "usage/usage.h"

enum { LINES = 12 }; /* maximum number of rows of a table on a terminal; a page has all rows */

__attribute__((format(printf, 2, 3))) static void put_line(FILE *page, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (page)
		p4d_page_line(page, "p", "", "%s", text);
	else
		puts(text);
}

/* Prints the table and frees it. */
static int put_table(FILE *page, const char *title, p4d_table *table, bool turn, p4d_error *err)
{
	if (!page) {
		printf("\n%s:\n\n", title);
		return p4d_table_print(table, turn, err);
	}
	const bool failed = table->failed;
	if (!failed) {
		p4d_page_line(page, "h2", "", "%s", title);
		p4d_page_table(page, table);
	}
	p4d_table_free(table);
	return failed ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a table") : 0;
}

static const char *const outcome_titles[P4D_OUTCOMES + 1] = {
    [P4D_OUTCOME_PASS] = "PASSED",
    [P4D_OUTCOME_WARN] = "WARNED",
    [P4D_OUTCOME_REWRITE] = "CHANGED",
    [P4D_OUTCOME_NOT_JUDGED] = "NOT JUDGED",
    [P4D_OUTCOME_WOULD_REFUSE] = "WOULD REFUSE",
    [P4D_OUTCOME_REFUSE] = "REFUSED",
    [P4D_OUTCOMES] = "NO RECORD",
};

static void add_cell(p4d_table *table, p4d_color color, const p4d_backtest_cell *cell)
{
	if (cell->jobs)
		p4d_table_cell(table, color, "%" PRIu64 " (%.1f)", cell->jobs, cell->gpu_hours);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
}

/*
 * Whether a table has a column for this outcome. Outcomes without jobs have none: refused jobs are not in
 * Slurm's accounting.
 */
static bool has_outcome(const p4d_usage *u, int outcome)
{
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++)
		if (u->cell[end][outcome].jobs)
			return true;
	return false;
}

static bool has_end(const p4d_usage *u, int end)
{
	for (int outcome = 0; outcome <= P4D_OUTCOMES; outcome++)
		if (u->cell[end][outcome].jobs)
			return true;
	return false;
}

static p4d_color color_of(int end, int outcome)
{
	if (end == P4D_BACKTEST_COMPLETED && outcome == P4D_OUTCOME_WOULD_REFUSE)
		return P4D_RED;
	if (!p4d_backtest_is_death((p4d_backtest_end)end) || outcome == P4D_OUTCOMES)
		return P4D_PLAIN;
	return outcome == P4D_OUTCOME_WOULD_REFUSE ? P4D_GREEN : P4D_YELLOW;
}

static int print_cells(const p4d_usage *u, FILE *page, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	p4d_table_column(&table, "END", P4D_LEFT);
	for (int outcome = 0; outcome <= P4D_OUTCOMES; outcome++)
		if (has_outcome(u, outcome))
			p4d_table_column(&table, outcome_titles[outcome], P4D_RIGHT);
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		if (!has_end(u, end))
			continue;
		p4d_table_cell(&table, P4D_PLAIN, "%s", p4d_backtest_end_titles[end]);
		for (int outcome = 0; outcome <= P4D_OUTCOMES; outcome++)
			if (has_outcome(u, outcome))
				add_cell(&table, color_of(end, outcome), &u->cell[end][outcome]);
	}
	return put_table(page, "Jobs (GPU-hours) by how they ended and by p4d's verdict at submission",
			 &table, false, err);
}

static p4d_backtest_cell passed_of(const p4d_backtest_cell of[P4D_OUTCOMES + 1])
{
	static const p4d_outcome passed[] = {P4D_OUTCOME_PASS, P4D_OUTCOME_WARN, P4D_OUTCOME_REWRITE};
	p4d_backtest_cell sum = {.jobs = 0};

	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++) {
		sum.jobs += of[passed[i]].jobs;
		sum.gpu_hours += of[passed[i]].gpu_hours;
	}
	return sum;
}

static const char *plural(const p4d_backtest_cell *cell)
{
	return cell->jobs == 1 ? "" : "s";
}

static void print_sentences(const p4d_usage *u, FILE *page)
{
	if (!page)
		putchar('\n');
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		if (!p4d_backtest_is_death((p4d_backtest_end)end) || !has_end(u, end))
			continue;
		const p4d_backtest_cell *of = u->cell[end];
		const p4d_backtest_cell passed = passed_of(of);
		put_line(page,
			 "%s: p4d would have refused %" PRIu64
			 " job%s (%.1f GPU-hours saved), and accepted %" PRIu64 " job%s (%.1f GPU-hours).",
			 p4d_backtest_end_titles[end], of[P4D_OUTCOME_WOULD_REFUSE].jobs,
			 plural(&of[P4D_OUTCOME_WOULD_REFUSE]), of[P4D_OUTCOME_WOULD_REFUSE].gpu_hours,
			 passed.jobs, plural(&passed), passed.gpu_hours);
	}
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++)
		if (u->overridden[end].jobs)
			put_line(page,
				 "Refused, and submitted with --p4d-override: %" PRIu64
				 " job%s (%.1f GPU-hours), %s.",
				 u->overridden[end].jobs, plural(&u->overridden[end]),
				 u->overridden[end].gpu_hours, p4d_backtest_end_titles[end]);
	if (u->fewer.jobs)
		put_line(page,
			 "By memory alone, %" PRIu64
			 " completed job%s would fit on fewer GPUs, which frees up to %.1f "
			 "GPU-hours if no job then takes longer.",
			 u->fewer.jobs, plural(&u->fewer), u->fewer_saved.gpu_hours);
	if (u->smaller.jobs)
		put_line(page,
			 "By memory alone, %" PRIu64
			 " completed job%s (%.1f GPU-hours) would fit on a smaller GPU of "
			 "this site.",
			 u->smaller.jobs, plural(&u->smaller), u->smaller.gpu_hours);
}

/* Adds a cell for each kind of evidence that GPU memory ran out. They have separate cells, because the
 * kinds must not be added up. */
static void add_deaths(p4d_table *table, const p4d_usage_group *group)
{
	add_cell(table, P4D_PLAIN, &group->end[P4D_BACKTEST_SAID]);
	add_cell(table, P4D_PLAIN, &group->end[P4D_BACKTEST_FULL]);
	add_cell(table, P4D_PLAIN, &group->end[P4D_BACKTEST_EARLY]);
}

static int print_groups(const p4d_usage *u, p4d_usage_key by, FILE *page, p4d_error *err)
{
	static const int outcomes[] = {P4D_OUTCOME_PASS, P4D_OUTCOME_WARN, P4D_OUTCOME_WOULD_REFUSE,
				       P4D_OUTCOME_NOT_JUDGED, P4D_OUTCOMES};
	p4d_table table = {.columns = 0};
	char title[96];
	size_t count;
	p4d_usage_group *group = p4d_usage__divide(u, by, &count);

	if (!group)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", u->rows);
	const size_t lines = page || count < LINES ? count : LINES;
	snprintf(title, sizeof(title), "Jobs (GPU-hours) by %s%s", p4d_usage__key_names[by],
		 lines < count ? ", only rows with the most GPU-hours" : "");
	p4d_table_column(&table, p4d_usage__key_names[by], P4D_LEFT);
	p4d_table_column(&table, "ALL", P4D_RIGHT);
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
		p4d_table_column(&table, outcome_titles[outcomes[i]], P4D_RIGHT);
	p4d_table_columns(&table, {"DIED: SAID", P4D_RIGHT}, {"GPU FULL", P4D_RIGHT}, {"EARLY", P4D_RIGHT});
	for (size_t g = 0; g < lines; g++) {
		p4d_table_cell(&table, P4D_PLAIN, "%s", group[g].key);
		add_cell(&table, P4D_PLAIN, &group[g].all);
		for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
			add_cell(&table, P4D_PLAIN, &group[g].outcome[outcomes[i]]);
		add_deaths(&table, &group[g]);
	}
	free(group);
	return put_table(page, title, &table, true, err);
}

static int print_errors(const p4d_usage *u, FILE *page, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	if (!u->frameworks)
		return 0;
	p4d_table_columns(&table, {"FRAMEWORK", P4D_LEFT}, {"JOBS", P4D_RIGHT}, {"MEAN", P4D_RIGHT},
			  {"5 %", P4D_RIGHT}, {"95 %", P4D_RIGHT}, {"NOT ABOVE THE PREDICTION", P4D_RIGHT},
			  {"AT 0.9 OF THE GPU", P4D_RIGHT});
	for (unsigned i = 0; i < u->frameworks; i++) {
		const p4d_usage_errors *e = &u->errors[i];
		p4d_table_cell(&table, P4D_PLAIN, "%s", *e->framework ? e->framework : "-");
		p4d_table_cell(&table, P4D_PLAIN, "%u", e->jobs);
		p4d_table_cell(&table, P4D_PLAIN, "%+.1f %%", 100 * e->mean);
		p4d_table_cell(&table, P4D_PLAIN, "%+.1f %%", 100 * e->low);
		p4d_table_cell(&table, P4D_PLAIN, "%+.1f %%", 100 * e->high);
		p4d_table_cell(&table, P4D_PLAIN, "%.1f %%", e->jobs ? 100.0 * e->covered / e->jobs : 0);
		p4d_table_cell(&table, P4D_PLAIN, "%u", e->censored);
	}
	return put_table(page, "Error of the prediction: predicted / measured memory - 1", &table, false,
			 err);
}

/*
 * Prints how many jobs p4d refused. What they would have cost is unknown, so it prints what jobs that ran out
 * of memory cost.
 */
static int print_refusals(const p4d_usage *u, FILE *page, p4d_error *err)
{
	const p4d_usage_refused sum = p4d_usage_refusals__sum(&u->refusals);
	p4d_table table = {.columns = 0};
	uint64_t deaths;
	const double hours = p4d_usage__hours_of_death(u, &deaths);

	if (u->refusals.path && !sum.refusals && !page)
		putchar('\n');
	if (u->refusals.path && !sum.refusals)
		put_line(page, "%.200s contains no refusal%s.", u->refusals.path,
			 u->refusals.lines ? ""
					   : ", and no line of p4d at all: is it slurmctld's log, or the "
					     "client_log of a login node?");
	if (!sum.refusals)
		return 0;
	p4d_usage_refusals__fill(&u->refusals, &table);
	if (put_table(page, "Refused at submission, by code", &table, false, err) < 0)
		return -1;
	if (deaths && !page)
		putchar('\n');
	if (deaths)
		put_line(page,
			 "p4d refused %zu different jobs. The %" PRIu64
			 " jobs that ran out of GPU memory took %.1f GPU-hours on average.",
			 sum.jobs, deaths, hours);
	return 0;
}

static int print_deaths(const p4d_usage *u, FILE *page, p4d_error *err)
{
	p4d_table table = {.columns = 0};
	char title[128];
	size_t count;

	if (p4d_usage__fill_deaths(u, page ? SIZE_MAX : P4D_USAGE_DEATHS, &table, &count, err) < 0)
		return -1;
	snprintf(title, sizeof(title),
		 "Passed by p4d, but ran out of GPU memory (%zu jobs, most GPU-hours first)", count);
	if (count)
		return put_table(page, title, &table, true, err);
	p4d_table_free(&table);
	return 0;
}

static void print_sources(const p4d_usage *u, FILE *page)
{
	char list[200];
	p4d_text text = p4d_text_in(list, sizeof(list));

	for (int i = P4D_USAGE_NOT_MEASURED + 1; i < P4D_USAGE_SOURCES; i++)
		if (u->of_source[i])
			p4d_text_print(&text, ", %u by %s", u->of_source[i], p4d_usage__source_names[i]);
	put_line(
	    page,
	    "%zu GPU jobs have ended; %u have p4d's verdict (AdminComment, Extra). The memory of a GPU was "
	    "measured for %u jobs%s; for %u jobs it was not measured, or the number is zero or impossible.",
	    u->rows, u->joined, u->measured, list, u->not_measured);
	if (u->unguarded)
		put_line(page,
			 "%u more jobs have a verdict in Extra. p4d does not count these verdicts: without "
			 "record = extra in p4d.conf, users can write Extra themselves.",
			 u->unguarded);
	if (u->incomparable)
		put_line(page,
			 "p4d does not compare %u measurements, which are means over pipeline stages or of "
			 "one stage.",
			 u->incomparable);
	if (!u->measured)
		put_line(page, "fix: AutoDetect=nvml in gres.conf and "
			       "AccountingStorageTRES=gres/gpu,gres/gpumem in slurm.conf");
}

int p4d_usage__print(const p4d_usage *u, FILE *page, p4d_error *err)
{
	print_sources(u, page);
	if (print_cells(u, page, err) < 0)
		return -1;
	print_sentences(u, page);
	if (print_deaths(u, page, err) < 0 || print_refusals(u, page, err) < 0)
		return -1;
	for (int by = 0; by < P4D_USAGE_KEYS; by++)
		if ((by != P4D_USAGE_USER || u->names) && print_groups(u, (p4d_usage_key)by, page, err) < 0)
			return -1;
	return print_errors(u, page, err);
}
