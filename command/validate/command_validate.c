/* SPDX-License-Identifier: Apache-2.0 */
/* p4d validate: compares p4d's predictions with measured runs. */
#include "validate/command_validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "request/defaults.h"

enum { MAX_FILE = 16 * 1024 * 1024 };

double p4d_validate__collect(p4d_validate_errors *all, double predicted, double measured)
{
	double error = predicted / measured - 1;

	all->count++;
	all->sum += fabs(error);
	all->worst = fmax(all->worst, fabs(error));
	return error;
}

static double mean_error(const p4d_validate_errors *all)
{
	return all->count ? all->sum / all->count : 0;
}

void p4d_validate__print_errors(const char *what, const p4d_validate_errors *all)
{
	if (all->count)
		printf("%s: mean absolute error %.2f %%, worst %.2f %% over %u rows\n", what,
		       100 * mean_error(all), 100 * all->worst, all->count);
}

void p4d_validate__add_errors(struct json_object *object, const char *name, const p4d_validate_errors *all)
{
	struct json_object *summary = json_object_new_object();

	json_object_object_add(summary, "rows", json_object_new_int64(all->count));
	json_object_object_add(summary, "mean_absolute_error", json_object_new_double(mean_error(all)));
	json_object_object_add(summary, "worst_error", json_object_new_double(all->worst));
	json_object_object_add(object, name, summary);
}

int p4d_validate__layout(const p4d_measured *row, const p4d_gpus *gpus, p4d_layout *layout, p4d_error *err)
{
	p4d_request request = row->request;
	p4d_error cause;

	p4d_gpu_set_domain(p4d_gpu_find(gpus, row->gpu, NULL), &request);
	p4d_request_complete(&request, 0, row->gpus);
	if (p4d_layout_build(&request, row->gpus / row->gpus_per_node, row->gpus_per_node, layout, &cause) <
	    0)
		return p4d_fail(err, cause.code, "%s: %.400s", row->id, cause.text);
	return 0;
}

void p4d_validate__begin_deaths(p4d_validate_deaths *deaths)
{
	deaths->rows = json_object_new_array();
	p4d_table_columns(&deaths->table, {"run", P4D_LEFT}, {"gpu", P4D_LEFT}, {"predicted", P4D_RIGHT},
			  {"verdict", P4D_LEFT});
}

void p4d_validate__add_deaths(struct json_object *object, const p4d_validate_deaths *deaths)
{
	struct json_object *oom = json_object_new_object();

	json_object_object_add(oom, "rows", json_object_get(deaths->rows));
	json_object_object_add(oom, "judged", json_object_new_int64(deaths->judged));
	json_object_object_add(oom, "false_passes", json_object_new_int64(deaths->passed));
	json_object_object_add(object, "oom", oom);
}

int p4d_validate__print_deaths(p4d_validate_deaths *deaths, const char *which, p4d_error *err)
{
	if (!deaths->table.cells)
		return 0;
	puts("\nRuns that ran out of memory:");
	if (p4d_table_print(&deaths->table, true, err) < 0)
		return -1;
	printf("\nfalse passes: %u of %u%s\n", deaths->passed, deaths->judged, which);
	return 0;
}

void p4d_validate__free_deaths(p4d_validate_deaths *deaths)
{
	p4d_table_free(&deaths->table);
	json_object_put(deaths->rows);
}

static int validate(const char *path, char *text, bool json, p4d_error *err)
{
	p4d_measured_file file;
	p4d_gpus gpus;

	if (p4d_gpus_load(&gpus, NULL, err) < 0 || p4d_measured_open(&file, path, text, err) < 0)
		return -1;
	if (file.kind == P4D_MEASURED_RUNS)
		return p4d_validate__runs(&file, &gpus, json, err);
	if (file.kind == P4D_MEASURED_THROUGHPUT)
		return p4d_validate__throughput(&file, &gpus, json, err);
	return p4d_validate__memory(&file, &gpus, json, err);
}

int p4d_command_validate(const p4d_line *line, p4d_error *err)
{
	size_t length;
	int rc = -1;

	if (!line->operands) {
		p4d_fail(err, P4D_E_USAGE, "validate needs a CSV file of measurements");
		return p4d_fix(err, "p4d help validate");
	}
	char *bytes = p4d_text_read(line->operand[0], MAX_FILE, &length, err);
	char *text = bytes ? strndup(bytes, length) : NULL;
	if (text)
		rc = validate(line->operand[0], text, line->json, err);
	else if (bytes)
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu bytes", length);
	free(bytes);
	free(text);
	return rc;
}
