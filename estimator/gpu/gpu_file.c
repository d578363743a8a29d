/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of GPUs from files like etc/gpus.json. */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "gpu/gpu_table.h"

enum { MAX_GPUS = 1024, MAX_FILE = 1024 * 1024 };

static const double gib = 1024.0 * 1024 * 1024, mib = 1024.0 * 1024;

static int check_fields(struct json_object *object, p4d_error *err)
{
#define RATE(member, name, most, unit) name,
	static const char *const known[] = {P4D_GPU_RATES(RATE) "name",
					    "label",
					    "aliases",
					    "usable_gib",
					    "reported_mib",
					    "nominal_gb",
					    "multiprocessors",
					    "nvlink_domain",
					    "gpus_per_node",
					    "sm",
					    "source",
					    "status"};
#undef RATE

	json_object_object_foreach(object, key, member)
	{
		bool found = false;
		(void)member;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			found = found || !strcmp(known[i], key);
		if (!found)
			return p4d_json_unknown_field(key, err);
	}
	return 0;
}

/* The rates and sizes that the cost model uses. */
static int read_rates(struct json_object *object, p4d_gpu *gpu, p4d_error *err)
{
	const struct {
		const char *name;
		double most, unit, *to;
	} fields[] = {
#define RATE(member, name, most, unit) {name, most, unit, &gpu->member},
	    P4D_GPU_RATES(RATE)
#undef RATE
	};
	double multiprocessors = 0, sm = 0, domain = 0, per_node = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		double number = 0;
		if (p4d_json_number(object, fields[i].name, 0, fields[i].most, &number, err) < 0)
			return -1;
		*fields[i].to = number * fields[i].unit;
	}
	if (p4d_json_number(object, "multiprocessors", 0, 65536, &multiprocessors, err) < 0 ||
	    p4d_json_number(object, "nvlink_domain", 0, 1024, &domain, err) < 0 ||
	    p4d_json_number(object, "gpus_per_node", 0, 1024, &per_node, err) < 0 ||
	    p4d_json_number(object, "sm", 0, 1000, &sm, err) < 0)
		return -1;
	gpu->multiprocessors = (int)multiprocessors;
	gpu->nvlink_domain = (int)domain;
	gpu->gpus_per_node = (int)per_node;
	gpu->sm = (int)sm;
	return 0;
}

static int read_gpu(struct json_object *object, p4d_gpu *gpu, p4d_error *err)
{
	double usable = 0, reported = 0, nominal = 0;

	if (!json_object_is_type(object, json_type_object))
		return p4d_fail(err, P4D_E_JSON, "not an object");
	if (p4d_json_string(object, "name", gpu->name, sizeof(gpu->name), err) < 0 ||
	    check_fields(object, err) < 0 ||
	    p4d_json_string(object, "label", gpu->label, sizeof(gpu->label), err) < 0 ||
	    p4d_json_list(object, "aliases", gpu->aliases, sizeof(gpu->aliases), err) < 0 ||
	    p4d_json_number(object, "usable_gib", 0.001, 65536, &usable, err) < 0 ||
	    p4d_json_number(object, "reported_mib", 1, 67108864, &reported, err) < 0 ||
	    p4d_json_number(object, "nominal_gb", 0.001, 65536, &nominal, err) < 0 ||
	    read_rates(object, gpu, err) < 0 ||
	    p4d_json_string(object, "source", gpu->source, sizeof(gpu->source), err) < 0 ||
	    p4d_json_string(object, "status", gpu->status, sizeof(gpu->status), err) < 0)
		return -1;
	if (!isalnum((unsigned char)gpu->name[0]))
		return p4d_fail(err, P4D_E_JSON, "lacks a \"name\" that begins with a letter or digit");
	if (usable == 0 || nominal == 0)
		return p4d_fail(err, P4D_E_JSON, "lacks \"%s\"", usable == 0 ? "usable_gib" : "nominal_gb");
	if (reported != 0 && usable * gib > reported * mib)
		return p4d_fail(err, P4D_E_VALUE,
				"usable_gib %g is more than reported_mib %g, which is %g GiB", usable,
				reported, reported / 1024);
	gpu->usable_bytes = (uint64_t)(usable * gib);
	gpu->reported_bytes = (uint64_t)(reported * mib);
	gpu->nominal_bytes = (uint64_t)(nominal * 1e9);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const char *first = ((const p4d_gpu *)a)->name, *second = ((const p4d_gpu *)b)->name;
	int order = p4d_gpus__compare(first, second, strlen(second));

	return order ? order : strcmp(first, second);
}

/*
 * Refuses two GPUs of the same name; aliases may be shared. The table is sorted, so equal names are adjacent.
 */
static int check_names(const p4d_gpus *gpus, p4d_error *err)
{
	for (size_t i = 1; i < gpus->count; i++) {
		const char *name = gpus->gpu[i].name;
		if (!p4d_gpus__compare(gpus->gpu[i - 1].name, name, strlen(name)))
			return p4d_fail(err, P4D_E_VALUE, "GPU \"%s\" is listed twice", name);
	}
	return 0;
}

static int read_gpus(p4d_gpus *gpus, struct json_object *list, p4d_error *err)
{
	for (size_t i = 0; i < gpus->count; i++) {
		p4d_gpu *gpu = &gpus->owned[i];
		p4d_error cause;
		if (read_gpu(json_object_array_get_idx(list, i), gpu, &cause) < 0)
			return p4d_fail(err, cause.code, "GPU %zu (\"%s\"): %.300s", i + 1, gpu->name,
					cause.text);
	}
	qsort(gpus->owned, gpus->count, sizeof(*gpus->owned), by_name);
	return check_names(gpus, err);
}

/* Fills the table from a parsed file. */
static int take(p4d_gpus *gpus, struct json_object *object, const char *what, p4d_error *err)
{
	struct json_object *list = json_object_object_get(object, "gpus");
	p4d_gpus read = {0};
	p4d_error cause;

	if (!json_object_is_type(list, json_type_array))
		return p4d_fail(err, P4D_E_JSON, "%.255s: lacks the list \"gpus\"", what);
	read.count = json_object_array_length(list);
	if (read.count == 0 || read.count > MAX_GPUS)
		return p4d_fail(err, P4D_E_VALUE, "%.255s: lists %zu GPUs: not from 1 to %d", what,
				read.count, MAX_GPUS);
	read.gpu = read.owned = calloc(read.count, sizeof(*read.owned));
	if (!read.owned)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.255s: no memory for %zu GPUs", what, read.count);
	if (read_gpus(&read, list, &cause) < 0) {
		p4d_gpus_free(&read);
		return p4d_fail(err, cause.code, "%.100s: %.370s", what, cause.text);
	}
	*gpus = read;
	return 0;
}

int p4d_gpus_parse(p4d_gpus *gpus, const char *text, size_t length, const char *what, p4d_error *err)
{
	struct json_object *object = p4d_json_parse(text, length, what, err);

	if (!object)
		return -1;
	int rc = take(gpus, object, what, err);
	json_object_put(object);
	return rc;
}

int p4d_gpus_read(p4d_gpus *gpus, const char *path, p4d_error *err)
{
	size_t length;
	char *text = p4d_text_read(path, MAX_FILE, &length, err);
	const int rc = text ? p4d_gpus_parse(gpus, text, length, path, err) : -1;

	free(text);
	return rc;
}
