/* SPDX-License-Identifier: Apache-2.0 */
/* Finds jobs that ran out of GPU memory although p4d let them pass, the most important part of the report. */
#include <stdio.h>
#include <stdlib.h>

#include "report/table.h"
#include "usage/usage.h"

static int by_hours(const void *a, const void *b)
{
	const p4d_usage_row *const *one = a, *const *other = b;
	const double x = (*one)->of->gpu_hours, y = (*other)->of->gpu_hours;

	return x != y ? (x < y) - (x > y) : (*one > *other) - (*one < *other);
}

const p4d_usage_row **p4d_usage__passed_deaths(const p4d_usage *u, size_t *count)
{
	const p4d_usage_row **list = calloc(u->rows + 1, sizeof(*list));

	*count = 0;
	for (size_t i = 0; list && i < u->rows; i++) {
		const p4d_usage_row *row = &u->row[i];
		if (p4d_backtest_is_death(row->of->end) &&
		    (row->outcome == P4D_OUTCOME_PASS || row->outcome == P4D_OUTCOME_WARN ||
		     row->outcome == P4D_OUTCOME_REWRITE))
			list[(*count)++] = row;
	}
	if (list)
		qsort(list, *count, sizeof(*list), by_hours);
	return list;
}

double p4d_usage__hours_of_death(const p4d_usage *u, uint64_t *jobs)
{
	double hours = 0;

	*jobs = 0;
	for (size_t i = 0; i < u->rows; i++)
		if (p4d_backtest_is_death(u->row[i].of->end)) {
			hours += u->row[i].of->gpu_hours;
			++*jobs;
		}
	return *jobs ? hours / (double)*jobs : 0;
}

static void add_row(p4d_table *table, const p4d_usage_row *row)
{
	p4d_table_cell(table, P4D_PLAIN, "%s", row->of->job->id);
	p4d_table_cell(table, P4D_PLAIN, "%.1f", row->of->gpu_hours);
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_backtest_end_titles[row->of->end]);
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_outcome_name(row->outcome));
	if (row->need > 0)
		p4d_table_cell(table, P4D_PLAIN, "%.1f of %.1f GiB", row->need, row->capacity);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
	if (row->measured > 0)
		p4d_table_cell(table, P4D_PLAIN, "%.1f GiB", row->measured);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
	p4d_table_cell(table, P4D_PLAIN, "%s", row->record.model);
}

int p4d_usage__fill_deaths(const p4d_usage *u, size_t most, p4d_table *table, size_t *count, p4d_error *err)
{
	static const char *const titles[] = {"JOB",       "GPU-HOURS", "END",  "VERDICT",
					     "PREDICTED", "MEASURED",  "MODEL"};
	const p4d_usage_row **list = p4d_usage__passed_deaths(u, count);

	if (!list)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", u->rows);
	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		p4d_table_column(table, titles[i], P4D_LEFT);
	for (size_t i = 0; i < *count && i < most; i++)
		add_row(table, list[i]);
	free(list);
	return 0;
}
