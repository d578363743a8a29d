/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/prometheus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/json_file.h"

enum { MAX_FILE = 256 * 1024 * 1024 };

/*
 * Labels in which exporters store a job's id: those of jobstats and slurm-job-exporter, of DCGM, and of
 * others.
 */
static const char *const labels[] = {"jobid",  "slurmjobid",   "hpc_job",
				     "job_id", "slurm_job_id", "SLURM_JOB_ID"};

/* Smaller values are in MiB (DCGM), larger ones in bytes. No GPU has a million MiB, and no job uses less
 * than a million bytes. */
static const double LEAST_BYTES = 1e6;

static const char *job_of(struct json_object *series)
{
	struct json_object *metric, *value;

	if (!json_object_object_get_ex(series, "metric", &metric))
		return NULL;
	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		if (json_object_object_get_ex(metric, labels[i], &value) &&
		    json_object_is_type(value, json_type_string) && *json_object_get_string(value))
			return json_object_get_string(value);
	return NULL;
}

static void take_sample(p4d_prometheus *all, struct json_object *sample, double *most)
{
	struct json_object *text =
	    json_object_is_type(sample, json_type_array) ? json_object_array_get_idx(sample, 1) : NULL;
	const double value = text ? strtod(json_object_get_string(text), NULL) : 0;

	if (!isfinite(value) || value <= 0)
		all->dropped++;
	else
		*most = value > *most ? value : *most;
}

/* The largest sample of a series. */
static double most_of(p4d_prometheus *all, struct json_object *series)
{
	struct json_object *one, *many;
	double most = 0;

	if (json_object_object_get_ex(series, "value", &one))
		take_sample(all, one, &most);
	if (json_object_object_get_ex(series, "values", &many) && json_object_is_type(many, json_type_array))
		for (size_t i = 0; i < json_object_array_length(many); i++)
			take_sample(all, json_object_array_get_idx(many, i), &most);
	return most >= LEAST_BYTES ? most / (1 << 30) : most / 1024;
}

int p4d_prometheus__add(p4d_prometheus *all, const char *id, double gib, p4d_error *err)
{
	if (!p4d_grow(&all->job, &all->room, all->count + 1, sizeof(*all->job)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", all->count + 1);
	snprintf(all->job[all->count].id, sizeof(all->job->id), "%.31s", id);
	all->job[all->count++].gib = gib;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const p4d_prometheus_job *one = a, *other = b;
	const int order = strcmp(one->id, other->id);

	/* sorts the largest value of a job first */
	return order ? order : (one->gib < other->gib) - (one->gib > other->gib);
}

void p4d_prometheus__sort(p4d_prometheus *all)
{
	size_t kept = 0;

	if (all->count)
		qsort(all->job, all->count, sizeof(*all->job), by_id);
	for (size_t i = 0; i < all->count; i++)
		if (!i || strcmp(all->job[i].id, all->job[kept - 1].id) != 0)
			all->job[kept++] = all->job[i];
	all->count = kept;
}

static int read_series(p4d_prometheus *all, struct json_object *result, p4d_error *err)
{
	for (size_t i = 0; i < json_object_array_length(result); i++) {
		struct json_object *series = json_object_array_get_idx(result, i);
		const char *id = json_object_is_type(series, json_type_object) ? job_of(series) : NULL;
		const double gib = id ? most_of(all, series) : 0;
		all->without_job += !id;
		if (gib > 0 && p4d_prometheus__add(all, id, gib, err) < 0)
			return -1;
	}
	p4d_prometheus__sort(all);
	return 0;
}

/*
 * Fails with Prometheus's own error message. It is in the answer to a wrong query, which curl stores like any
 * other answer.
 */
static int no_answer(struct json_object *object, const char *path, p4d_error *err)
{
	struct json_object *error = NULL;

	if (json_object_object_get_ex(object, "error", &error) &&
	    json_object_is_type(error, json_type_string))
		return p4d_fail(err, P4D_E_VALUE, "%.200s is an error message of Prometheus: %.200s", path,
				json_object_get_string(error));
	return p4d_fail(err, P4D_E_VALUE,
			"%.300s is not an answer of Prometheus: the file has no data.result", path);
}

int p4d_prometheus_read(p4d_prometheus *all, const char *path, p4d_error *err)
{
	struct json_object *data, *result;
	size_t length;
	char *text = p4d_text_read(path, MAX_FILE, &length, err);
	struct json_object *answer = text ? p4d_json_parse(text, length, path, err) : NULL;
	int rc = -1;

	free(text);
	if (!answer)
		return -1;
	if (json_object_object_get_ex(answer, "data", &data) &&
	    json_object_object_get_ex(data, "result", &result) &&
	    json_object_is_type(result, json_type_array))
		rc = read_series(all, result, err);
	else
		no_answer(answer, path, err);
	json_object_put(answer);
	if (rc == 0 && !all->count) {
		rc = p4d_fail(
		    err, P4D_E_VALUE,
		    "%.300s: no series has a job's id (label jobid, slurmjobid or hpc_job) and a value",
		    path);
		p4d_fix(err, "curl -G http://prometheus:9090/api/v1/query --data-urlencode "
			     "'query=max by (jobid) (max_over_time(nvidia_gpu_memory_used_bytes[30d]))'");
	}
	return rc;
}

double p4d_prometheus_find(const p4d_prometheus *all, const char *id)
{
	size_t low = 0, high = all->count;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const int order = strcmp(all->job[middle].id, id);
		if (!order)
			return all->job[middle].gib;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

void p4d_prometheus_free(p4d_prometheus *all)
{
	free(all->job);
}
