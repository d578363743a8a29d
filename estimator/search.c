/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <string.h>

#include "defaults.h"

enum { MOST_NODES = 65536, MOST_CP = 64, MOST_MICRO_BATCH = 1024 };

/* The walk over all candidates of one request; the loops below fill `trial` from outside in. */
typedef struct walk {
	const p4d_request *asked;
	const p4d_search_space *space;
	p4d_request trial;
	p4d_layout layout; /* large, hence here rather than on every frame */
	p4d_candidate *found;
	size_t room, count;
	bool counting;
	p4d_search_counts counts;
} walk;

static bool open(const walk *w, p4d_option option)
{
	return !p4d_is_set(w->asked, option);
}

bool p4d_candidate_better(const p4d_candidate *a, const p4d_candidate *b, double safe)
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
	bool larger = x->value[P4D_MICRO_BATCH] > y->value[P4D_MICRO_BATCH];
	return a_safe ? larger : x->value[P4D_MICRO_BATCH] < y->value[P4D_MICRO_BATCH];
}

static void keep(walk *w, const p4d_candidate *candidate)
{
	size_t at = w->count;

	while (at > 0 && p4d_candidate_better(candidate, &w->found[at - 1], w->space->safe))
		at--;
	if (at == w->room)
		return;
	if (w->count < w->room)
		w->count++;
	memmove(&w->found[at + 1], &w->found[at], (w->count - at - 1) * sizeof(*w->found));
	w->found[at] = *candidate;
}

/* Judges the trial. Returns true when it fits below the limit. */
static bool try_trial(walk *w)
{
	const p4d_search_space *space = w->space;
	p4d_candidate candidate;
	p4d_estimate estimate;

	candidate.request = w->trial;
	p4d_request_complete(&candidate.request, space->published_batch, space->nodes * space->gpus_per_node);
	if (p4d_layout_build(&candidate.request, space->nodes, space->gpus_per_node, &w->layout, NULL) < 0)
		return true; /* not divisible: says nothing about the next, larger micro-batch */
	if (p4d_estimate_memory(&w->layout, space->method, &space->capacity, &estimate, NULL) < 0)
		return false;
	candidate.model_ranks = w->layout.tp * w->layout.cp * w->layout.pp;
	candidate.pipeline_full = w->layout.micro_batches >= w->layout.pp;
	candidate.device_bytes = estimate.peak.device_bytes;
	candidate.fraction = estimate.fraction;
	if (!w->counts.considered++ || candidate.device_bytes < w->counts.leanest.device_bytes)
		w->counts.leanest = candidate;
	if (estimate.fraction > space->limit)
		return false;
	w->counts.fitting++;
	keep(w, &candidate);
	return true;
}

/* Where an option is open, its trial value; otherwise what was asked stays. */
static void propose(walk *w, p4d_option option, uint64_t value)
{
	p4d_request_put(&w->trial, option, (int64_t)value, P4D_BY_P4D);
}

static void over_micro_batches(walk *w)
{
	if (!open(w, P4D_MICRO_BATCH)) {
		try_trial(w);
		return;
	}
	/* memory only grows with the micro-batch, so the first that does not fit ends the row */
	for (uint64_t b = 1; b <= MOST_MICRO_BATCH; b *= 2) {
		propose(w, P4D_MICRO_BATCH, b);
		if (!try_trial(w))
			break;
	}
}

/*
 * True when nothing with this recompute can come before the one that is already found, because a key of the
 * ranking above the micro-batch says so. Only when just the best is wanted, and nobody counts.
 */
static bool beaten(const walk *w, int64_t recompute)
{
	const p4d_candidate *best = w->found;
	uint64_t ranks = (uint64_t)(w->trial.value[P4D_TP] * w->trial.value[P4D_CP] * w->trial.value[P4D_PP]);

	if (w->counting || w->room != 1 || !w->count || best->fraction > w->space->safe ||
	    !best->pipeline_full)
		return false;
	if (recompute != best->request.value[P4D_RECOMPUTE])
		return recompute > best->request.value[P4D_RECOMPUTE];
	return ranks > best->model_ranks;
}

static void over_recompute(walk *w)
{
	if (!open(w, P4D_RECOMPUTE)) {
		over_micro_batches(w);
		return;
	}
	for (int r = P4D_RECOMPUTE_NONE; r <= P4D_RECOMPUTE_FULL; r++) {
		/* with flash attention there are no stored scores that `selective` could drop */
		if (r == P4D_RECOMPUTE_SELECTIVE &&
		    (!p4d_is_set(w->asked, P4D_ATTENTION) || w->asked->value[P4D_ATTENTION]))
			continue;
		propose(w, P4D_RECOMPUTE, (uint64_t)r);
		if (!beaten(w, r))
			over_micro_batches(w);
	}
}

static uint64_t asked_or_1(const walk *w, p4d_option option)
{
	return p4d_is_set(w->asked, option) ? (uint64_t)w->asked->value[option] : 1;
}

static void over_pipelines(walk *w, uint64_t ranks)
{
	uint64_t layers = (uint64_t)w->asked->value[P4D_LAYERS];

	if (!open(w, P4D_PP)) {
		over_recompute(w);
		return;
	}
	for (uint64_t pp = 1; pp <= ranks && pp <= layers && pp <= P4D_MAX_STAGES; pp++) {
		if (ranks % pp)
			continue;
		propose(w, P4D_PP, pp);
		over_recompute(w);
	}
}

static void over_context(walk *w, uint64_t ranks)
{
	if (!open(w, P4D_CP)) {
		over_pipelines(w, ranks / asked_or_1(w, P4D_CP));
		return;
	}
	for (uint64_t cp = 1; cp <= ranks && cp <= MOST_CP; cp *= 2) {
		if (ranks % cp)
			break;
		propose(w, P4D_CP, cp);
		over_pipelines(w, ranks / cp);
	}
}

static void over_tensor(walk *w)
{
	uint64_t world = w->space->nodes * w->space->gpus_per_node;

	if (!open(w, P4D_TP)) {
		over_context(w, world / asked_or_1(w, P4D_TP));
		return;
	}
	for (uint64_t tp = 1; tp <= w->space->gpus_per_node; tp++) {
		if (w->space->gpus_per_node % tp || (uint64_t)w->asked->value[P4D_KV_HEADS] % tp)
			continue;
		propose(w, P4D_TP, tp);
		over_context(w, world / tp);
	}
}

size_t p4d_search(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
		  size_t room, p4d_search_counts *counts)
{
	walk w;

	memset(&w, 0, offsetof(walk, layout));
	w.asked = request;
	w.space = space;
	w.trial = *request;
	w.found = found;
	w.room = room;
	w.count = 0;
	w.counting = counts != NULL;
	memset(&w.counts, 0, sizeof(w.counts));
	over_tensor(&w);
	if (counts)
		*counts = w.counts;
	return w.count;
}

/* What a user decides as one thing: a pipeline's stages, chunks, schedule and split belong together. */
static const struct choice {
	p4d_option option[4];
	unsigned count;
} choices[] = {
    {{P4D_TP}, 1},          {{P4D_CP}, 1},        {{P4D_PP, P4D_VPP, P4D_SCHEDULE, P4D_PIPELINE_SPLIT}, 4},
    {{P4D_MICRO_BATCH}, 1}, {{P4D_RECOMPUTE}, 1},
};
enum { CHOICES = sizeof(choices) / sizeof(*choices) };

/* Unsets the choices of a mask. Returns how many of them had been made, or -1 when one of the mask had not.
 */
static int give_up(p4d_request *request, unsigned mask)
{
	int rc = 0;

	for (unsigned i = 0; i < CHOICES; i++) {
		bool made = false;
		if (!(mask & (1u << i)))
			continue;
		for (unsigned j = 0; j < choices[i].count; j++) {
			made = made || p4d_is_set(request, choices[i].option[j]);
			request->origin[choices[i].option[j]] = P4D_UNSET;
		}
		if (!made)
			rc = -1;
	}
	return rc;
}

/* The best layout below space->limit with the fewest choices given up; how many, or -1. */
static int nearest_below_limit(const p4d_request *request, const p4d_search_space *space,
			       p4d_candidate *found)
{
	for (int most = 0; most <= CHOICES; most++) {
		bool any = false;
		for (unsigned mask = 0; mask < 1u << CHOICES; mask++) {
			p4d_request relaxed = *request;
			p4d_candidate candidate;
			if (__builtin_popcount(mask) != most || give_up(&relaxed, mask) < 0)
				continue;
			if (!p4d_search(&relaxed, space, &candidate, 1, NULL))
				continue;
			if (!any || p4d_candidate_better(&candidate, found, space->safe))
				*found = candidate;
			any = true;
		}
		if (any)
			return most;
	}
	return -1;
}

int p4d_search_nearest(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found)
{
	p4d_search_space safe = *space;

	safe.limit = space->safe;
	int given_up = nearest_below_limit(request, &safe, found);
	return given_up >= 0 ? given_up : nearest_below_limit(request, space, found);
}

int p4d_search_smallest(const p4d_request *request, const p4d_search_space *space,
			uint64_t most_gpus_per_node, uint64_t *nodes, uint64_t *gpus_per_node,
			p4d_candidate *found)
{
	p4d_search_space bigger = *space;
	p4d_request relaxed = *request;

	for (unsigned i = 0; i < CHOICES; i++)
		give_up(&relaxed, 1u << i);

	if (space->nodes == 1)
		for (uint64_t gpus = space->gpus_per_node + 1; gpus <= most_gpus_per_node; gpus++) {
			if (most_gpus_per_node % gpus)
				continue;
			bigger.gpus_per_node = gpus;
			if (p4d_search(&relaxed, &bigger, found, 1, NULL))
				goto fits;
		}
	bigger.gpus_per_node =
	    most_gpus_per_node > space->gpus_per_node ? most_gpus_per_node : space->gpus_per_node;
	/* node by node while that is cheap, then by powers of two */
	uint64_t near = 2 * space->nodes + 16;
	for (uint64_t n = space->nodes + 1; n <= MOST_NODES; n = n < near ? n + 1 : n * 2) {
		bigger.nodes = n;
		if (p4d_search(&relaxed, &bigger, found, 1, NULL))
			goto fits;
	}
	return -1;
fits:
	*nodes = bigger.nodes;
	*gpus_per_node = bigger.gpus_per_node;
	return 0;
}
