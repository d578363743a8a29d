/* SPDX-License-Identifier: Apache-2.0 */
/* p4d validate: what p4d predicts for runs that were measured. */
#include "command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "defaults.h"
#include "json_file.h"
#include "measured.h"
#include "table.h"

enum { MAX_FILE = 16 * 1024 * 1024 };

/* Predicted over measured, minus 1, collected. */
typedef struct errors {
	unsigned count;
	double sum, worst;
} errors;

typedef struct validation {
	p4d_table table;
	struct json_object *rows;
	errors closed, paper, reserved;
	unsigned left_out;
} validation;

static double collect(errors *all, double predicted, double measured)
{
	double error = predicted / measured - 1;

	all->count++;
	all->sum += fabs(error);
	all->worst = fmax(all->worst, fabs(error));
	return error;
}

static double mean(const errors *all)
{
	return all->count ? all->sum / all->count : 0;
}

/* Ranks of a node: as many as there are, up to 8, as the measured machines have. */
static int estimate(const p4d_measured *row, int method, p4d_estimate *out, p4d_error *err)
{
	const p4d_capacity unknown = {NULL, 0, 0};
	uint64_t per_node = row->gpus < 8 ? row->gpus : 8;
	p4d_request request = row->request;
	p4d_layout layout;

	p4d_request_complete(&request, 0, row->gpus);
	if (p4d_layout_build(&request, row->gpus / per_node, per_node, &layout, err) < 0)
		return -1;
	return p4d_estimate_memory(&layout, method, &unknown, out, err);
}

static void add_json(validation *v, const p4d_measured *row, double closed, double paper, double reserved)
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

static int add_row(validation *v, const p4d_measured *row, p4d_error *err)
{
	p4d_estimate closed, paper;
	p4d_error cause;

	if (estimate(row, P4D_METHOD_CLOSED, &closed, &cause) < 0 ||
	    estimate(row, P4D_METHOD_PAPER, &paper, &cause) < 0)
		return p4d_fail(err, cause.code, "%s: %.400s", row->id, cause.text);
	double a = p4d_to_gib(closed.peak.allocated_bytes), b = p4d_to_gib(paper.peak.allocated_bytes);
	double held = p4d_to_gib(closed.peak.allocated_bytes + closed.peak.part[P4D_PART_FRAGMENTATION]);

	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->id);
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->gpu);
	p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", row->allocated_gib);
	p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", a);
	p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%", 100 * collect(&v->closed, a, row->allocated_gib));
	p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", b);
	p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%", 100 * collect(&v->paper, b, row->allocated_gib));
	if (row->reserved_gib > 0) {
		p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", row->reserved_gib);
		p4d_table_cell(&v->table, P4D_PLAIN, "%.2f", held);
		p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%",
			       100 * collect(&v->reserved, held, row->reserved_gib));
	} else {
		for (int i = 0; i < 3; i++)
			p4d_table_cell(&v->table, P4D_PLAIN, "-");
	}
	add_json(v, row, a, b, held);
	return 0;
}

static int read_rows(validation *v, const char *path, char *text, p4d_error *err)
{
	p4d_measured_file file;
	p4d_measured row;
	int rc = p4d_measured_open(&file, path, text, err);

	while (rc == 0 && (rc = p4d_measured_next(&file, &row, err)) > 0) {
		if (!row.complete)
			v->left_out++;
		rc = row.complete ? add_row(v, &row, err) : 0;
	}
	if (rc == 0 && !v->closed.count)
		return p4d_fail(err, P4D_E_VALUE, "%.300s: no row with validate = 1", path);
	return rc;
}

static void add_summary(struct json_object *object, const char *name, const errors *all)
{
	struct json_object *summary = json_object_new_object();

	json_object_object_add(summary, "rows", json_object_new_int64(all->count));
	json_object_object_add(summary, "mean_absolute_error", json_object_new_double(mean(all)));
	json_object_object_add(summary, "worst_error", json_object_new_double(all->worst));
	json_object_object_add(object, name, summary);
}

static int print_json(validation *v, p4d_error *err)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "rows", json_object_get(v->rows));
	add_summary(object, "closed", &v->closed);
	add_summary(object, "paper", &v->paper);
	add_summary(object, "reserved", &v->reserved);
	json_object_object_add(object, "left_out", json_object_new_int64(v->left_out));
	return p4d_json_print(object, err);
}

static void print_errors(const char *what, const errors *all)
{
	if (all->count)
		printf("%s: mean absolute error %.2f %%, worst %.2f %% over %u rows\n", what, 100 * mean(all),
		       100 * all->worst, all->count);
}

static int print_text(validation *v, p4d_error *err)
{
	puts("GiB, peak of the fullest rank:");
	if (p4d_table_print(&v->table, true, err) < 0)
		return -1;
	puts("");
	print_errors("allocated, method closed", &v->closed);
	print_errors("allocated, method paper", &v->paper);
	print_errors("reserved", &v->reserved);
	if (v->left_out)
		printf("%u rows left out: they do not say everything that the closed form needs\n",
		       v->left_out);
	return 0;
}

int p4d_command_validate(const p4d_line *line, p4d_error *err)
{
	static const char *const numbers[] = {"measured", "closed",   "error",     "paper",
					      "error",    "reserved", "predicted", "error"};
	validation v = {.rows = json_object_new_array()};
	size_t length;
	int rc = -1;

	if (!line->operands) {
		p4d_fail(err, P4D_E_USAGE, "validate needs a CSV file of measurements");
		json_object_put(v.rows);
		return p4d_fix(err, "p4d help validate");
	}
	p4d_table_column(&v.table, "run", P4D_LEFT);
	p4d_table_column(&v.table, "gpu", P4D_LEFT);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		p4d_table_column(&v.table, numbers[i], P4D_RIGHT);
	char *bytes = p4d_text_read(line->operand[0], MAX_FILE, &length, err);
	char *text = bytes ? strndup(bytes, length) : NULL;
	if (text)
		rc = read_rows(&v, line->operand[0], text, err);
	else if (bytes)
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu bytes", length);
	free(bytes);
	if (rc == 0)
		rc = (line->json ? print_json : print_text)(&v, err);
	free(text);
	p4d_table_free(&v.table);
	json_object_put(v.rows);
	return rc;
}
