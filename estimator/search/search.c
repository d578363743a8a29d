/* SPDX-License-Identifier: Apache-2.0 */
#include "search/search.h"

#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "search/search_internal.h"

/* The ranking where there is no step time. */
static bool simpler(const p4d_candidate *a, const p4d_candidate *b, double safe)
{
	bool a_safe = a->fraction <= safe, b_safe = b->fraction <= safe;
	const p4d_request *x = &a->request, *y = &b->request;

	if (a_safe != b_safe)
		return a_safe;
	if (x->value[P4D_RECOMPUTE] != y->value[P4D_RECOMPUTE])
		return x->value[P4D_RECOMPUTE] < y->value[P4D_RECOMPUTE];
	if (a->pipeline_full != b->pipeline_full)
		return a->pipeline_full;
	if (a->model_ranks != b->model_ranks)
		return a->model_ranks < b->model_ranks;
	if (x->value[P4D_CP] != y->value[P4D_CP])
		return x->value[P4D_CP] < y->value[P4D_CP];
	if (x->value[P4D_PP] != y->value[P4D_PP])
		return x->value[P4D_PP] < y->value[P4D_PP];
	int a_rank = p4d_schedule_kinds[x->value[P4D_SCHEDULE]]->rank;
	int b_rank = p4d_schedule_kinds[y->value[P4D_SCHEDULE]]->rank;
	if (a_rank != b_rank)
		return a_rank < b_rank;
	if (x->value[P4D_VPP] != y->value[P4D_VPP])
		return x->value[P4D_VPP] < y->value[P4D_VPP];
	if (x->value[P4D_VOCAB_PARALLEL] != y->value[P4D_VOCAB_PARALLEL])
		return x->value[P4D_VOCAB_PARALLEL] < y->value[P4D_VOCAB_PARALLEL];
	bool larger = x->value[P4D_MICRO_BATCH] > y->value[P4D_MICRO_BATCH];
	return a_safe ? larger : x->value[P4D_MICRO_BATCH] < y->value[P4D_MICRO_BATCH];
}

double p4d_search__per_sequence(const p4d_candidate *c)
{
	return c->step.seconds / (double)c->request.value[P4D_GLOBAL_BATCH];
}

bool p4d_search__better(const p4d_candidate *a, const p4d_candidate *b, double safe)
{
	if (a->step.seconds > 0 && b->step.seconds > 0 &&
	    p4d_search__per_sequence(a) != p4d_search__per_sequence(b))
		return p4d_search__per_sequence(a) < p4d_search__per_sequence(b);
	return simpler(a, b, safe);
}

/* The candidate of an entry, with the layout built. */
static void revive(p4d_search_enumeration *w, const p4d_search_entry *e, p4d_candidate *candidate)
{
	p4d_search_enumerate__back(w, e);
	p4d_search_candidate__build(w);
	if (p4d_is_open(w, P4D_CP_COMM))
		p4d_search_candidate__set_cp_comm(w, e->cp_comm);
	p4d_search_candidate__fill(w, e->device_bytes, candidate);
}

static int by_bound(const void *a, const void *b)
{
	const p4d_search_entry *x = a, *y = b;

	return (x->bound > y->bound) - (x->bound < y->bound);
}

static size_t keep(p4d_candidate *found, size_t count, size_t room, const p4d_candidate *candidate,
		   double safe)
{
	size_t at = count;

	while (at > 0 && p4d_search__better(candidate, &found[at - 1], safe))
		at--;
	if (at == room)
		return count;
	count += count < room;
	memmove(&found[at + 1], &found[at], (count - at - 1) * sizeof(*found));
	found[at] = *candidate;
	return count;
}

/* Times the entries, in order of their lower bound, until no other can be among the best. */
static size_t rank(p4d_search_enumeration *w, p4d_candidate *found, size_t room)
{
	p4d_candidate candidate;
	size_t count = 0;

	if (w->timed)
		qsort(w->entry, w->entries, sizeof(*w->entry), by_bound);
	for (size_t i = 0; i < w->entries; i++) {
		if (w->timed && count == room &&
		    w->entry[i].bound >= p4d_search__per_sequence(&found[count - 1]))
			break;
		revive(w, &w->entry[i], &candidate);
		if (w->timed && p4d_search_candidate__time(w, w->entry[i].bound, &candidate.step) < 0)
			continue;
		count = keep(found, count, room, &candidate, w->space->safe);
	}
	p4d_timeline_work_free(&w->work);
	return count;
}

size_t p4d_search_run(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
		      size_t room, p4d_search_counts *counts)
{
	p4d_search_enumeration w;

	p4d_search_enumerate__start(&w, request, space);
	if (w.timed && room == 1 && !counts) {
		w.fastest = found;
		p4d_search_enumerate__all(&w);
		p4d_timeline_work_free(&w.work);
		return w.count;
	}
	p4d_search_enumerate__all(&w);
	size_t count = w.entries ? rank(&w, found, room) : 0;
	free(w.entry);
	if (!count && counts && w.counts.considered && !w.lean) {
		/* all were discarded early; explaining why nothing fits needs the one closest to fitting */
		uint64_t considered = w.counts.considered;
		p4d_search_enumerate__start(&w, request, space);
		w.any = true;
		w.discard = false;
		p4d_search_enumerate__all(&w);
		free(w.entry);
		if (w.lean) /* else not one was possible, whatever its memory */
			w.counts.considered = considered;
	}
	if (counts)
		*counts = w.counts;
	return count;
}

bool p4d_search_preferred(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
			  p4d_search_counts *counts)
{
	p4d_search_space safe = *space;

	safe.limit = space->safe < space->limit ? space->safe : space->limit;
	return p4d_search_run(request, &safe, found, 1, NULL) ||
	       p4d_search_run(request, space, found, 1, counts);
}

bool p4d_search__any(const p4d_request *request, const p4d_search_space *space)
{
	p4d_search_enumeration w;

	p4d_search_enumerate__start(&w, request, space);
	w.any = true;
	w.timed = false;
	p4d_search_enumerate__all(&w);
	free(w.entry);
	return w.entries > 0;
}
