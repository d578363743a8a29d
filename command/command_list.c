/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "report/report.h"
#include "report/table.h"

/* Makes a JSON array from the list "a,b". */
static struct json_object *names(const char *list)
{
	struct json_object *array = json_object_new_array();

	for (; *list; list += strcspn(list, ","), list += *list == ',')
		json_object_array_add(array, json_object_new_string_len(list, (int)strcspn(list, ",=")));
	return array;
}

/* The text to search for in names; NULL: list all. */
static const char *pattern_of(const p4d_line *line)
{
	return line->operands ? line->operand[0] : NULL;
}

static int nothing_like(p4d_table *table, p4d_code code, const char *what, const char *pattern,
			const char *fix, p4d_error *err)
{
	p4d_table_free(table);
	p4d_fail(err, code, "no %s has \"%.64s\" in its name", what, pattern ? pattern : "");
	return p4d_fix(err, "%s", fix);
}

/* p4d models: the context of its p4d_model_each callback. */
typedef struct models {
	const char *pattern; /* part of the names to list; NULL: all */
	size_t count;
	p4d_table table;
	struct json_object *list; /* NULL: the output is the table */
} models;

static void model_object(const p4d_preset *preset, const p4d_request *request, struct json_object *list)
{
	static const p4d_option numbers[] = {P4D_LAYERS,   P4D_HIDDEN,   P4D_FFN,   P4D_HEADS,
					     P4D_KV_HEADS, P4D_HEAD_DIM, P4D_VOCAB, P4D_MAX_SEQ_LEN};
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "name", json_object_new_string(preset->name));
	json_object_object_add(object, "aliases", names(preset->aliases));
	json_object_object_add(object, "published_parameters",
			       preset->parameters ? json_object_new_uint64(preset->parameters) : NULL);
	json_object_object_add(object, "parameters", json_object_new_uint64(p4d_model_parameters(request)));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_object_add(object, p4d_request_option_info(numbers[i])->name,
				       p4d_is_set(request, numbers[i])
					   ? json_object_new_int64(request->value[numbers[i]])
					   : NULL);
	json_object_object_add(object, "global-batch",
			       preset->global_batch ? json_object_new_uint64(preset->global_batch) : NULL);
	json_object_object_add(object, "source", json_object_new_string(preset->source));
	json_object_array_add(list, object);
}

static void show_model(const p4d_preset *preset, const p4d_request *request, void *context)
{
	static const p4d_option numbers[] = {P4D_LAYERS,   P4D_HIDDEN, P4D_FFN,        P4D_HEADS,
					     P4D_KV_HEADS, P4D_VOCAB,  P4D_MAX_SEQ_LEN};
	models *m = context;

	if (m->pattern && !strcasestr(preset->name, m->pattern) && !strcasestr(preset->aliases, m->pattern))
		return;
	m->count++;
	if (m->list) {
		model_object(preset, request, m->list);
		return;
	}
	p4d_table_cell(&m->table, P4D_PLAIN, "%s", preset->name);
	if (preset->parameters)
		p4d_table_cell(&m->table, P4D_PLAIN, "%.3f B", (double)preset->parameters / 1e9);
	else
		p4d_table_cell(&m->table, P4D_PLAIN, "-");
	p4d_table_cell(&m->table, P4D_PLAIN, "%.3f B", (double)p4d_model_parameters(request) / 1e9);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (p4d_is_set(request, numbers[i]))
			p4d_table_cell(&m->table, P4D_PLAIN, "%" PRId64, request->value[numbers[i]]);
		else
			p4d_table_cell(&m->table, P4D_PLAIN, "-");
	p4d_table_cell(&m->table, P4D_PLAIN, "%s", preset->source);
}

static int list_models(const p4d_site *site, const p4d_line *line, p4d_error *err)
{
	static const char *const headers[] = {"published", "counted", "layers", "hidden", "ffn",
					      "heads",     "kv",      "vocab",  "seq"};
	models m = {.pattern = pattern_of(line), .list = line->json ? json_object_new_array() : NULL};

	p4d_table_column(&m.table, "model", P4D_LEFT);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		p4d_table_column(&m.table, headers[i], P4D_RIGHT);
	p4d_table_column(&m.table, "source", P4D_CUT);
	if (p4d_model_each(p4d_site_datadir(site), show_model, &m, err) < 0) {
		json_object_put(m.list);
		return -1;
	}
	if (!m.count) {
		json_object_put(m.list);
		return nothing_like(&m.table, P4D_E_UNKNOWN_MODEL, "model", m.pattern, "p4d models", err);
	}
	return m.list ? p4d_report_json_print(m.list, err) : p4d_table_print(&m.table, false, err);
}

static struct json_object *number(double value)
{
	char digits[32];

	if (!(value > 0))
		return NULL;
	snprintf(digits, sizeof(digits), "%.0f", value);
	return json_object_new_double_s(value, digits);
}

static struct json_object *fraction(double value)
{
	return value > 0 ? json_object_new_double(value) : NULL;
}

static struct json_object *gpu_object(const p4d_gpu *gpu)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "name", json_object_new_string(gpu->name));
	json_object_object_add(object, "label", json_object_new_string(gpu->label));
	json_object_object_add(object, "aliases", names(gpu->aliases));
	json_object_object_add(object, "usable_bytes", json_object_new_uint64(gpu->usable_bytes));
	json_object_object_add(object, "reported_bytes",
			       gpu->reported_bytes ? json_object_new_uint64(gpu->reported_bytes) : NULL);
	json_object_object_add(object, "nominal_bytes", json_object_new_uint64(gpu->nominal_bytes));
#define RATE(member, name, most, unit) \
	json_object_object_add(object, #member, (unit) > 1 ? number(gpu->member) : fraction(gpu->member));
	P4D_GPU_RATES(RATE)
#undef RATE
	json_object_object_add(object, "multiprocessors", number(gpu->multiprocessors));
	json_object_object_add(object, "nvlink_domain", number(gpu->nvlink_domain));
	json_object_object_add(object, "gpus_per_node", number(gpu->gpus_per_node));
	json_object_object_add(object, "sm", number(gpu->sm));
	json_object_object_add(object, "status", json_object_new_string(gpu->status));
	json_object_object_add(object, "source", json_object_new_string(gpu->source));
	return object;
}

static void cell_or_dash(p4d_table *table, double value, int digits)
{
	if (value > 0)
		p4d_table_cell(table, P4D_PLAIN, "%.*f", digits, value);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
}

static int list_gpus(const p4d_site *site, const p4d_line *line, p4d_error *err)
{
	static const char *const headers[] = {"usable GiB", "reported GiB", "bf16 TFLOP/s", "HBM GB/s",
					      "link GB/s"};
	const p4d_gpus *gpus = p4d_site_gpus(site);
	const char *pattern = pattern_of(line);
	struct json_object *list = line->json ? json_object_new_array() : NULL;
	p4d_table table = {0};
	size_t count = 0;

	p4d_table_column(&table, "gpu", P4D_LEFT);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		p4d_table_column(&table, headers[i], P4D_RIGHT);
	p4d_table_columns(&table, {"status", P4D_LEFT}, {"also called", P4D_CUT});
	for (size_t i = 0; i < gpus->count; i++) {
		const p4d_gpu *gpu = &gpus->gpu[i];
		if (pattern && !strcasestr(gpu->name, pattern) && !strcasestr(gpu->aliases, pattern))
			continue;
		count++;
		if (list) {
			json_object_array_add(list, gpu_object(gpu));
			continue;
		}
		p4d_table_cell(&table, P4D_PLAIN, "%s", gpu->name);
		cell_or_dash(&table, p4d_to_gib(gpu->usable_bytes), 2);
		cell_or_dash(&table, p4d_to_gib(gpu->reported_bytes), 2);
		cell_or_dash(&table, gpu->peak_bf16_flops / 1e12, 0);
		cell_or_dash(&table, gpu->hbm_bytes_per_s / 1e9, 0);
		cell_or_dash(&table, gpu->link_bytes_per_s / 1e9, 0);
		p4d_table_cell(&table, P4D_PLAIN, "%s", gpu->status);
		p4d_table_cell(&table, P4D_PLAIN, "%s", gpu->aliases);
	}
	if (!count) {
		json_object_put(list);
		return nothing_like(&table, P4D_E_UNKNOWN_GPU, "GPU", pattern, "p4d gpus", err);
	}
	return list ? p4d_report_json_print(list, err) : p4d_table_print(&table, false, err);
}

static int with_site(const p4d_line *line, int (*list)(const p4d_site *, const p4d_line *, p4d_error *),
		     p4d_error *err)
{
	p4d_site *site = p4d_line_open_site(line->conf, err);

	if (!site)
		return -1;
	int rc = list(site, line, err);
	p4d_site_free(site);
	return rc;
}

int p4d_command_models(const p4d_line *line, p4d_error *err)
{
	return with_site(line, list_models, err);
}

int p4d_command_gpus(const p4d_line *line, p4d_error *err)
{
	return with_site(line, list_gpus, err);
}
