/* SPDX-License-Identifier: Apache-2.0 */
/* One candidate of the search: layout, memory, time. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "cost/cost.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "search/search_internal.h"

/* Costs in units of the budget (p4d_search_budget). */
enum {
	TO_BUILD = 40,   /* builds a layout and finds its bound, which is usually cached */
	TO_FAIL = 500,   /* added to TO_BUILD if the layout is impossible */
	TO_SUM = 200,    /* sums the memory of a layout */
	TO_ROUTE = 200,  /* added to TO_SUM if the model has experts */
	TO_PLAY = 2,     /* added to TO_SUM for each layer, if the framework has plays_layers */
	TO_SLICE = 10000 /* chooses the fastest lengths of slices */
};

static void set_cp_comm(p4d_search_enumeration *w, int cp_comm)
{
	p4d_request_put(&w->trial, P4D_CP_COMM, cp_comm, P4D_BY_P4D);
	w->layout.cp_comm = cp_comm;
}

static bool chooses_cp_comm(const p4d_search_enumeration *w)
{
	return p4d_is_open(w, P4D_CP_COMM) && w->layout.cp > 1 &&
	       p4d_framework_of(w->layout.framework)->chooses_cp_comm;
}

/* Derives the trial's layout, with the best grid if p4d chooses the grid. */
static bool derive(p4d_search_enumeration *w)
{
	p4d_request *r = &w->trial;

	if (!p4d_layout_grid_is_open(w->asked))
		return p4d_layout_derive(r, &w->layout, NULL) == 0;
	r->origin[P4D_TP_GRID] = P4D_UNSET;
	if (p4d_layout_derive(r, &w->layout, NULL) < 0)
		return false;
	if (!w->timed || p4d_tp_ranks(&w->layout) == 1)
		return true;
	const p4d_tp_grid grid = p4d_cost_best_grid(&w->layout, w->space->capacity.gpu);
	if (grid.x == w->layout.tp)
		return true;
	snprintf(r->tp_grid, sizeof(r->tp_grid), "%" PRIu64 ",%" PRIu64 ",%" PRIu64, grid.x, grid.y, grid.z);
	p4d_request_put(r, P4D_TP_GRID, 1, P4D_BY_P4D);
	return p4d_layout_derive(r, &w->layout, NULL) == 0;
}

/* Completes the candidate and builds its layout, with the faster cp-comm. */
static bool build(p4d_search_enumeration *w)
{
	if (p4d_is_open(w, P4D_SEQUENCE_PARALLEL))
		w->trial.origin[P4D_SEQUENCE_PARALLEL] = P4D_UNSET;
	p4d_request_follow(&w->trial);
	if (p4d_is_open(w, P4D_CP_COMM))
		p4d_request_put(&w->trial, P4D_CP_COMM, P4D_CP_P2P, P4D_BY_P4D);
	if (p4d_is_open(w, P4D_SLICE_LENGTHS))
		w->trial.origin[P4D_SLICE_LENGTHS] = P4D_UNSET;
	if (!derive(w))
		return false;
	if (w->timed && chooses_cp_comm(w) && p4d_cost_prefers_gather(&w->layout, w->space->capacity.gpu))
		set_cp_comm(w, P4D_CP_ALL_GATHER);
	return true;
}

static double sum_of(p4d_cost_least least)
{
	return least.layers + least.head;
}

p4d_cost_least p4d_search_candidate__floor(p4d_search_enumeration *w)
{
	const p4d_gpu *gpu = w->space->capacity.gpu;
	const double batch = (double)w->trial.value[P4D_GLOBAL_BATCH];
	p4d_cost_least least;

	w->layout.cp_comm = w->layout.cp > 1 ? (int)w->trial.value[P4D_CP_COMM] : P4D_CP_P2P;
	least = p4d_cost_floor(&w->layout, gpu, &w->cache);
	if (chooses_cp_comm(w)) {
		w->layout.cp_comm = w->layout.cp_comm == P4D_CP_P2P ? P4D_CP_ALL_GATHER : P4D_CP_P2P;
		const p4d_cost_least other = p4d_cost_floor(&w->layout, gpu, &w->cache);
		least = sum_of(other) < sum_of(least) ? other : least;
	}
	return (p4d_cost_least){least.layers * batch, least.head * batch};
}

bool p4d_search_candidate__may_win(p4d_search_enumeration *w, double bound)
{
	if (bound > P4D_SEARCH_TIE * w->fastest)
		return false;
	if (bound <= w->slack * w->least)
		return true;
	w->skipped = true;
	return false;
}

/* The bytes above which a candidate's memory does not matter, because it neither fits nor is the smallest. */
static uint64_t enough_of(const p4d_search_enumeration *w)
{
	const double most = w->space->limit * w->capacity_bytes + 1;
	const uint64_t smallest = w->one || w->any ? 0 : w->counts.smallest.device_bytes;

	if (!w->discard || !(w->capacity_bytes > 0) || (!w->one && !w->any && !w->lean))
		return 0;
	return most > (double)smallest ? (uint64_t)most : smallest;
}

/*
 * Whether the layout fits with at least one value of cp-comm. A ring holds two blocks of keys with any number
 * of ranks. With two ranks, a gather holds as many, and has nothing to merge.
 */
static bool fits_somehow(p4d_search_enumeration *w, uint64_t *bytes)
{
	const p4d_search_space *space = w->space;
	const bool gathers = w->layout.cp_comm == P4D_CP_ALL_GATHER;
	uint64_t other_bytes;

	w->memo.enough = enough_of(w);
	if (p4d_memory_fits_below(&w->layout, space->method, &space->capacity, space->limit, &w->memo, bytes))
		return true;
	if (!chooses_cp_comm(w) || (!gathers && w->layout.cp > 2))
		return false;
	set_cp_comm(w, gathers ? P4D_CP_P2P : P4D_CP_ALL_GATHER);
	if (p4d_memory_fits_below(&w->layout, space->method, &space->capacity, space->limit, &w->memo,
				  &other_bytes)) {
		*bytes = other_bytes;
		return true;
	}
	set_cp_comm(w, gathers ? P4D_CP_ALL_GATHER : P4D_CP_P2P);
	return false;
}

/*
 * Whether the layout fits. Memory only grows with the micro-batch, so a layout that was too large with a
 * smaller one is not computed again.
 */
static bool fits(p4d_search_enumeration *w, uint64_t *bytes)
{
	const unsigned bit = 1u << w->layout.recompute;

	*bytes = P4D_NOT_MODELLED;
	if (w->too_large & bit && !w->grids)
		return false;
	const uint64_t played =
	    p4d_framework_of(w->layout.framework)->plays_layers ? TO_PLAY * w->layout.layers : 0;
	const uint64_t routed = w->layout.experts ? TO_ROUTE : 0;
	const uint64_t units = TO_SUM + (uint64_t)w->trial.value[P4D_PP] + played + routed;
	const bool below = p4d_search__take(w, units) && fits_somehow(w, bytes);
	if (!below)
		w->too_large |= bit;
	return below;
}

static double fraction_of(const p4d_search_enumeration *w, uint64_t device_bytes)
{
	return w->capacity_bytes > 0 ? (double)device_bytes / w->capacity_bytes : 0;
}

/* Fills a candidate from the trial; does not time it. */
static void fill(const p4d_search_enumeration *w, uint64_t device_bytes, p4d_candidate *candidate)
{
	candidate->request = w->trial;
	candidate->device_bytes = device_bytes;
	candidate->fraction = fraction_of(w, device_bytes);
	candidate->has_memory = false;
	candidate->step = (p4d_step){.seconds = 0};
}

static void remember(p4d_search_enumeration *w, uint64_t device_bytes)
{
	if (!p4d_grow(&w->entry, &w->room, w->entries + 1, sizeof(*w->entry)))
		return;
	const p4d_layout *l = &w->layout;
	const double fraction = fraction_of(w, device_bytes);
	w->entry[w->entries++] = (p4d_search_entry){
	    .tp = (uint16_t)p4d_tp_ranks(l),
	    .cp = (uint16_t)l->cp,
	    .pp = (uint16_t)l->pp,
	    .vpp = (uint16_t)l->vpp,
	    .ep = (uint16_t)l->ep,
	    .etp = (uint16_t)l->etp,
	    .micro_batch = (uint32_t)l->micro_batch,
	    .slices = (uint8_t)l->slices,
	    .equal_slices = w->equal_slices,
	    .recompute = (uint8_t)l->recompute,
	    .schedule = (uint8_t)l->schedule,
	    .vocab_parallel = (uint8_t)l->vocab_parallel,
	    .cp_comm = (uint8_t)l->cp_comm,
	    .sharding = (uint8_t)l->zero_stage,
	    .shard_degree = (uint32_t)l->shard_degree,
	    .memory_step = (uint16_t)(fraction * P4D_SEARCH_MEMORY_STEPS),
	    .kinds = (uint8_t)((p4d_tp_ranks(l) > 1) + (l->cp > 1) + (l->pp > 1) + (l->vpp > 1) +
			       (l->ep > 1) + (l->etp > 1) + (l->slices > 1)),
	    .unsafe = fraction > w->space->safe,
	    .counts_ends = l->loss_counts && p4d_is_open(w, P4D_ACCOUNT_FOR_LOSS),
	    .pipeline_empty = l->micro_batches < l->pp,
	    .seconds = w->bound,
	    .device_bytes = device_bytes,
	};
}

/* Stores in the request whether the lengths of the slices are equal, or are the fastest. */
static void choose_slices(p4d_search_enumeration *w)
{
	p4d_request *r = &w->trial;

	if (w->layout.slices == 1 || !p4d_is_open(w, P4D_SLICE_LENGTHS))
		return;
	if (!w->equal_slices) {
		p4d_cost_choose_slices(r, &w->layout, w->space->capacity.gpu);
		return;
	}
	p4d_layout_slices_text(w->layout.slice_tokens, w->layout.slices, r->slice_lengths,
			       sizeof(r->slice_lengths));
	p4d_request_put(r, P4D_SLICE_LENGTHS, 1, P4D_BY_P4D);
}

/* Builds an entry's layout again. */
static void rebuild(p4d_search_enumeration *w, const p4d_search_entry *e)
{
	p4d_search_enumerate__back(w, e);
	build(w);
	w->equal_slices = e->equal_slices;
	choose_slices(w);
	if (p4d_is_open(w, P4D_CP_COMM))
		set_cp_comm(w, e->cp_comm);
}

void p4d_search_candidate__revive(p4d_search_enumeration *w, const p4d_search_entry *e,
				  p4d_candidate *candidate)
{
	rebuild(w, e);
	fill(w, e->device_bytes, candidate);
	if (e->cut)
		candidate->step.seconds = e->seconds;
	else if (e->timed)
		candidate->step =
		    p4d_cost_step_of(&w->layout, w->space->capacity.gpu, e->seconds, e->bubble_fraction);
}

void p4d_search_candidate__time(p4d_search_enumeration *w, p4d_search_entry *e)
{
	p4d_error err = {.code = P4D_OK};
	p4d_step step;

	rebuild(w, e);
	e->timed = true;
	if (p4d_cost_step(&w->layout, w->space->capacity.gpu, &w->work, &step, &err) == 0) {
		e->seconds = step.seconds;
		e->bubble_fraction = step.bubble_fraction;
	} else if (w->space->budget && err.code == P4D_E_OVERFLOW) {
		e->cut = true;
		w->space->budget->cut = true;
	} else {
		e->seconds = INFINITY;
	}
}

static void find_bound(p4d_search_enumeration *w)
{
	w->bound = w->timed ? p4d_cost_bound(&w->layout, w->space->capacity.gpu, &w->cache) : 0;
}

/*
 * Slots have the size of the longest slice, so equal slices need the least memory. If equal slices fit, the
 * fastest lengths are tried, and used if they fit as well.
 */
static bool fits_sliced(p4d_search_enumeration *w, uint64_t *bytes)
{
	uint64_t of_fastest;

	if (!fits(w, bytes))
		return false;
	if (w->layout.slices == 1 || !p4d_is_open(w, P4D_SLICE_LENGTHS))
		return true;
	if (p4d_search__take(w, TO_SLICE)) {
		choose_slices(w);
		find_bound(w);
		if (fits(w, &of_fastest)) {
			*bytes = of_fastest;
			return true;
		}
		w->too_large &= ~(1u << w->layout.recompute);
		build(w);
	}
	w->equal_slices = true;
	choose_slices(w);
	find_bound(w);
	return true;
}

/*
 * Evaluates the candidate, and stores it if it fits below the limit. Does not compute the memory of a
 * candidate that is certainly slower than the wanted layouts.
 */
p4d_search_outcome p4d_search_candidate__try(p4d_search_enumeration *w)
{
	uint64_t bytes;

	if (!p4d_search__take(w, TO_BUILD + (uint64_t)w->trial.value[P4D_PP] / 4))
		return P4D_NOT_DIVISIBLE;
	if (!build(w)) {
		p4d_search__take(w, TO_FAIL);
		return P4D_NOT_DIVISIBLE;
	}
	w->counts.considered++;
	w->equal_slices = false;
	find_bound(w);
	if (!p4d_search_candidate__may_win(w, w->bound))
		return P4D_TOO_SLOW;
	const bool below = fits_sliced(w, &bytes);
	if (!w->one && (!w->lean || bytes < w->counts.smallest.device_bytes)) {
		fill(w, bytes, &w->counts.smallest);
		w->lean = true;
	}
	if (!below)
		return P4D_TOO_LARGE;
	if (w->timed && w->bound < w->least)
		w->least = w->bound;
	remember(w, bytes);
	return P4D_FITS;
}
