/* SPDX-License-Identifier: Apache-2.0 */
/* Checks an array whose tasks have different scripts' values: the verdict is that of the worst task. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guard/verdict.h"
#include "job/tasks.h"

p4d_rank p4d_verdict_rank(const p4d_verdict *v)
{
	const p4d_colocated *c = &v->colocated;
	const uint64_t most = c->training.sum > c->generating.sum ? c->training.sum : c->generating.sum;
	p4d_rank rank = {.action = v->action, .would_reject = v->would_reject, .fraction = -1};

	if (v->judged)
		rank.fraction = v->estimate.fraction;
	else if (c->capacity_bytes)
		rank.fraction = (double)most / (double)c->capacity_bytes;
	return rank;
}

bool p4d_rank_is_worse(const p4d_rank *a, const p4d_rank *b)
{
	if (a->action != b->action)
		return a->action > b->action;
	if (a->would_reject != b->would_reject)
		return a->would_reject;
	return a->fraction > b->fraction;
}

/* Inserts words before a text. The text is cut off if the buffer is too small. */
static void put_before(const char *words, char *text, size_t size)
{
	const size_t length = strlen(words), rest = strlen(text), kept = size - 1 - length;

	if (length >= size)
		return;
	memmove(text + length, text, rest < kept ? rest : kept);
	memcpy(text, words, length);
	text[length + (rest < kept ? rest : kept)] = '\0';
}

/* Names the task in the first message. A fix for this task may be wrong for others. */
static void name_task(const p4d_job_tasks *tasks, uint32_t task, p4d_verdict *v)
{
	char words[80];

	v->task = task;
	v->tasks = tasks->cut ? 1 : tasks->array.listed;
	snprintf(words, sizeof(words), "for array task %" PRIu32 ": ", task);
	for (unsigned i = 0; i < v->messages; i++)
		if (v->message[i].fix[0] && strncmp(v->message[i].fix, "p4d ", 4) !=
						0) /* a fix that is a p4d command names no task */
			put_before(words, v->message[i].fix, sizeof(v->message[i].fix));
	if (tasks->cut)
		snprintf(words, sizeof(words), "array task %" PRIu32 ": ", task);
	else
		snprintf(words, sizeof(words), "array task %" PRIu32 ", the worst of %u: ", task, v->tasks);
	if (v->messages)
		put_before(words, v->message[0].text, sizeof(v->message[0].text));
}

/*
 * Removes the plan of one task, which would be wrong for the other tasks: slurmctld checks the script
 * instead. A refusal stays, because the script may fit without the refused options.
 */
static void drop_plan(p4d_verdict *v)
{
	if (v->action == P4D_REJECT)
		return;
	v->plan[0] = '\0';
	v->changed = false;
	v->read = true;
}

void p4d_guard__judge_tasks(const p4d_guard_asked *asked)
{
	p4d_job_tasks *tasks = asked->job->array_tasks;
	const p4d_request typed = *asked->request;
	p4d_rank worst = {.fraction = -2};
	uint32_t task = 0;

	if (!tasks) {
		p4d_guard__judge_asked(asked, true);
		return;
	}
	/* p4d may search, because typed options may leave the layout open */
	const bool searches = p4d_request_any(&typed) && !asked->verifies;
	while (p4d_job_tasks_next(tasks)) {
		p4d_guard__judge_asked(asked, searches);
		*asked->request = typed; /* the reading of the next task starts from these options */
		const p4d_rank rank = p4d_verdict_rank(asked->verdict);
		if (tasks->apart == 1 || p4d_rank_is_worse(&rank, &worst)) {
			worst = rank;
			task = tasks->task;
		}
	}
	/* p4d did not read all tasks, and others may be worse, so only values common to all tasks count */
	const bool of_all = tasks->cut && !worst.would_reject;
	p4d_job_tasks_again(tasks, of_all ? NULL : &task);
	p4d_guard__judge_asked(asked, true);
	if (of_all || tasks->apart == 1)
		return;
	name_task(tasks, task, asked->verdict);
	if (p4d_request_any(&typed))
		drop_plan(asked->verdict);
}
