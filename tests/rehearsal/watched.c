/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearsal/watched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_moment(watched_rank *r, const char *words, bool ended)
{
	watched_moment *m = &r->moment[r->moments];
	char *end;

	if (r->moments == WATCHED_MOMENTS)
		return false;
	m->calls = r->calls;
	m->bytes = strtoull(words, &end, 10);
	for (int i = 0; i < P4D_REPORT_COUNTS; i++)
		m->count[i] = strtoull(end, &end, 10);
	r->moments++;
	r->ended = ended;
	return true;
}

static bool read_comm(watched_rank *r, const char *words)
{
	watched_comm *c = &r->comm[r->comms];

	if (r->comms == WATCHED_COMMS ||
	    sscanf(words, "%23s %127s %d %d", c->handle, c->id, &c->ranks, &c->rank) != 4)
		return false;
	r->comms++;
	return true;
}

static bool read_call(watched_rank *r, const char *words)
{
	watched_call c = {.comm = 0};
	char handle[24];

	if (sscanf(words, "%23s %23s %" SCNu64 " %d", handle, c.operation, &c.bytes, &c.peer) != 4)
		return false;
	while (c.comm < r->comms && strcmp(r->comm[c.comm].handle, handle) != 0)
		c.comm++;
	if (c.comm == r->comms)
		return false;
	if (r->calls == r->room) {
		r->room = r->room ? 2 * r->room : 256;
		r->call = realloc(r->call, r->room * sizeof(*r->call));
		if (!r->call)
			abort();
	}
	r->call[r->calls++] = c;
	return true;
}

static bool read_target(watched_rank *r, const char *words)
{
	const unsigned target = (unsigned)strtoul(words, NULL, 10);

	r->narrowest = !r->narrowest || target < r->narrowest ? target : r->narrowest;
	r->widest = target > r->widest ? target : r->widest;
	return target > 0;
}

static bool read_line(watched_rank *r, const char *line)
{
	const char *words = strchr(line, ' ');

	if (!words)
		return false;
	switch (line[0]) {
	case 'b': /* the later steps begin where the previous step ends */
		return r->moments != 1 || read_moment(r, words, false);
	case 'a':
	case 'e':
		return read_moment(r, words, line[0] == 'e');
	case 't':
		return read_target(r, words);
	default:
		return !strncmp(line, "comm ", 5) ? read_comm(r, words) : read_call(r, words);
	}
}

bool watched_read(watched_rank *r, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	bool good = file;

	*r = (watched_rank){.moments = 0};
	while (good && fgets(line, sizeof(line), file))
		good = read_line(r, line);
	if (file)
		fclose(file);
	return good;
}

void watched_free(watched_rank *r)
{
	free(r->call);
	r->call = NULL;
}

uint64_t watched_grown(const watched_rank *r, unsigned step, int count)
{
	return r->moment[step + 1].count[count] - r->moment[step].count[count];
}

typedef struct named {
	int count;
	const char *name;
} named;

bool watched_still(const watched_rank *r, unsigned steps, char why[WATCHED_TEXT])
{
	static const named still[] = {
	    {P4D_REPORT_ALLOCATIONS, "allocations on the GPU"},
	    {P4D_REPORT_FREED, "blocks of the GPU given back"},
	    {P4D_REPORT_PINNED, "allocations of pinned memory"},
	    {P4D_REPORT_PINNED_FREED, "blocks of pinned memory given back"},
	    {P4D_REPORT_STREAMS, "new streams"},
	    {P4D_REPORT_STREAMS_ENDED, "streams destroyed"},
	    {P4D_REPORT_EVENTS, "new events"},
	    {P4D_REPORT_EVENTS_ENDED, "events destroyed"},
	    {P4D_REPORT_COMMUNICATORS, "new communicators"},
	    {P4D_REPORT_COMMUNICATORS_ENDED, "communicators destroyed"},
	    {P4D_REPORT_WAITS, "calls in which the host waits"},
	    {P4D_REPORT_QUESTIONS, "products that cuBLASLt was asked about"},
	    {P4D_REPORT_PLANS, "plans of cuDNN"},
	};

	for (unsigned step = 1; step <= steps; step++)
		for (size_t i = 0; i < sizeof(still) / sizeof(*still); i++)
			if (watched_grown(r, step, still[i].count)) {
				snprintf(why, WATCHED_TEXT, "step %u: %" PRIu64 " %s", step,
					 watched_grown(r, step, still[i].count), still[i].name);
				return false;
			}
	return true;
}

static bool is_same(const watched_call *a, const watched_call *b)
{
	return a->comm == b->comm && a->bytes == b->bytes && a->peer == b->peer &&
	       !strcmp(a->operation, b->operation);
}

static bool same_calls(const watched_rank *r, unsigned step, char why[WATCHED_TEXT])
{
	const size_t first = r->moment[2].calls, end = r->moment[3].calls;
	const size_t other = r->moment[step].calls, other_end = r->moment[step + 1].calls;

	if (end - first != other_end - other) {
		snprintf(why, WATCHED_TEXT, "step %u calls NCCL %zu times, step 2 %zu", step,
			 other_end - other, end - first);
		return false;
	}
	for (size_t i = 0; i < end - first; i++)
		if (!is_same(&r->call[first + i], &r->call[other + i])) {
			snprintf(why, WATCHED_TEXT,
				 "call %zu of NCCL in step %u is %s of %" PRIu64
				 " bytes, in step 2 %s of %" PRIu64,
				 i, step, r->call[other + i].operation, r->call[other + i].bytes,
				 r->call[first + i].operation, r->call[first + i].bytes);
			return false;
		}
	return true;
}

bool watched_alike(const watched_rank *r, unsigned first, unsigned steps, char why[WATCHED_TEXT])
{
	static const named alike[] = {
	    {P4D_REPORT_LAUNCHES, "launches"},       {P4D_REPORT_PRODUCTS, "products"},
	    {P4D_REPORT_FLOPS, "FLOPs of products"}, {P4D_REPORT_GRAPHS, "graphs of cuDNN"},
	    {P4D_REPORT_COPIES, "copies"},
	};

	for (unsigned step = 3; step <= steps; step++)
		for (size_t i = 0; i < sizeof(alike) / sizeof(*alike); i++)
			if (watched_grown(r, step, alike[i].count) != watched_grown(r, 2, alike[i].count)) {
				snprintf(why, WATCHED_TEXT, "step %u has %" PRIu64 " %s, step 2 %" PRIu64,
					 step, watched_grown(r, step, alike[i].count), alike[i].name,
					 watched_grown(r, 2, alike[i].count));
				return false;
			}
	for (unsigned step = first; step <= steps; step++)
		if (!same_calls(r, step, why))
			return false;
	return true;
}

bool watched_freed(const watched_rank *r, char why[WATCHED_TEXT])
{
	static const struct {
		int taken, given;
		const char *name;
	} pairs[] = {
	    {P4D_REPORT_ALLOCATIONS, P4D_REPORT_FREED, "blocks of the GPU"},
	    {P4D_REPORT_PINNED, P4D_REPORT_PINNED_FREED, "blocks of pinned memory"},
	    {P4D_REPORT_STREAMS, P4D_REPORT_STREAMS_ENDED, "streams"},
	    {P4D_REPORT_EVENTS, P4D_REPORT_EVENTS_ENDED, "events"},
	    {P4D_REPORT_COMMUNICATORS, P4D_REPORT_COMMUNICATORS_ENDED, "communicators"},
	};
	const watched_moment *end = &r->moment[r->moments - 1];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (end->count[pairs[i].taken] != end->count[pairs[i].given]) {
			snprintf(why, WATCHED_TEXT, "%" PRIu64 " %s were made, %" PRIu64 " ended",
				 end->count[pairs[i].taken], pairs[i].name, end->count[pairs[i].given]);
			return false;
		}
	return true;
}

/* Whether a call is a send or receive. NCCL connects two ranks at their first message, whatever its size. */
static bool is_message(const watched_call *c)
{
	return !strcmp(c->operation, "send") || !strcmp(c->operation, "receive");
}

static bool was_asked(const watched_rank *r, size_t before, const watched_call *c)
{
	for (size_t i = 0; i < before; i++)
		if (r->call[i].comm == c->comm && !strcmp(r->call[i].operation, c->operation) &&
		    (is_message(c) || r->call[i].bytes >= c->bytes))
			return true;
	return false;
}

bool watched_known(const watched_rank *r, unsigned steps, char why[WATCHED_TEXT])
{
	const size_t before = r->moment[1].calls;

	for (size_t i = before; i < r->moment[steps + 1].calls; i++)
		if (!was_asked(r, before, &r->call[i])) {
			snprintf(why, WATCHED_TEXT,
				 "%s of %" PRIu64 " bytes in a group of %d: never before the steps",
				 r->call[i].operation, r->call[i].bytes, r->comm[r->call[i].comm].ranks);
			return false;
		}
	return true;
}

/* Index of the next call on a communicator, from `at` on; the number of calls: there is none. */
static size_t next_call(const watched_rank *r, unsigned comm, size_t at)
{
	while (at < r->calls && r->call[at].comm != comm)
		at++;
	return at;
}

static bool fits(const watched_call *a, const watched_call *b)
{
	if (a->bytes != b->bytes)
		return false;
	if (is_message(a))
		return is_message(b) && strcmp(a->operation, b->operation) != 0;
	return a->peer == b->peer && !strcmp(a->operation, b->operation);
}

static bool ends_agree(const watched_rank *a, unsigned in_a, const watched_rank *b, unsigned in_b,
		       char why[WATCHED_TEXT])
{
	size_t i = next_call(a, in_a, 0), j = next_call(b, in_b, 0);

	for (; i < a->calls && j < b->calls; i = next_call(a, in_a, i + 1), j = next_call(b, in_b, j + 1))
		if (!fits(&a->call[i], &b->call[j])) {
			snprintf(why, WATCHED_TEXT, "%s of %" PRIu64 " bytes meets %s of %" PRIu64,
				 a->call[i].operation, a->call[i].bytes, b->call[j].operation,
				 b->call[j].bytes);
			return false;
		}
	if (i < a->calls || j < b->calls) {
		snprintf(why, WATCHED_TEXT, "a member of a group of %d makes more calls than another",
			 a->comm[in_a].ranks);
		return false;
	}
	return true;
}

/* The index of a communicator in `of`; the number of communicators: the rank is no member. */
static unsigned find_comm(const watched_rank *of, const char *id)
{
	unsigned i = 0;

	while (i < of->comms && strcmp(of->comm[i].id, id) != 0)
		i++;
	return i;
}

bool watched_agree(const watched_rank *r, unsigned count, char why[WATCHED_TEXT])
{
	for (unsigned a = 0; a < count; a++)
		for (unsigned comm = 0; comm < r[a].comms; comm++) {
			int members = 0;
			for (unsigned b = 0; b < count; b++) {
				const unsigned there = find_comm(&r[b], r[a].comm[comm].id);
				members += there < r[b].comms;
				if (there < r[b].comms && b > a &&
				    !ends_agree(&r[a], comm, &r[b], there, why))
					return false;
			}
			if (members != r[a].comm[comm].ranks) {
				snprintf(why, WATCHED_TEXT, "a group of %d has %d members",
					 r[a].comm[comm].ranks, members);
				return false;
			}
		}
	return true;
}
