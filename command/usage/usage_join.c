/* SPDX-License-Identifier: Apache-2.0 */
/* Combines a job with p4d's verdict at submission and with its measured GPU memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "measure/jobstats.h"
#include "request/framework.h"
#include "usage/usage.h"

/*
 * From this share of a GPU on, a measurement is only an upper bound of what the job needs, because the
 * allocator keeps all memory that it can get.
 */
static const double CENSORED = 0.90;

const char *const p4d_usage__source_names[P4D_USAGE_SOURCES] = {
    [P4D_USAGE_NOT_MEASURED] = "not measured",
    [P4D_USAGE_GPUMEM] = "gres/gpumem",
    [P4D_USAGE_JOBSTATS] = "jobstats",
    [P4D_USAGE_PROMETHEUS] = "Prometheus",
    [P4D_USAGE_NVML] = "NVML",
    [P4D_USAGE_LOG] = "log",
};

/* Removes characters that could control a terminal, because the text comes from another host. */
static void escape(p4d_verdict_record *record)
{
	p4d_text_escape_in_place(record->model, sizeof(record->model));
	p4d_text_escape_in_place(record->framework, sizeof(record->framework));
	p4d_text_escape_in_place(record->code, sizeof(record->code));
}

/* Whether the code is one of "P4D012+P4D113". */
static bool has_code(const p4d_verdict_record *record, p4d_code code)
{
	char name[16];

	snprintf(name, sizeof(name), "P4D%03d", (int)code);
	return strstr(record->code, name);
}

/*
 * guarded: slurmctld prevents users from writing p4d's words into Extra, which it does only if the record is
 * stored there.
 */
static void take_record(p4d_usage_row *row, bool guarded)
{
	const p4d_accounting_job *job = row->of->job;
	const p4d_backtest_result *today = row->of->result;
	p4d_verdict_record unused;

	row->joined = p4d_verdict_record_read(job->admin_comment, &row->record);
	if (!row->joined && guarded)
		row->joined = p4d_verdict_record_read(job->extra, &row->record);
	row->unguarded = !row->joined && p4d_verdict_record_read(job->extra, &unused);
	escape(&row->record);
	row->outcome = row->joined ? p4d_verdict_record_outcome(&row->record) : P4D_OUTCOMES;
	/* this plan was approved by a release of p4d whose records have no outcome */
	if (row->joined && row->outcome == P4D_OUTCOMES)
		row->outcome = P4D_OUTCOME_PASS;
	row->overridden =
	    row->outcome == P4D_OUTCOME_WOULD_REFUSE && has_code(&row->record, P4D_E_OVERRIDDEN);
	row->need = row->record.need_gib > 0 ? row->record.need_gib : p4d_to_gib(today->need_bytes);
	row->capacity =
	    row->record.capacity_gib > 0 ? row->record.capacity_gib : p4d_to_gib(today->capacity_bytes);
}

/* Whether the job is a pipeline, according to its record, or else to its options. */
static bool has_stages(const p4d_usage_row *row)
{
	const char *pp = strstr(row->of->result->options, "--pp=");

	if (row->record.pp)
		return row->record.pp > 1;
	return pp && atoi(pp + strlen("--pp=")) > 1;
}

/* Stores a measurement if its source is more accurate than that of the stored one. */
static void take(p4d_usage_row *row, p4d_usage_source source, double gib, const char *what)
{
	if (!(gib > 0))
		return;
	row->measured = gib;
	row->source = source;
	row->what = what;
}

static void take_jobstats(p4d_usage_row *row)
{
	double used, total;

	if (!p4d_jobstats_read(row->of->job->admin_comment, &used, &total))
		return;
	take(row, P4D_USAGE_JOBSTATS, used, "device");
	if (!(row->capacity > 0))
		row->capacity = total;
}

static void take_log(const p4d_usage *u, p4d_usage_row *row)
{
	const char *what;
	const double gib = p4d_memory_log_gib(&u->log, &what);

	take(row, P4D_USAGE_LOG, gib, what);
}

/* Stores the most accurate measurement of all sources. */
static void take_measurement(const p4d_usage *u, p4d_usage_row *row)
{
	const p4d_backtest_row *of = row->of;

	if (of->measured != P4D_MEASURED_NOT)
		take(row, P4D_USAGE_GPUMEM, p4d_to_gib(of->measured_bytes), "device");
	take_jobstats(row);
	take(row, P4D_USAGE_PROMETHEUS, p4d_prometheus_find(&u->prometheus, of->job->raw), "device");
	take(row, P4D_USAGE_NVML, p4d_prometheus_find(&u->nvml, of->job->raw), "device");
	take_log(u, row);
	/* the stages of a pipeline use different amounts of memory. So neither a mean nor the value of a
	 * single GPU is the memory of the fullest GPU */
	row->mean = row->source == P4D_USAGE_GPUMEM && of->measured != P4D_MEASURED_GPU && has_stages(row);
}

static void compare(p4d_usage_row *row)
{
	row->censored = row->capacity > 0 && row->measured >= CENSORED * row->capacity;
	row->comparable = row->measured > 0 && row->record.need_gib > 0 && !row->mean;
}

/* Number of GPUs that share one copy of the model. The number of GPUs of a smaller job must be a multiple
 * of it. */
static uint32_t group_of(const p4d_usage_row *row)
{
	const p4d_verdict_record *r = &row->record;
	const uint64_t ranks = (uint64_t)(r->tp ? r->tp : 1) * (r->cp ? r->cp : 1) * (r->pp ? r->pp : 1);

	return ranks < UINT32_MAX ? (uint32_t)ranks : UINT32_MAX;
}

const char *p4d_usage__framework(const p4d_usage_row *row)
{
	return *row->record.framework ? row->record.framework : row->of->result->framework;
}

/*
 * Upper bound of a GPU's memory if the job had fewer GPUs. With DDP it does not change, because every GPU
 * has the whole model. With other frameworks, all memory is assumed to be sharded, so it grows in inverse
 * proportion to the number of GPUs.
 */
static double held_with(const p4d_usage_row *row, uint32_t gpus)
{
	const bool copies = !strcmp(p4d_usage__framework(row), p4d_framework_of(P4D_FRAMEWORK_DDP)->name);

	return copies ? row->measured : row->measured * row->of->job->gpus / gpus;
}

static void find_fewer(p4d_usage_row *row, double safe)
{
	const p4d_accounting_job *job = row->of->job;
	const uint32_t per_node = job->nodes ? job->gpus / job->nodes : 0;

	for (uint32_t gpus = 1; per_node && gpus < job->gpus; gpus++) {
		const bool whole = gpus <= per_node || gpus % per_node == 0;
		if (job->gpus % gpus || gpus % group_of(row) || !whole ||
		    held_with(row, gpus) > safe * row->capacity)
			continue;
		row->fewer_per_node = gpus < per_node ? gpus : per_node;
		row->fewer_nodes = gpus / row->fewer_per_node;
		return;
	}
}

static void find_smaller(const p4d_usage *u, p4d_usage_row *row, double safe)
{
	const p4d_site_partition *partition;

	for (unsigned i = 0; (partition = p4d_site_partition_at(u->jobs.site, i)); i++) {
		const p4d_gpu *gpu = p4d_site_least_gpu(partition);
		if (gpu && p4d_to_gib(gpu->usable_bytes) < 0.9 * row->capacity &&
		    row->measured <= safe * p4d_to_gib(gpu->usable_bytes) &&
		    (!row->smaller || gpu->usable_bytes < row->smaller->usable_bytes))
			row->smaller = gpu;
	}
}

/*
 * Finds a smaller request that would have been enough, for a job that completed and whose fullest GPU is
 * known.
 */
static void find_better(const p4d_usage *u, p4d_usage_row *row)
{
	const p4d_accounting_job *job = row->of->job;
	const p4d_policy policy = p4d_site_policy(u->jobs.site, &(p4d_site_job){.partition = job->partition});

	if (row->of->end != P4D_BACKTEST_COMPLETED || row->censored || row->mean || !(row->measured > 0) ||
	    !(row->capacity > 0))
		return;
	find_fewer(row, policy.safe);
	find_smaller(u, row, policy.safe);
}

int p4d_usage__join(p4d_usage *u, p4d_error *err)
{
	u->row = calloc(u->jobs.rows + 1, sizeof(*u->row));
	if (!u->row)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", u->jobs.rows);
	u->rows = u->jobs.rows;
	for (size_t i = 0; i < u->rows; i++) {
		p4d_usage_row *row = &u->row[i];
		*row = (p4d_usage_row){.of = &u->jobs.row[i]};
		take_record(row, p4d_site_record(u->jobs.site) == P4D_RECORD_EXTRA);
		take_measurement(u, row);
		compare(row);
		find_better(u, row);
	}
	return 0;
}
