/* SPDX-License-Identifier: Apache-2.0 */
/* p4d validate: compares peak memory, and runs that ran out of memory. */
#include <stdio.h>

#include "base/json_file.h"
#include "plan/memory_played.h"
#include "report/report.h"
#include "validate/command_validate.h"

/* The fractions that apply on a site without a policy of its own (p4d.conf(5)). */
static const double safe = 0.80, limit = 0.95;

typedef struct memory_validation {
	const p4d_gpus *gpus;
	p4d_table table;
	struct json_object *rows;
	p4d_validate_deaths deaths;
	p4d_validate_errors closed, given, paper, reserved; /* given: closed, for rows with complete
							     * recipes */
	unsigned left_out;
	p4d_validate_untaken untaken;
} memory_validation;

/* judged: simulate the allocator, as p4d does for a job. */
static int estimate(const memory_validation *v, const p4d_measured *row, int method, bool judged,
		    p4d_estimate *out, p4d_error *err)
{
	const p4d_capacity capacity = {.gpu = p4d_gpu_find(v->gpus, row->gpu, NULL)};
	p4d_error cause;
	p4d_layout layout;

	if (p4d_validate__layout(row, v->gpus, &layout, err) < 0)
		return -1;
	if (p4d_memory_estimate(&layout, method, &capacity, out, &cause) < 0)
		return p4d_fail(err, cause.code, "%s: %.400s", row->id, cause.text);
	if (judged)
		p4d_memory_play(&layout, &capacity, out);
	return 0;
}

static void add_json(memory_validation *v, const p4d_measured *row, double closed, double paper,
		     double reserved)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "row", json_object_new_string(row->id));
	json_object_object_add(object, "gpu", json_object_new_string(row->gpu));
	json_object_object_add(object, "measured_gib", json_object_new_double(row->allocated_gib));
	json_object_object_add(object, "closed_gib", json_object_new_double(closed));
	json_object_object_add(object, "paper_gib", json_object_new_double(paper));
	if (row->reserved_gib > 0) {
		json_object_object_add(object, "measured_reserved_gib",
				       json_object_new_double(row->reserved_gib));
		json_object_object_add(object, "reserved_gib", json_object_new_double(reserved));
	}
	json_object_array_add(v->rows, object);
}

static int add_row(memory_validation *v, const p4d_measured *row, p4d_error *err)
{
	p4d_estimate closed, paper;

	if (estimate(v, row, P4D_METHOD_PLAN, false, &closed, err) < 0 ||
	    estimate(v, row, P4D_METHOD_PAPER, false, &paper, err) < 0)
		return -1;
	/* PyTorch does not count memory of CUDA graphs as allocated */
	double a = p4d_to_gib(closed.peak.allocated_bytes - closed.peak.part[P4D_PART_GRAPHS]),
	       b = p4d_to_gib(paper.peak.allocated_bytes);
	if (!row->partly_given)
		p4d_validate__collect(&v->given, a, row->allocated_gib);
	double held = p4d_to_gib(closed.peak.allocated_bytes + closed.peak.part[P4D_PART_FRAGMENTATION]);

	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->id);
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->gpu);
	p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", row->allocated_gib);
	p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", a);
	p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%",
		       100 * p4d_validate__collect(&v->closed, a, row->allocated_gib));
	p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", b);
	p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%",
		       100 * p4d_validate__collect(&v->paper, b, row->allocated_gib));
	if (row->reserved_gib > 0) {
		p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", row->reserved_gib);
		p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", held);
		p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%",
			       100 * p4d_validate__collect(&v->reserved, held, row->reserved_gib));
	} else {
		for (int i = 0; i < 3; i++)
			p4d_table_cell(&v->table, P4D_PLAIN, "-");
	}
	add_json(v, row, a, b, held);
	return 0;
}

/* p4d's verdict on a run that ran out of memory. why: "" if p4d models the run. */
static void print_death(memory_validation *v, const p4d_measured *row, const char *why, double fraction)
{
	const char *verdict = *why               ? "not modelled"
			      : fraction > limit ? "refuse"
			      : fraction > safe  ? "warn"
						 : "pass";
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "row", json_object_new_string(row->id));
	json_object_object_add(object, "gpu", json_object_new_string(row->gpu));
	json_object_object_add(object, "verdict", json_object_new_string(verdict));
	if (*why)
		json_object_object_add(object, "why", json_object_new_string(why));
	else
		json_object_object_add(object, "fraction", json_object_new_double(fraction));
	json_object_array_add(v->deaths.rows, object);
	p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s", row->id);
	p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s", row->gpu);
	if (*why) {
		p4d_table_cell(&v->deaths.table, P4D_PLAIN, "-");
		p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s: %s", verdict, why);
	} else {
		p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%.1f %%", 100 * fraction);
		p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s", verdict);
	}
	v->deaths.judged += !*why;
	v->deaths.passed += !*why && fraction <= safe;
}

/* Judges a run that ran out of memory, with the more accurate method. */
static void add_death(memory_validation *v, const p4d_measured *row)
{
	p4d_estimate closed = {.fraction = 0};
	p4d_error cause;

	if (*row->unmodelled)
		print_death(v, row, row->unmodelled, 0);
	else if (estimate(v, row, P4D_METHOD_PLAN, true, &closed, &cause) < 0)
		print_death(v, row, cause.text, 0);
	else
		print_death(v, row, closed.gpu ? "" : "unknown GPU", closed.fraction);
}

static int read_rows(memory_validation *v, p4d_measured_file *file, p4d_error *err)
{
	p4d_measured row;
	int rc;

	while ((rc = p4d_measured_next(file, &row, err)) != 0) {
		if (rc > 0 && row.oom)
			add_death(v, &row);
		else if (rc > 0 && !row.complete)
			v->left_out++;
		else if ((rc < 0 || add_row(v, &row, err) < 0) &&
			 p4d_validate__leave(&v->untaken, file, rc < 0 ? "" : row.id, err) < 0)
			return -1;
	}
	if (!v->closed.count && !v->deaths.judged && v->untaken.count)
		return p4d_validate__none_taken(&v->untaken, err);
	if (!v->closed.count && !v->deaths.judged)
		return p4d_fail(err, P4D_E_VALUE, "%.300s: no row with validate = 1", file->name);
	return 0;
}

static int print_json(memory_validation *v, p4d_error *err)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "rows", json_object_get(v->rows));
	p4d_validate__add_errors(object, "closed", &v->closed);
	p4d_validate__add_errors(object, "given", &v->given);
	p4d_validate__add_errors(object, "paper", &v->paper);
	p4d_validate__add_errors(object, "reserved", &v->reserved);
	p4d_validate__add_deaths(object, &v->deaths);
	json_object_object_add(object, "left_out", json_object_new_int64(v->left_out));
	p4d_validate__add_untaken(object, &v->untaken);
	return p4d_report_json_print(object, err);
}

static int print_text(memory_validation *v, p4d_error *err)
{
	puts("GiB, peak of the fullest rank:");
	if (p4d_table_print(&v->table, true, err) < 0)
		return -1;
	puts("");
	p4d_validate__print_errors("allocated, method closed", &v->closed);
	if (v->given.count < v->closed.count)
		p4d_validate__print_errors("  of runs whose whole recipe is published", &v->given);
	p4d_validate__print_errors("allocated, method paper", &v->paper);
	p4d_validate__print_errors("reserved", &v->reserved);
	if (v->left_out)
		printf("%u rows left out: inputs of the closed form are missing\n", v->left_out);
	if (p4d_validate__print_deaths(&v->deaths, " that are modelled", err) < 0)
		return -1;
	p4d_validate__print_untaken(&v->untaken);
	return 0;
}

int p4d_validate__memory(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err)
{
	static const char *const numbers[] = {"measured", "closed",   "error",     "paper",
					      "error",    "reserved", "predicted", "error"};
	memory_validation v = {.gpus = gpus, .rows = json_object_new_array()};

	p4d_table_column(&v.table, "run", P4D_LEFT);
	p4d_table_column(&v.table, "gpu", P4D_LEFT);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		p4d_table_column(&v.table, numbers[i], P4D_RIGHT);
	p4d_validate__begin_deaths(&v.deaths);
	int rc = read_rows(&v, file, err);
	if (rc == 0)
		rc = (json ? print_json : print_text)(&v, err);
	p4d_table_free(&v.table);
	json_object_put(v.rows);
	p4d_validate__free_deaths(&v.deaths);
	p4d_validate__free_untaken(&v.untaken);
	return rc;
}
