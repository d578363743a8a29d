/* SPDX-License-Identifier: Apache-2.0 */
#include "plot/command_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture/charts.h"
#include "plot/training_log.h"
#include "report/table.h"

enum { MOST_LOGS = P4D_CHART_COLORS, LABEL = 128 };

static const struct {
	const char *title;
	bool from_zero;
	unsigned rows;
} kinds[P4D_LOG_KINDS] = {
    [P4D_LOG_LOSS] = {"loss", false, 12},
    [P4D_LOG_VALIDATION] = {"validation loss", false, 8},
    [P4D_LOG_SPEED] = {"tokens/s", true, 5},
    [P4D_LOG_MEMORY] = {"memory, GiB", true, 4},
};

typedef struct plot {
	int logs;
	p4d_training_log log[MOST_LOGS];
	char run[MOST_LOGS][64];
	p4d_chart_curve curve[P4D_LOG_KINDS][P4D_CHART_CURVES];
	char label[P4D_CHART_CURVES][LABEL]; /* labels of curves of validation losses */
	p4d_chart chart[P4D_LOG_KINDS];
	size_t charts;
} plot;

/* Names the runs by the distinguishing parts of their paths, without common folders at the start and
 * common words at the end. */
static void name_runs(plot *p, char *const path[])
{
	size_t before = 0, behind = 0;

	for (size_t i = 0, same = p->logs > 1; same && path[0][i]; i++) {
		for (int k = 1; k < p->logs; k++)
			same = same && path[k][i] == path[0][i];
		if (same && path[0][i] == '/')
			before = i + 1;
	}
	for (size_t i = 1, same = p->logs > 1; same && i < strlen(path[0]); i++) {
		const char end = path[0][strlen(path[0]) - i];
		for (int k = 1; k < p->logs; k++)
			same = same && strlen(path[k]) > i && path[k][strlen(path[k]) - i] == end;
		if (same && (end == '/' || end == '.'))
			behind = i;
	}
	for (int k = 0; k < p->logs; k++) {
		const size_t length = strlen(path[k]);
		const size_t from = before + behind < length ? before : 0;
		snprintf(p->run[k], sizeof(p->run[k]), "%.*s",
			 (int)(before + behind < length ? length - before - behind : length), path[k] + from);
	}
}

/* Adds a curve with the label "run set", or only the set if there is one run. */
static void add_curve(plot *p, p4d_log_kind kind, int run, const p4d_log_curve *from)
{
	p4d_chart *chart = &p->chart[p->charts];
	p4d_chart_curve *to = &p->curve[kind][chart->count];

	if (chart->count == P4D_CHART_CURVES)
		return;
	*to = (p4d_chart_curve){.label = p->logs > 1 ? p->run[run] : "",
				.color = (unsigned)run,
				.point = from->point,
				.count = from->count};
	if (kind == P4D_LOG_VALIDATION && from->name[0]) {
		snprintf(p->label[chart->count], LABEL, "%s%s%s", to->label, to->label[0] ? " " : "",
			 from->name);
		to->label = p->label[chart->count];
		if (p->logs == 1)
			to->color = (unsigned)(chart->count % P4D_CHART_COLORS);
	}
	chart->count++;
}

static void make_charts(plot *p)
{
	for (int kind = 0; kind < P4D_LOG_KINDS; kind++) {
		const p4d_log_curve *from;
		p->chart[p->charts] = (p4d_chart){.title = kinds[kind].title,
						  .from_zero = kinds[kind].from_zero,
						  .rows = kinds[kind].rows,
						  .curve = p->curve[kind]};
		for (int run = 0; run < p->logs; run++)
			for (size_t i = 0;
			     (from = p4d_training_log__find(&p->log[run], (p4d_log_kind)kind, i)); i++)
				add_curve(p, (p4d_log_kind)kind, run, from);
		p->charts += p->chart[p->charts].count > 0;
	}
}

static int by_value(const void *a, const void *b)
{
	const double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

/* The median of a curve's values; NAN: no memory. */
static double median(const p4d_log_curve *curve)
{
	double *sorted = calloc(curve->count, sizeof(*sorted)), result = NAN;

	if (!sorted)
		return NAN;
	for (size_t i = 0; i < curve->count; i++)
		sorted[i] = curve->point[i].y;
	qsort(sorted, curve->count, sizeof(*sorted), by_value);
	result = sorted[curve->count / 2];
	free(sorted);
	return result;
}

static double most(const p4d_log_curve *curve)
{
	double result = -INFINITY;

	for (size_t i = 0; i < curve->count; i++)
		result = fmax(result, curve->point[i].y);
	return result;
}

/* Adds a cell; it is empty if the value is not known. */
static void add_number(p4d_table *table, int decimals, bool known, double value)
{
	if (known && isfinite(value))
		p4d_table_cell(table, P4D_PLAIN, "%.*f", decimals, value);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
}

/* Prints the last loss and validation loss of each run, its median speed, and its peak memory. */
static int print_runs(const plot *p, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	p4d_table_columns(&table, {"run", P4D_CUT}, {"step", P4D_RIGHT}, {"loss", P4D_RIGHT},
			  {"validation", P4D_RIGHT}, {"tokens/s", P4D_RIGHT}, {"GiB", P4D_RIGHT});
	for (int run = 0; run < p->logs; run++) {
		const p4d_log_curve *of[P4D_LOG_KINDS];
		for (int kind = 0; kind < P4D_LOG_KINDS; kind++)
			of[kind] = p4d_training_log__find(&p->log[run], (p4d_log_kind)kind, 0);
		const p4d_log_curve *loss = of[P4D_LOG_LOSS], *valid = of[P4D_LOG_VALIDATION];
		p4d_table_cell(&table, P4D_PLAIN, "%s", p->run[run]);
		add_number(&table, 0, true, loss->point[loss->count - 1].x);
		add_number(&table, 4, true, loss->point[loss->count - 1].y);
		add_number(&table, 4, valid, valid ? valid->point[valid->count - 1].y : 0);
		add_number(&table, 0, of[P4D_LOG_SPEED], of[P4D_LOG_SPEED] ? median(of[P4D_LOG_SPEED]) : 0);
		add_number(&table, 2, of[P4D_LOG_MEMORY], of[P4D_LOG_MEMORY] ? most(of[P4D_LOG_MEMORY]) : 0);
	}
	return p4d_table_print(&table, false, err);
}

static int draw(plot *p, const p4d_line *line, p4d_error *err)
{
	p4d_charts charts = {.title = line->operands == 1 ? line->operand[0] : "Training runs",
			     .chart = p->chart};

	for (; p->logs < line->operands; p->logs++)
		if (p4d_training_log__read(&p->log[p->logs], line->operand[p->logs], err) < 0)
			return -1;
	name_runs(p, line->operand);
	make_charts(p);
	charts.count = p->charts;
	if (line->svg && p4d_picture_charts(&charts, line->svg, err) < 0)
		return -1;
	if (p4d_charts_print(&charts, err) < 0)
		return -1;
	putchar('\n');
	return print_runs(p, err);
}

int p4d_command_plot(const p4d_line *line, p4d_error *err)
{
	if (!line->operands) {
		p4d_fail(err, P4D_E_USAGE, "no log given: give the FILE of p4d-train --log");
		return p4d_fix(err, "p4d plot LOG.jsonl");
	}
	plot *p = calloc(1, sizeof(*p));
	if (!p)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for curves");
	const int rc = draw(p, line, err);
	for (int i = 0; i < p->logs; i++)
		p4d_training_log__free(&p->log[i]);
	free(p);
	return rc;
}
