/* SPDX-License-Identifier: Apache-2.0 */
/* Counts how jobs ended, for each verdict. */
#include <stdlib.h>
#include <string.h>

#include "backtest/backtest.h"

const char *const p4d_backtest_end_names[P4D_BACKTEST_ENDS] = {
    [P4D_BACKTEST_COMPLETED] = "completed",  [P4D_BACKTEST_SAID] = "gpu_memory_said",
    [P4D_BACKTEST_FULL] = "gpu_memory_full", [P4D_BACKTEST_EARLY] = "gpu_memory_early",
    [P4D_BACKTEST_FAILED] = "failed",        [P4D_BACKTEST_TIMEOUT] = "timeout",
    [P4D_BACKTEST_CANCELLED] = "cancelled"};
const char *const p4d_backtest_end_titles[P4D_BACKTEST_ENDS] = {
    [P4D_BACKTEST_COMPLETED] = "completed",
    [P4D_BACKTEST_SAID] = "out of GPU memory, as its output says",
    [P4D_BACKTEST_FULL] = "likely: failed with a GPU at 97 % or more",
    [P4D_BACKTEST_EARLY] = "likely: failed within 10 min, above p4d's limit",
    [P4D_BACKTEST_FAILED] = "failed otherwise",
    [P4D_BACKTEST_TIMEOUT] = "timeout",
    [P4D_BACKTEST_CANCELLED] = "cancelled"};
const char *const p4d_backtest__verdict_names[P4D_BACKTEST_VERDICTS] = {[P4D_BACKTEST_PASSED] = "passed",
									[P4D_BACKTEST_WARNED] = "warned",
									[P4D_BACKTEST_REFUSED] = "refused",
									[P4D_BACKTEST_NOT_JUDGED] =
									    "not_judged"};
const char *const p4d_backtest__stage_titles[P4D_BACKTEST_STAGES] = {
    [P4D_BACKTEST_OF_GPUS] = "jobs with GPUs",
    [P4D_BACKTEST_STORED] = "with a stored script",
    [P4D_BACKTEST_KNOWN] = "with a script that starts a training that p4d knows",
    [P4D_BACKTEST_WHOLE] = "with a script in which p4d could read all numbers",
    [P4D_BACKTEST_JUDGED] = "judged"};

bool p4d_backtest_is_death(p4d_backtest_end end)
{
	return end == P4D_BACKTEST_SAID || end == P4D_BACKTEST_FULL || end == P4D_BACKTEST_EARLY;
}

/* The GPU memory that a process can use on the row's GPU; 0: unknown. */
static uint64_t capacity_of(const p4d_backtest *b, const p4d_backtest_row *row)
{
	const p4d_site_partition *partition = p4d_site_partition_of(b->site, row->job->partition);
	const p4d_gpu *gpu = row->job->gpu_type[0] ? p4d_site_gpu(b->site, row->job->gpu_type, NULL) : NULL;

	if (row->result->capacity_bytes)
		return row->result->capacity_bytes;
	gpu = gpu ? gpu : p4d_site_least_gpu(partition);
	return gpu ? gpu->usable_bytes : 0;
}

static p4d_backtest_end end_of(const p4d_backtest *b, const p4d_backtest_row *row)
{
	enum { EARLY_S = 600 };
	static const double full = 0.97;
	const uint64_t capacity = capacity_of(b, row);

	if (row->said)
		return P4D_BACKTEST_SAID;
	switch (row->job->end) {
	case P4D_END_COMPLETED:
		return P4D_BACKTEST_COMPLETED;
	case P4D_END_TIMEOUT:
		return P4D_BACKTEST_TIMEOUT;
	case P4D_END_CANCELLED:
		return P4D_BACKTEST_CANCELLED;
	case P4D_END_FAILED:
		break;
	default:
		return P4D_BACKTEST_FAILED;
	}
	if (capacity && (double)row->measured_bytes >= full * (double)capacity)
		return P4D_BACKTEST_FULL;
	if (row->job->elapsed_s < EARLY_S && row->result->above_limit)
		return P4D_BACKTEST_EARLY;
	return P4D_BACKTEST_FAILED;
}

static void add(p4d_backtest_cell *cell, const p4d_backtest_row *row)
{
	cell->jobs++;
	cell->gpu_hours += row->gpu_hours;
}

static void count_limits(p4d_backtest *b, const p4d_backtest_row *row)
{
	for (int i = 0; i < P4D_BACKTEST_LIMITS; i++) {
		if (!row->result->refused_at[i])
			continue;
		if (row->end == P4D_BACKTEST_COMPLETED)
			add(&b->at[i].ran, row);
		else if (p4d_backtest_is_death(row->end))
			add(&b->at[i].caught[row->end], row);
	}
}

static void count_row(p4d_backtest *b, p4d_backtest_row *row)
{
	const p4d_backtest_result *r = row->result;

	row->end = end_of(b, row);
	row->changed = r->newest && row->job->submit && r->newest > row->job->submit;
	b->changed += row->changed;
	add(&b->cell[row->end][r->verdict], row);
	for (int stage = 0; stage <= (int)r->stage; stage++)
		add(&b->stage[stage], row);
	count_limits(b, row);
}

static int by_reason(const void *a, const void *b)
{
	const p4d_backtest_row *const *one = a, *const *other = b;

	return strcmp((*one)->result->reason, (*other)->result->reason);
}

/* Sorts rows with more jobs first, then by GPU-hours. */
static bool is_more(const p4d_backtest_cell *a, const p4d_backtest_cell *b, bool by_hours)
{
	if (by_hours)
		return a->gpu_hours > b->gpu_hours || (a->gpu_hours == b->gpu_hours && a->jobs > b->jobs);
	return a->jobs > b->jobs || (a->jobs == b->jobs && a->gpu_hours > b->gpu_hours);
}

static void keep_reason(p4d_backtest *b, const p4d_backtest_reason *reason)
{
	unsigned at = b->reasons;

	while (at && is_more(&reason->cell, &b->reason[at - 1].cell, false))
		at--;
	if (at == P4D_BACKTEST_TOP)
		return;
	b->reasons += b->reasons < P4D_BACKTEST_TOP;
	memmove(&b->reason[at + 1], &b->reason[at], (b->reasons - at - 1) * sizeof(*reason));
	b->reason[at] = *reason;
}

static void keep_group(p4d_backtest_group top[P4D_BACKTEST_TOP], unsigned *count,
		       const p4d_backtest_group *group)
{
	unsigned at = *count;

	while (at && is_more(&group->cell, &top[at - 1].cell, true))
		at--;
	if (at == P4D_BACKTEST_TOP)
		return;
	*count += *count < P4D_BACKTEST_TOP;
	memmove(&top[at + 1], &top[at], (*count - at - 1) * sizeof(*group));
	top[at] = *group;
}

static int by_result(const void *a, const void *b)
{
	const p4d_backtest_row *const *one = a, *const *other = b;

	if ((*one)->result != (*other)->result)
		return (*one)->result < (*other)->result ? -1 : 1;
	return ((*one)->gpu_hours < (*other)->gpu_hours) - ((*one)->gpu_hours > (*other)->gpu_hours);
}

/* Selects rows of one kind, and sorts them so that rows of a group follow each other. */
static size_t select_rows(const p4d_backtest *b, bool (*wants)(const p4d_backtest_row *row),
			  int (*compare)(const void *, const void *), const p4d_backtest_row **to)
{
	size_t count = 0;

	for (size_t i = 0; i < b->rows; i++)
		if (wants(&b->row[i]))
			to[count++] = &b->row[i];
	qsort(to, count, sizeof(to[0]), compare);
	return count;
}

static bool ran_refused(const p4d_backtest_row *row)
{
	return row->end == P4D_BACKTEST_COMPLETED && row->result->verdict == P4D_BACKTEST_REFUSED;
}

static bool died_passed(const p4d_backtest_row *row)
{
	return p4d_backtest_is_death(row->end) &&
	       (row->result->verdict == P4D_BACKTEST_PASSED || row->result->verdict == P4D_BACKTEST_WARNED);
}

static bool has_reason(const p4d_backtest_row *row)
{
	return row->result->verdict == P4D_BACKTEST_NOT_JUDGED;
}

static void find_groups(const p4d_backtest *b, bool (*wants)(const p4d_backtest_row *row),
			const p4d_backtest_row **room, p4d_backtest_group *top, unsigned *count)
{
	const size_t rows = select_rows(b, wants, by_result, room);

	for (size_t i = 0, end; i < rows; i = end) {
		p4d_backtest_group group = {.row = room[i]};
		for (end = i; end < rows && room[end]->result == room[i]->result; end++)
			add(&group.cell, room[end]);
		keep_group(top, count, &group);
	}
}

static void find_reasons(p4d_backtest *b, const p4d_backtest_row **room)
{
	const size_t rows = select_rows(b, has_reason, by_reason, room);

	for (size_t i = 0, end; i < rows; i = end) {
		p4d_backtest_reason reason = {.text = room[i]->result->reason};
		for (end = i; end < rows && !strcmp(room[end]->result->reason, reason.text); end++)
			add(&reason.cell, room[end]);
		keep_reason(b, &reason);
	}
}

int p4d_backtest_count(p4d_backtest *b, p4d_error *err)
{
	const p4d_backtest_row **room = calloc(b->rows + 1, sizeof(room[0]));

	if (!room)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu jobs", b->rows);
	for (size_t i = 0; i < b->rows; i++)
		count_row(b, &b->row[i]);
	find_groups(b, ran_refused, room, b->ran, &b->rans);
	find_groups(b, died_passed, room, b->died, &b->dieds);
	find_reasons(b, room);
	free(room);
	return 0;
}
