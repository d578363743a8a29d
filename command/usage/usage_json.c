/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/json_file.h"
#include "report/report.h"
#include "usage/usage.h"

static struct json_object *json_cell(const p4d_backtest_cell *cell)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "jobs", json_object_new_uint64(cell->jobs));
	json_object_object_add(o, "gpu_hours", json_object_new_double(cell->gpu_hours));
	return o;
}

static const char *outcome_name(int outcome)
{
	return outcome == P4D_OUTCOMES ? "no_record" : p4d_outcome_name((p4d_outcome)outcome);
}

/* A list of the outcomes that have jobs. */
static struct json_object *json_outcomes(const p4d_backtest_cell *cell)
{
	struct json_object *o = json_object_new_object();

	for (int i = 0; i <= P4D_OUTCOMES; i++)
		if (cell[i].jobs)
			json_object_object_add(o, outcome_name(i), json_cell(&cell[i]));
	return o;
}

static struct json_object *json_ends(const p4d_backtest_cell *cell)
{
	struct json_object *o = json_object_new_object();

	for (int i = 0; i < P4D_BACKTEST_ENDS; i++)
		if (cell[i].jobs)
			json_object_object_add(o, p4d_backtest_end_names[i], json_cell(&cell[i]));
	return o;
}

static struct json_object *json_groups(const p4d_usage *u, p4d_usage_key by)
{
	struct json_object *list = json_object_new_array();
	size_t count;
	p4d_usage_group *group = p4d_usage__divide(u, by, &count);

	for (size_t i = 0; group && i < count; i++) {
		struct json_object *o = json_cell(&group[i].all);
		json_object_object_add(o, p4d_usage__key_names[by], json_object_new_string(group[i].key));
		json_object_object_add(o, "verdicts", json_outcomes(group[i].outcome));
		json_object_object_add(o, "ends", json_ends(group[i].end));
		json_object_object_add(o, "overridden", json_cell(&group[i].overridden));
		json_object_array_add(list, o);
	}
	free(group);
	return list;
}

static struct json_object *json_errors(const p4d_usage *u)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < u->frameworks; i++) {
		const p4d_usage_errors *e = &u->errors[i];
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "framework", json_object_new_string(e->framework));
		json_object_object_add(o, "jobs", json_object_new_int64(e->jobs));
		json_object_object_add(o, "mean_error", p4d_report_json_fraction(e->mean));
		json_object_object_add(o, "error_5", p4d_report_json_fraction(e->low));
		json_object_object_add(o, "error_95", p4d_report_json_fraction(e->high));
		json_object_object_add(o, "covered", json_object_new_int64(e->covered));
		json_object_object_add(o, "censored", json_object_new_int64(e->censored));
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *json_sources(const p4d_usage *u)
{
	struct json_object *o = json_object_new_object();

	for (int i = 0; i < P4D_USAGE_SOURCES; i++)
		if (u->of_source[i])
			json_object_object_add(o, p4d_usage__source_names[i],
					       json_object_new_int64(u->of_source[i]));
	return o;
}

static struct json_object *json_deaths(const p4d_usage *u)
{
	struct json_object *list = json_object_new_array();
	size_t count;
	const p4d_usage_row **row = p4d_usage__passed_deaths(u, &count);

	for (size_t i = 0; row && i < count; i++)
		json_object_array_add(list, p4d_usage__json_job(row[i]));
	free(row);
	return list;
}

static struct json_object *json_verdicts(const p4d_usage *u)
{
	struct json_object *o = json_object_new_object();

	for (int end = 0; end < P4D_BACKTEST_ENDS; end++)
		json_object_object_add(o, p4d_backtest_end_names[end], json_outcomes(u->cell[end]));
	return o;
}

int p4d_usage__print_json(const p4d_usage *u, p4d_error *err)
{
	struct json_object *o = json_object_new_object(), *by = json_object_new_object();

	json_object_object_add(o, "jobs", json_object_new_int64((int64_t)u->rows));
	json_object_object_add(o, "with_record", json_object_new_int64(u->joined));
	json_object_object_add(o, "records_not_counted", json_object_new_int64(u->unguarded));
	json_object_object_add(o, "measured", json_sources(u));
	json_object_object_add(o, "censored", json_object_new_int64(u->censored));
	json_object_object_add(o, "not_comparable", json_object_new_int64(u->incomparable));
	json_object_object_add(o, "ends", json_verdicts(u));
	json_object_object_add(o, "overridden", json_ends(u->overridden));
	json_object_object_add(o, "fewer_gpus", json_cell(&u->fewer));
	json_object_object_add(o, "fewer_gpus_saved", json_cell(&u->fewer_saved));
	json_object_object_add(o, "smaller_gpu", json_cell(&u->smaller));
	json_object_object_add(o, "predicted", json_errors(u));
	for (int i = 0; i < P4D_USAGE_KEYS; i++)
		if (i != P4D_USAGE_USER || u->names)
			json_object_object_add(by, p4d_usage__key_names[i], json_groups(u, (p4d_usage_key)i));
	json_object_object_add(o, "by", by);
	json_object_object_add(o, "passed_but_died", json_deaths(u));
	json_object_object_add(o, "refusals", p4d_usage_refusals__json(&u->refusals));
	return p4d_report_json_print(o, err);
}
