/* SPDX-License-Identifier: Apache-2.0 */
/* p4d validate: compares step times. */
#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/json_file.h"
#include "cost/cost.h"
#include "report/report.h"
#include "validate/command_validate.h"

typedef struct step_validation {
	const p4d_gpus *gpus;
	p4d_timeline_work work;
	p4d_table table;
	struct json_object *rows, *unmodelled;
	p4d_validate_errors errors;
	p4d_measured_pair *runs; /* owned */
	size_t count, room;
	unsigned left_out, no_clock;
	p4d_validate_untaken untaken;
} step_validation;

static p4d_measured_pair *next_run(step_validation *v, p4d_error *err)
{
	if (!p4d_grow(&v->runs, &v->room, v->count + 1, sizeof(*v->runs))) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu rows", v->count + 1);
		return NULL;
	}
	return &v->runs[v->count];
}

static void add_json(step_validation *v, const p4d_measured *row, const p4d_step *step, double measured)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "row", json_object_new_string(row->id));
	json_object_object_add(object, "gpu", json_object_new_string(row->gpu));
	json_object_object_add(object, "gpus", json_object_new_int64((int64_t)row->gpus));
	json_object_object_add(object, "measured_seconds", json_object_new_double(measured));
	json_object_object_add(object, "predicted_seconds", json_object_new_double(step->seconds));
	json_object_object_add(object, "tokens_per_second_per_gpu",
			       json_object_new_double(step->tokens_per_second_per_gpu));
	json_object_object_add(object, "tflops_per_gpu", json_object_new_double(step->tflops_per_gpu));
	json_object_object_add(object, "hardware_tflops_per_gpu",
			       json_object_new_double(step->hardware_tflops_per_gpu));
	json_object_object_add(object, "mfu", json_object_new_double(step->mfu));
	json_object_object_add(object, "bubble_fraction", json_object_new_double(step->bubble_fraction));
	json_object_array_add(v->rows, object);
}

static void add_cells(step_validation *v, const p4d_measured *row, const p4d_step *step, double measured)
{
	p4d_table *t = &v->table;

	p4d_table_cell(t, P4D_PLAIN, "%s", row->id);
	p4d_table_cell(t, P4D_PLAIN, "%s", row->gpu);
	p4d_table_cell(t, P4D_PLAIN, "%llu", (unsigned long long)row->gpus);
	p4d_table_cell(t, P4D_PLAIN, "%.3f", measured);
	p4d_table_cell(t, P4D_PLAIN, "%.3f", step->seconds);
	p4d_table_cell(t, P4D_PLAIN, "%+.1f %%",
		       100 * p4d_validate__collect(&v->errors, step->seconds, measured));
	p4d_table_cell(t, P4D_PLAIN, "%.1f %%", 100 * step->mfu);
	p4d_table_cell(t, P4D_PLAIN, "%.0f", step->tflops_per_gpu);
	p4d_table_cell(t, P4D_PLAIN, "%.0f", step->hardware_tflops_per_gpu);
	p4d_table_cell(t, P4D_PLAIN, "%.1f %%", 100 * step->bubble_fraction);
}

static int add_row(step_validation *v, const p4d_measured *row, p4d_error *err)
{
	const p4d_gpu *known = p4d_gpu_find(v->gpus, row->gpu, NULL);
	p4d_layout layout;
	p4d_step step;

	if (p4d_validate__layout(row, v->gpus, &layout, err) < 0)
		return -1;
	if (!p4d_cost_known(&layout, known)) {
		v->no_clock++;
		return 0;
	}
	p4d_measured_pair *run = next_run(v, err);
	const p4d_gpu gpu = p4d_measured__gpu(row, known);
	if (!run || p4d_cost_step(&layout, &gpu, &v->work, &step, err) < 0)
		return -1;
	p4d_measured__pair_set(run, row, &layout, step.seconds);
	v->count++;
	add_cells(v, row, &step, run->measured);
	add_json(v, row, &step, run->measured);
	return 0;
}

/* Records a run for which p4d has no formula. */
static void leave_out(step_validation *v, const p4d_measured *row)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "row", json_object_new_string(row->id));
	json_object_object_add(object, "why", json_object_new_string(row->unmodelled));
	json_object_array_add(v->unmodelled, object);
}

static void print_unmodelled(const step_validation *v)
{
	const size_t count = json_object_array_length(v->unmodelled);

	for (size_t i = 0; i < count; i++) {
		struct json_object *object = json_object_array_get_idx(v->unmodelled, i);
		printf("%s: not modelled: %s\n",
		       json_object_get_string(json_object_object_get(object, "row")),
		       json_object_get_string(json_object_object_get(object, "why")));
	}
}

static int read_rows(step_validation *v, p4d_measured_file *file, p4d_error *err)
{
	p4d_measured row;
	int rc;

	while ((rc = p4d_measured_next(file, &row, err)) != 0) {
		if (rc > 0 && *row.unmodelled)
			leave_out(v, &row);
		else if (rc > 0 && !row.complete)
			v->left_out++;
		else if ((rc < 0 || add_row(v, &row, err) < 0) &&
			 p4d_validate__leave(&v->untaken, file, rc < 0 ? "" : row.id, err) < 0)
			return -1;
	}
	if (!v->count && v->untaken.count)
		return p4d_validate__none_taken(&v->untaken, err);
	if (!v->count)
		return p4d_fail(err, P4D_E_VALUE,
				"%.300s: no row has validate = 1 and a GPU whose speed p4d knows",
				file->name);
	return 0;
}

static int print_json(step_validation *v, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *orders = json_object_new_object();
	unsigned pairs, wrong = p4d_measured__wrong_orders(v->runs, v->count, &pairs);

	json_object_object_add(object, "rows", json_object_get(v->rows));
	p4d_validate__add_errors(object, "step_seconds", &v->errors);
	json_object_object_add(orders, "pairs", json_object_new_int64(pairs));
	json_object_object_add(orders, "wrong", json_object_new_int64(wrong));
	json_object_object_add(object, "orders", orders);
	json_object_object_add(object, "not_modelled", json_object_get(v->unmodelled));
	json_object_object_add(object, "left_out", json_object_new_int64(v->left_out));
	json_object_object_add(object, "no_clock", json_object_new_int64(v->no_clock));
	p4d_validate__add_untaken(object, &v->untaken);
	return p4d_report_json_print(object, err);
}

static int print_text(step_validation *v, p4d_error *err)
{
	unsigned pairs, wrong = p4d_measured__wrong_orders(v->runs, v->count, &pairs);

	puts("Seconds per step:");
	if (p4d_table_print(&v->table, true, err) < 0)
		return -1;
	puts("");
	p4d_validate__print_errors("step time", &v->errors);
	printf("wrong order: %u of %u pairs of layouts of the same model, batch and GPUs\n", wrong, pairs);
	print_unmodelled(v);
	if (v->left_out)
		printf("%u rows left out: inputs of the cost model are missing\n", v->left_out);
	if (v->no_clock)
		printf("%u rows left out: gpus.json lacks the speed of their GPU\n", v->no_clock);
	p4d_validate__print_untaken(&v->untaken);
	return 0;
}

int p4d_validate__throughput(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err)
{
	static const char *const numbers[] = {"gpus", "measured", "predicted", "error",
					      "mfu",  "tflops",   "hardware",  "bubble"};
	step_validation v = {
	    .gpus = gpus, .rows = json_object_new_array(), .unmodelled = json_object_new_array()};

	p4d_table_column(&v.table, "run", P4D_LEFT);
	p4d_table_column(&v.table, "gpu", P4D_LEFT);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		p4d_table_column(&v.table, numbers[i], P4D_RIGHT);
	int rc = read_rows(&v, file, err);
	if (rc == 0)
		rc = (json ? print_json : print_text)(&v, err);
	p4d_table_free(&v.table);
	p4d_timeline_work_free(&v.work);
	free(v.runs);
	json_object_put(v.rows);
	json_object_put(v.unmodelled);
	p4d_validate__free_untaken(&v.untaken);
	return rc;
}
