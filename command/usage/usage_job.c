/* SPDX-License-Identifier: Apache-2.0 */
/* Reports one job to its user: "predicted 61.2, used 59.8 of 79.1 GiB; 1 x 4 would do". */
#include <inttypes.h>
#include <stdio.h>

#include "base/json_file.h"
#include "base/text.h"
#include "report/report.h"
#include "usage/usage.h"

static void say_memory(p4d_text *text, const p4d_usage_row *row)
{
	if (row->need > 0)
		p4d_text_print(text, "predicted %.1f", row->need);
	else
		p4d_text_add(text, "not predicted");
	if (row->measured > 0)
		p4d_text_print(text, ", used %s%.1f", row->mean ? "on average " : "", row->measured);
	if (row->capacity > 0 && (row->need > 0 || row->measured > 0))
		p4d_text_print(text, " of %.1f GiB", row->capacity);
	else if (row->need > 0 || row->measured > 0)
		p4d_text_add(text, " GiB");
	if (!(row->measured > 0))
		p4d_text_add(text, ", not measured");
}

static void say_better(p4d_text *text, const p4d_usage_row *row)
{
	const char *kind = p4d_backtest_is_death(row->of->end) ? "; it ran out of GPU memory" : "";

	p4d_text_add(text, kind);
	if (row->fewer_nodes)
		p4d_text_print(text, "; %" PRIu32 " x %" PRIu32 " would do", row->fewer_nodes,
			       row->fewer_per_node);
	if (row->smaller)
		p4d_text_print(text, "; %s would do", row->smaller->name);
}

static void print_details(const p4d_usage_row *row)
{
	const p4d_accounting_job *job = row->of->job;
	const uint32_t nodes = job->nodes ? job->nodes : 1;

	printf("Job %s: %s, %.1f GPU-hours on %" PRIu32 " x %" PRIu32 " GPUs\n", job->id,
	       p4d_backtest_end_titles[row->of->end], row->of->gpu_hours, nodes, job->gpus / nodes);
	if (row->joined)
		printf("Verdict at submission: %s%s%s\n", p4d_outcome_name(row->outcome),
		       *row->record.code ? " " : "", row->record.code);
	else if (row->of->result->need_bytes)
		puts("Verdict at submission: not recorded; p4d predicted the memory today");
	else
		printf("Verdict at submission: not recorded; today: %s\n", row->of->result->reason);
	if (row->measured > 0)
		printf("Measured by %s%s\n", p4d_usage__source_names[row->source],
		       row->censored ? ": at least 0.9 of the GPU's memory; PyTorch's allocator may keep "
				       "memory that the job does not need"
				     : "");
	if (row->fewer_nodes || row->smaller)
		puts("\"would do\" means that the memory is enough: the job may take longer on fewer or "
		     "smaller GPUs.");
}

void p4d_usage__print_job(const p4d_usage_row *row, bool note)
{
	char line[400];
	p4d_text text = p4d_text_in(line, sizeof(line));

	say_memory(&text, row);
	say_better(&text, row);
	if (note) {
		printf("p4d: %s\n", line);
		return;
	}
	print_details(row);
	printf("Memory of a GPU: %s\n", line);
}

static struct json_object *gib(double value)
{
	return value > 0 ? p4d_report_json_fraction(value) : NULL;
}

static struct json_object *text_or_null(const char *text)
{
	return text && *text ? json_object_new_string(text) : NULL;
}

struct json_object *p4d_usage__json_job(const p4d_usage_row *row)
{
	struct json_object *o = json_object_new_object();
	char fewer[32] = "";

	if (row->fewer_nodes)
		snprintf(fewer, sizeof(fewer), "%" PRIu32 " x %" PRIu32, row->fewer_nodes,
			 row->fewer_per_node);
	json_object_object_add(o, "job", json_object_new_string(row->of->job->id));
	json_object_object_add(o, "end", json_object_new_string(p4d_backtest_end_names[row->of->end]));
	json_object_object_add(o, "gpu_hours", json_object_new_double(row->of->gpu_hours));
	json_object_object_add(o, "verdict",
			       row->joined ? json_object_new_string(p4d_outcome_name(row->outcome)) : NULL);
	json_object_object_add(o, "code", text_or_null(row->record.code));
	json_object_object_add(o, "overridden", json_object_new_boolean(row->overridden));
	json_object_object_add(o, "predicted_gib", gib(row->need));
	json_object_object_add(o, "measured_gib", gib(row->measured));
	json_object_object_add(o, "capacity_gib", gib(row->capacity));
	json_object_object_add(
	    o, "source", row->source ? json_object_new_string(p4d_usage__source_names[row->source]) : NULL);
	json_object_object_add(o, "censored", json_object_new_boolean(row->censored));
	json_object_object_add(o, "fewer_gpus", text_or_null(fewer));
	json_object_object_add(o, "smaller_gpu",
			       row->smaller ? json_object_new_string(row->smaller->name) : NULL);
	return o;
}
