/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/new_file.h"
#include "base/number.h"
#include "timeline/trace.h"

int p4d_train_trace_open(p4d_train_trace *trace, const char *text, uint64_t first, uint64_t last,
			 const p4d_trainer *trainer, p4d_error *err)
{
	const char *comma = strrchr(text, ',');
	uint64_t step = first < last ? first + 1 : first;
	const bool given = comma && comma > text && p4d_number_whole(comma + 1, 1, UINT32_MAX, &step);
	const size_t length = given ? (size_t)(comma - text) : strlen(text);

	if (first > last)
		return 0;
	if (step < first || step > last) {
		p4d_fail(err, P4D_E_USAGE,
			 "--trace %.300s: step %" PRIu64 " is not in this run, which has steps %" PRIu64
			 " to %" PRIu64,
			 text, step, first, last);
		return p4d_fix(err, "--trace %.*s,%" PRIu64, (int)(length < 300 ? length : 300), text, last);
	}
	if (length >= sizeof(trace->path))
		return p4d_fail(err, P4D_E_VALUE, "--trace %.300s: too long", text);
	snprintf(trace->path, sizeof(trace->path), "%.*s", (int)length, text);
	trace->step = step;
	trace->spans = calloc(p4d_trainer_list(trainer)->count, sizeof(*trace->spans));
	return trace->spans ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for --trace");
}

void p4d_train_trace_close(p4d_train_trace *trace)
{
	free(trace->spans);
	trace->spans = NULL;
	trace->step = 0;
}

/* Waits for all ranks. They continue at nearly the same time: a message apart. */
static int meet(p4d_group *all, p4d_error *err)
{
	double nothing = 0;

	return p4d_comm_all_reduce(all, &nothing, 1, P4D_DT_FP64, P4D_MAX, err);
}

int p4d_train_trace_begin(p4d_train_trace *trace, uint64_t step, p4d_trainer *trainer, p4d_group *all,
			  p4d_error *err)
{
	if (!trace->step || step != trace->step)
		return 0;
	if (meet(all, err) < 0)
		return -1;
	p4d_trainer_trace(trainer, trace->spans);
	return 0;
}

/* A pass of a rank, as ranks send it to rank 0. */
typedef struct traced {
	p4d_instruction pass;
	p4d_span span;
} traced;

static void add_rank(p4d_trace *trace, const p4d_layout *layout, uint32_t rank, const traced *passes,
		     uint64_t count)
{
	const p4d_place place = p4d_place_of(layout, rank);
	const unsigned process =
	    (unsigned)(1 + place.tp + p4d_tp_ranks(layout) * (place.cp + layout->cp * place.dp));
	char name[96];

	if (!place.pp) {
		snprintf(name, sizeof(name), "measured: tp %u, cp %u, dp %u", place.tp, place.cp, place.dp);
		p4d_trace_process(trace, process, name);
	}
	p4d_trace_lane(trace, process, place.pp);
	for (uint64_t i = 0; i < count && passes[i].pass.op < P4D_OPS; i++)
		p4d_trace_pass(trace, process, place.pp, &passes[i].pass, &passes[i].span);
}

/* Copies the passes of this rank. The rest of the array gets empty entries. */
static void fill(const p4d_train_trace *trace, const p4d_instruction_list *list, traced *passes,
		 uint64_t most)
{
	for (uint64_t i = 0; i < most; i++) {
		passes[i] = (traced){.pass = {.op = P4D_OPS}};
		if (i < list->count)
			passes[i] = (traced){list->at[i], trace->spans[i]};
	}
}

static int gather(const p4d_train_trace *trace, const p4d_instruction_list *list, const p4d_layout *layout,
		  p4d_group *all, p4d_trace *out, p4d_error *err)
{
	double most = (double)list->count;

	if (p4d_comm_all_reduce(all, &most, 1, P4D_DT_FP64, P4D_MAX, err) < 0)
		return -1;
	const uint64_t count = (uint64_t)most;
	traced *passes = calloc(count ? count : 1, sizeof(*passes));
	if (!passes)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %" PRIu64 " passes of --trace", count);
	int rc = 0;
	for (uint32_t rank = 0; rc == 0 && rank < p4d_group_size(all); rank++) {
		fill(trace, list, passes, count);
		rc = p4d_comm_broadcast(all, passes, count * sizeof(*passes), rank, err);
		if (rc == 0 && p4d_group_index(all) == 0)
			add_rank(out, layout, rank, passes, count);
	}
	free(passes);
	return rc;
}

int p4d_train_trace_end(p4d_train_trace *trace, uint64_t step, p4d_trainer *trainer, const p4d_layout *layout,
			p4d_group *all, p4d_error *err)
{
	p4d_trace out;

	if (!trace->step || step != trace->step)
		return 0;
	p4d_trainer_trace(trainer, NULL);
	p4d_trace_begin(&out);
	int rc = gather(trace, p4d_trainer_list(trainer), layout, all, &out, err);
	p4d_trace_end(&out);
	if (rc == 0 && p4d_group_index(all) == 0)
		rc = out.text.truncated ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for --trace")
					: p4d_new_file_put(trace->path, out.text.at, out.text.length, err);
	free(out.text.at);
	p4d_train_trace_close(trace);
	return rc;
}
