/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the sums of p4d report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "usage/usage.h"

const char *const p4d_usage__key_names[P4D_USAGE_KEYS] = {
    [P4D_USAGE_CODE] = "code",   [P4D_USAGE_ACCOUNT] = "account",     [P4D_USAGE_PARTITION] = "partition",
    [P4D_USAGE_MODEL] = "model", [P4D_USAGE_FRAMEWORK] = "framework", [P4D_USAGE_USER] = "user"};

static void add(p4d_backtest_cell *cell, const p4d_usage_row *row)
{
	cell->jobs++;
	cell->gpu_hours += row->of->gpu_hours;
}

static const char *key_of(const p4d_usage_row *row, p4d_usage_key by)
{
	const p4d_accounting_job *job = row->of->job;

	switch (by) {
	case P4D_USAGE_CODE:
		return row->record.code;
	case P4D_USAGE_ACCOUNT:
		return job->account;
	case P4D_USAGE_PARTITION:
		return job->partition;
	case P4D_USAGE_MODEL:
		return *row->record.model ? row->record.model : row->of->result->model;
	case P4D_USAGE_FRAMEWORK:
		return p4d_usage__framework(row);
	default:
		return job->user;
	}
}

/* A row with its key, for sorting. */
typedef struct keyed {
	char key[64];
	const p4d_usage_row *row;
} keyed;

static int by_key(const void *a, const void *b)
{
	return strcmp(((const keyed *)a)->key, ((const keyed *)b)->key);
}

static int by_hours(const void *a, const void *b)
{
	const p4d_usage_group *one = a, *other = b;
	const double x = one->all.gpu_hours, y = other->all.gpu_hours;

	return x != y ? (x < y) - (x > y) : strcmp(one->key, other->key);
}

static void add_to_group(p4d_usage_group *group, const p4d_usage_row *row)
{
	add(&group->all, row);
	add(&group->outcome[row->outcome], row);
	add(&group->end[row->of->end], row);
	if (row->overridden)
		add(&group->overridden, row);
}

p4d_usage_group *p4d_usage__divide(const p4d_usage *u, p4d_usage_key by, size_t *count)
{
	p4d_usage_group *group = calloc(u->rows + 1, sizeof(*group));
	keyed *all = calloc(u->rows + 1, sizeof(*all));

	*count = 0;
	for (size_t i = 0; all && i < u->rows; i++) {
		const char *key = key_of(&u->row[i], by);
		snprintf(all[i].key, sizeof(all[i].key), "%.63s", *key ? key : "-");
		if (by == P4D_USAGE_CODE) /* the first code is the reason */
			all[i].key[strcspn(all[i].key, "+")] = '\0';
		all[i].row = &u->row[i];
	}
	if (all)
		qsort(all, u->rows, sizeof(*all), by_key);
	for (size_t i = 0; all && group && i < u->rows; i++) {
		if (!i || strcmp(all[i].key, all[i - 1].key) != 0)
			memcpy(group[(*count)++].key, all[i].key, sizeof(all[i].key));
		add_to_group(&group[*count - 1], all[i].row);
	}
	free(all);
	if (group)
		qsort(group, *count, sizeof(*group), by_hours);
	return group;
}

static p4d_usage_errors *errors_of(p4d_usage *u, const char *framework)
{
	for (unsigned i = 0; i < u->frameworks; i++)
		if (!strcmp(u->errors[i].framework, framework))
			return &u->errors[i];
	if (u->frameworks == P4D_USAGE_FRAMEWORKS)
		return NULL;
	snprintf(u->errors[u->frameworks].framework, sizeof(u->errors->framework), "%s", framework);
	return &u->errors[u->frameworks++];
}

/* Computes the errors of one framework and their quantiles. value: scratch with room for all rows. */
static void measure(const p4d_usage *u, p4d_usage_errors *e, double *value)
{
	size_t n = 0;

	for (size_t i = 0; i < u->rows; i++) {
		const p4d_usage_row *row = &u->row[i];
		if (!row->comparable || row->censored || strcmp(p4d_usage__framework(row), e->framework) != 0)
			continue;
		value[n] = row->need / row->measured - 1;
		e->mean += value[n];
		e->covered += value[n++] >= 0;
	}
	e->jobs = (unsigned)n;
	if (!n)
		return;
	qsort(value, n, sizeof(*value), p4d_number_order);
	e->mean /= (double)n;
	e->low = value[(size_t)(0.05 * (double)(n - 1))];
	e->high = value[(size_t)ceil(0.95 * (double)(n - 1))];
}

static void count_row(p4d_usage *u, const p4d_usage_row *row)
{
	u->joined += row->joined;
	u->unguarded += row->unguarded;
	u->measured += row->measured > 0;
	u->not_measured += !(row->measured > 0);
	u->of_source[row->source]++;
	u->censored += row->censored;
	u->incomparable += row->measured > 0 && row->mean;
	add(&u->cell[row->of->end][row->outcome], row);
	if (row->overridden)
		add(&u->overridden[row->of->end], row);
	if (row->fewer_nodes) {
		const double kept = (double)row->fewer_nodes * row->fewer_per_node / row->of->job->gpus;
		add(&u->fewer, row);
		u->fewer_saved.jobs++;
		u->fewer_saved.gpu_hours += row->of->gpu_hours * (1 - kept);
	}
	if (row->smaller)
		add(&u->smaller, row);
}

int p4d_usage__count(p4d_usage *u, p4d_error *err)
{
	double *value = calloc(u->rows + 1, sizeof(*value));

	if (!value)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", u->rows);
	for (size_t i = 0; i < u->rows; i++) {
		const p4d_usage_row *row = &u->row[i];
		count_row(u, row);
		p4d_usage_errors *e = row->comparable ? errors_of(u, p4d_usage__framework(row)) : NULL;
		if (e)
			e->censored += row->censored;
	}
	for (unsigned i = 0; i < u->frameworks; i++)
		measure(u, &u->errors[i], value);
	free(value);
	return 0;
}
