/* SPDX-License-Identifier: Apache-2.0 */
#include "search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/memory_played.h"
#include "search/search_internal.h"

/*
 * Layouts whose lower bound exceeds the lowest bound by more than this factor are skipped at first. They were
 * seldom among the best.
 */
#define BEST_SLACK 1.05
#define USUAL_SLACK 1.25

/* The order of layouts without step times, and of layouts with equal memory: the simpler one first. */
static int by_simplicity(const void *a, const void *b)
{
	const p4d_search_entry *x = a, *y = b;
	const int ranks =
	    (x->tp * x->cp * x->pp > y->tp * y->cp * y->pp) - (x->tp * x->cp * x->pp < y->tp * y->cp * y->pp);
	const int larger = (x->micro_batch < y->micro_batch) - (x->micro_batch > y->micro_batch);
	const int orders[] = {
	    x->unsafe - y->unsafe,
	    x->recompute - y->recompute,
	    x->sharding - y->sharding,
	    x->pipeline_empty - y->pipeline_empty,
	    ranks,
	    x->cp - y->cp,
	    x->pp - y->pp,
	    p4d_schedule_kinds[x->schedule]->rank - p4d_schedule_kinds[y->schedule]->rank,
	    x->vpp - y->vpp,
	    x->vocab_parallel - y->vocab_parallel,
	    x->slices - y->slices,
	    x->etp - y->etp,
	    x->ep - y->ep,
	    x->unsafe ? -larger : larger,
	};

	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (orders[i])
			return orders[i];
	return 0;
}

/* Order of equally fast layouts: first less sharding, then less memory, then fewer kinds of parallelism. */
static int by_preference(const void *a, const void *b)
{
	const p4d_search_entry *x = a, *y = b;

	if (x->sharding != y->sharding)
		return x->sharding - y->sharding;
	if (x->memory_step != y->memory_step)
		return x->memory_step - y->memory_step;
	if (x->kinds != y->kinds)
		return x->kinds - y->kinds;
	return by_simplicity(a, b);
}

static int by_seconds(const void *a, const void *b)
{
	const p4d_search_entry *x = a, *y = b;

	if (x->seconds != y->seconds)
		return x->seconds > y->seconds ? 1 : -1;
	return by_preference(a, b);
}

/* The step time of an entry; infinity if it cannot be timed. */
static double seconds_of(p4d_search_enumeration *w, p4d_search_entry *e)
{
	if (!e->timed)
		p4d_search_candidate__time(w, e);
	return e->seconds;
}

/*
 * Of the entries after the first `from`: those that tie with the fastest of them come to the front, in the
 * order of preference. Only the first `wanted` of them are certainly timed, and certainly tie. Returns their
 * number; 0: none can be timed.
 */
static size_t tie(p4d_search_enumeration *w, size_t from, size_t wanted)
{
	double least = INFINITY;
	size_t end = from, kept = 0;

	qsort(w->entry + from, w->entries - from, sizeof(*w->entry), by_seconds);
	for (size_t i = from; i < w->entries && w->entry[i].seconds < least; i++) {
		const double seconds = seconds_of(w, &w->entry[i]);
		least = seconds < least ? seconds : least;
	}
	if (isinf(least))
		return 0;
	for (size_t i = from; i < w->entries; i++)
		if (w->entry[i].seconds <= P4D_SEARCH_TIE * least) {
			p4d_search_entry swap = w->entry[end];
			w->entry[end++] = w->entry[i];
			w->entry[i] = swap;
		}
	qsort(w->entry + from, end - from, sizeof(*w->entry), by_preference);
	for (size_t i = from; i < end && kept < wanted; i++)
		if (seconds_of(w, &w->entry[i]) <= P4D_SEARCH_TIE * least) {
			p4d_search_entry swap = w->entry[i];
			memmove(w->entry + from + kept + 1, w->entry + from + kept,
				(i - from - kept) * sizeof(swap));
			w->entry[from + kept++] = swap;
		}
	return kept;
}

/*
 * Copies the best entries to `found`: first the fastest and those that tie with it, then the fastest of the
 * remaining ones, and so on.
 */
static size_t rank(p4d_search_enumeration *w, p4d_candidate *found, size_t room)
{
	size_t count = 0;

	if (!w->timed && w->entries)
		qsort(w->entry, w->entries, sizeof(*w->entry), by_simplicity);
	while (count < room && count < w->entries) {
		const size_t more = w->timed ? tie(w, count, room - count) : 1;
		if (!more)
			break;
		for (const size_t end = count + more; count < end; count++)
			p4d_search_candidate__revive(w, &w->entry[count], &found[count]);
	}
	return count;
}

/* The best layout below `safe`. */
static bool rank_safe(p4d_search_enumeration *w, p4d_candidate *found)
{
	size_t safe = 0;

	for (size_t i = 0; i < w->entries; i++)
		if (!w->entry[i].unsafe)
			w->entry[safe++] = w->entry[i];
	w->entries = safe;
	return rank(w, found, 1) > 0;
}

/* One pass of the search. Returns the slack that would skip no layout that may be among the best. */
static double search(const p4d_request *request, const p4d_search_space *space, double slack,
		     p4d_candidate *found, size_t room, size_t *count, p4d_search_counts *counts)
{
	p4d_search_enumeration w;
	double slowest = INFINITY;

	p4d_search_enumerate__start(&w, request, space, slack);
	w.one =
	    room == 1 &&
	    !counts; /* with counts, the best layout below `safe` is also wanted, which may be another one */
	p4d_search_enumerate__all(&w);
	*count = rank(&w, found, room);
	if (*count == room)
		slowest = found[room - 1].step.seconds;
	if (*count && found[0].fraction > space->safe && counts) {
		w.counts.has_safe = rank_safe(&w, &w.counts.safe);
		if (!w.counts.has_safe || w.counts.safe.step.seconds > slowest)
			slowest = w.counts.has_safe ? w.counts.safe.step.seconds : INFINITY;
	}
	p4d_search_enumerate__end(&w);
	if (counts)
		*counts = w.counts;
	return w.skipped ? P4D_SEARCH_TIE * slowest / w.least : 0;
}

/*
 * Called if all layouts were discarded early. Finds the one that is closest to fitting, which shows why none
 * fits.
 */
static void find_smallest(const p4d_request *request, const p4d_search_space *space,
			  p4d_search_counts *counts)
{
	p4d_search_enumeration w;

	p4d_search_enumerate__start(&w, request, space, INFINITY);
	w.any = true;
	w.discard = false;
	p4d_search_enumerate__all(&w);
	p4d_search_enumerate__end(&w);
	counts->smallest = w.counts.smallest;
	if (!w.lean) /* no layout was possible, whatever the memory */
		counts->considered = 0;
}

/*
 * Whether the answer of a search that was cut short is better. A candidate without throughput has only a
 * bound instead of a step time, which proves nothing.
 */
static bool is_faster(const p4d_candidate *cut, const p4d_candidate *found)
{
	return cut->step.tokens_per_second_per_gpu > 0 && cut->step.seconds < found->step.seconds;
}

/*
 * Searches in passes that skip fewer and fewer layouts. If the budget ends in a pass, that pass is the last
 * one. Its answer replaces the earlier one only if it is better, because it may not have reached the earlier
 * layouts. Returns the number of layouts found.
 */
static size_t search_wider(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
			   size_t room, p4d_search_counts *counts)
{
	const bool *cut = space->budget ? &space->budget->cut : &(const bool){false};
	double slack = room > 1 ? USUAL_SLACK : BEST_SLACK;
	size_t count, more;
	double needed = search(request, space, slack, found, room, &count, counts);
	struct {
		p4d_search_counts counts;
		p4d_candidate found[];
	} *wider = needed <= slack || *cut ? NULL : malloc(sizeof(*wider) + room * sizeof(*found));

	while (wider && needed > slack && !*cut) {
		slack = isfinite(needed) || slack >= USUAL_SLACK ? needed : USUAL_SLACK;
		needed =
		    search(request, space, slack, wider->found, room, &more, counts ? &wider->counts : NULL);
		if (*cut && count && (!more || !is_faster(wider->found, found)))
			break;
		memcpy(found, wider->found, more * sizeof(*found));
		count = more;
		if (counts)
			*counts = wider->counts;
	}
	free(wider);
	return count;
}

enum { TO_SIMULATE = 150000 }; /* units of the budget for a candidate's allocator */

/*
 * Simulates the allocator for a candidate. Returns the candidate's memory, divided by its memory with the
 * constant share. 1: the candidate fits.
 */
static double excess_of(const p4d_search_space *space, p4d_candidate *candidate)
{
	p4d_estimate *const e = &candidate->memory;
	p4d_layout layout;

	if (p4d_layout_build(&candidate->request, space->nodes, space->gpus_per_node, &layout, NULL) < 0 ||
	    p4d_memory_estimate(&layout, space->method, &space->capacity, e, NULL) < 0)
		return 1;
	p4d_memory_play(&layout, &space->capacity, e);
	candidate->has_memory = true;
	if (e->is_played && space->budget)
		space->budget->left -= space->budget->left < TO_SIMULATE ? space->budget->left : TO_SIMULATE;
	return e->fraction <= space->limit ? 1 : e->fraction / candidate->fraction;
}

/* Drops candidates that do not fit if the allocator is simulated. Returns how many remain. *excess: of the
 * first candidate. */
static size_t confirm(const p4d_search_space *space, p4d_candidate *found, size_t count, double *excess)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const double more = excess_of(space, &found[i]);
		if (i == 0)
			*excess = more;
		if (more <= 1)
			found[kept++] = found[i];
	}
	return kept;
}

enum { NARROWED = 4 };

/*
 * While layouts are compared, fragmentation is a constant share. If the allocator of all layouts that were
 * found needs more than the limit, searches for layouts that leave as much room as the best of them lacked.
 */
static size_t search_confirmed(const p4d_request *request, const p4d_search_space *space,
			       p4d_candidate *found, size_t room, p4d_search_counts *counts)
{
	const int framework = (int)request->value[P4D_FRAMEWORK];
	p4d_search_space narrow = *space;
	double excess;

	for (int i = 0; i < NARROWED; i++) {
		const size_t count = search_wider(request, &narrow, found, room, counts);
		if (!count || !p4d_framework_of(framework)->share_is_mean)
			return count;
		const size_t kept = confirm(space, found, count, &excess);
		if (kept)
			return kept;
		narrow.limit /= excess;
	}
	return 0;
}

size_t p4d_search_run(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
		      size_t room, p4d_search_counts *counts)
{
	const bool cut = space->budget && space->budget->cut;

	if (cut)
		space->budget->cut = false; /* an earlier search may have set it */
	const size_t count = search_confirmed(request, space, found, room, counts);
	if (!count && counts && counts->considered && !counts->smallest.device_bytes)
		find_smallest(request, space, counts);
	if (cut)
		space->budget->cut = true;
	return count;
}

bool p4d_search_preferred(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
			  p4d_search_counts *counts)
{
	p4d_search_space safe = *space;
	p4d_candidate other;

	safe.limit = space->safe < space->limit ? space->safe : space->limit;
	if (!p4d_search_run(request, &safe, found, 1, NULL))
		return p4d_search_run(request, space, found, 1, counts);
	if (p4d_layout_shares_more(&found->request, P4D_OPTIMIZER_SHARDING) &&
	    p4d_search_run(request, space, &other, 1, counts) &&
	    !p4d_layout_shares_more(&other.request, P4D_OPTIMIZER_SHARDING))
		*found = other;
	return true;
}

bool p4d_search_any(const p4d_request *request, const p4d_search_space *space)
{
	p4d_search_enumeration w;

	if (p4d_search__is_spent(space))
		return false;
	p4d_search_enumerate__start(&w, request, space, INFINITY);
	w.any = true;
	w.timed = false;
	p4d_search_enumerate__all(&w);
	p4d_search_enumerate__end(&w);
	return w.entries > 0;
}
