/* SPDX-License-Identifier: Apache-2.0 */
#include "job/tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/*
 * Processor time for all tasks: 40 ms with the default limits. It includes the time to judge the tasks and to
 * read configuration files. The shell does not count this time as work.
 */
enum { NS_FOR_WORK = 88 };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t add_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * 0x100000001b3;
	return hash * 0x100000001b3;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
	return add_bytes(hash, text, strlen(text));
}

static uint64_t add_value(uint64_t hash, const p4d_read_value *value, bool by_default)
{
	const unsigned char flags =
	    (unsigned char)(value->unknown | (value->file != NULL) << 1 | by_default << 2);

	return add_text(add_bytes(hash, &flags, sizeof(flags)), value->file ? value->text : "");
}

/* A hash of everything in a reading that affects a verdict, without the places. */
static uint64_t hash_of(const p4d_reading *r)
{
	const unsigned numbers[] = {r->commands,          r->serving,  r->certain,
				    r->left.file != NULL, r->one_node, r->unknowns};
	uint64_t hash = add_bytes(0xcbf29ce484222325, &r->reader, sizeof(r->reader));

	hash = add_bytes(add_text(add_text(hash, r->program), r->comment), numbers, sizeof(numbers));
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		hash = add_value(hash, &r->value[i], r->by_default[i]);
	for (int i = 0; i < P4D_READ_EXTRAS; i++)
		hash = add_value(hash, &r->extra[i], false);
	for (unsigned i = 0; i < r->unknowns; i++)
		hash = add_text(add_text(hash, r->unknown[i].name), r->unknown[i].why);
	return hash;
}

/* Whether an unknown value of the reading may depend on the number of the task. */
static bool is_open(const p4d_reading *r)
{
	bool open = !r->reader || !r->certain || r->unknowns || r->left.file || r->incomplete;

	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		open = open || r->value[i].unknown;
	return open;
}

void p4d_job_tasks_again(p4d_job_tasks *t, const uint32_t *task)
{
	if (task)
		snprintf(t->number, sizeof(t->number), "%" PRIu32, *task);
	t->script.task = task ? t->number : NULL;
	p4d_job_read(&t->script, &t->limits, t->reading);
}

/* Subtracts from the work that is left for all tasks together. */
static void spend(p4d_job_tasks *t, uint64_t work)
{
	t->work -= work < t->work ? work : t->work;
	t->cut = t->cut || !t->work || now_ns() > t->until_ns;
}

static bool was_seen(const p4d_job_tasks *t, uint64_t hash)
{
	for (unsigned i = 0; i < t->apart; i++)
		if (t->seen[i] == hash)
			return true;
	return false;
}

bool p4d_job_tasks_next(p4d_job_tasks *t)
{
	while (t->next < t->array.listed) {
		if (t->cut)
			return false;
		t->task = t->array.task[t->next++];
		p4d_job_tasks_again(t, &t->task);
		spend(t, t->reading->work);
		const uint64_t hash = hash_of(t->reading);
		if (was_seen(t, hash))
			continue;
		if (t->apart == P4D_TASKS_APART)
			break;
		t->seen[t->apart++] = hash;
		return true;
	}
	t->cut = t->cut || t->next < t->array.listed || t->array.count != t->array.listed;
	return false;
}

static void rewind_tasks(p4d_job_tasks *t)
{
	t->next = t->apart = 0;
	t->cut = false;
	t->work = 2 * t->limits.work;
	t->until_ns = now_ns() + t->limits.work * NS_FOR_WORK;
}

unsigned p4d_job_tasks_kinds(p4d_job_tasks *t)
{
	while (p4d_job_tasks_next(t))
		;
	const unsigned kinds = t->apart;
	rewind_tasks(t);
	return kinds;
}

p4d_job_tasks *p4d_job_tasks_of(p4d_job_tasks *t, const p4d_job_script *script,
				const p4d_shell_limits *limits, p4d_reading *reading)
{
	*t = (p4d_job_tasks){.script = *script, .limits = *limits, .reading = reading};
	t->script.rehearsals = NULL; /* rehearsals were already found for the first task */
	if (!reading->by_task || !is_open(reading) || !p4d_array__read(script->job->array, &t->array))
		return NULL;
	rewind_tasks(t);
	while (!reading->reader)
		if (!p4d_job_tasks_next(t)) {
			p4d_job_tasks_again(t, NULL);
			return NULL;
		}
	rewind_tasks(t);
	return t;
}
