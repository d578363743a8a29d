/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cost/cost_internal.h"
#include "request/framework.h"
#include "search/search.h"
#include "timeline/timeline.h"

/* Internals of the search, only for search*.c. */

/* Step times within this ratio are a tie, because the cost model is not exact to a percent. */
#define P4D_SEARCH_TIE 1.015

/* Steps of the capacity; layouts within one step count as equal in memory. */
enum { P4D_SEARCH_MEMORY_STEPS = 50 };

/* The search's choices for one layout that fits. */
typedef struct p4d_search_entry {
	uint16_t tp, cp, pp, vpp, ep, etp;
	uint32_t micro_batch;
	uint8_t slices;
	bool equal_slices; /* slices have equal lengths; otherwise the lengths with the fastest step */
	uint8_t recompute, schedule, vocab_parallel, cp_comm, sharding;
	uint32_t shard_degree; /* see p4d_layout.shard_degree */
	uint16_t memory_step;  /* memory of the layout, rounded */
	uint8_t kinds;         /* how many of tp, cp, pp, vpp, ep, etp and slices are in use */
	bool counts_ends;      /* p4d chose to count embedding and loss as layers */
	bool unsafe, pipeline_empty;
	bool timed, cut; /* cut: the budget did not suffice to time the layout */
	double seconds;  /* step time; before the layout is timed, a lower bound; 0: unknown */
	double bubble_fraction;
	uint64_t device_bytes;
} p4d_search_entry;

/*
 * A stored p4d_cost_floor (search_prune.c). key: degrees, micro-batch and recompute; 0: the entry is empty.
 */
typedef struct p4d_search_floor {
	uint64_t key, vocab;
	p4d_cost_least seconds;
} p4d_search_floor;

enum { P4D_SEARCH_FLOOR_BITS = 7, P4D_SEARCH_FLOORS = 1 << P4D_SEARCH_FLOOR_BITS };

/* The enumeration of all candidates of one request; nested loops fill `trial`, outermost first. */
typedef struct p4d_search_enumeration {
	const p4d_request *asked;
	const p4d_search_space *space;
	p4d_request trial;      /* complete, except options that follow from the degrees */
	bool open[P4D_OPTIONS]; /* options that the search may choose: not requested, and the framework has a
				 * choice */
	bool complete;          /* false: no layout is possible */
	p4d_layout layout;      /* large, so it is here instead of on every stack frame */
	p4d_search_entry *entry;
	size_t entries, room;
	bool grids;        /* --tp-grid: p4d must build a layout to know whether it is valid */
	bool any;          /* stop at the first layout that fits */
	bool one;          /* the caller wants only the fastest layout and those that tie with it */
	bool timed;        /* the cost model covers the GPU */
	bool discard;      /* do not examine layouts that cannot fit */
	bool lean;         /* counts.smallest is filled */
	bool equal_slices; /* the candidate has equal slices, because the fastest lengths do not fit */
	double least;      /* lower bound of the step time of the fastest layout that fits */
	double
	    fastest;  /* shortest step time of the layouts that fit and were timed; infinity: there is none */
	double slack; /* the search skips layouts that are slower than the fastest by more than this
		       * factor */
	bool skipped; /* the search skipped a layout because of slack */
	unsigned sharing; /* the kind of sharding that the search tries now (search_sharding.c); 0: the
			   * least */
	double bound;     /* lower bound of the last candidate's step time; 0: unknown */
	uint64_t split_pp, split_vpp; /* pp and vpp for which the trial's pipeline split was made */
	unsigned too_large; /* a bit for each recompute value that was too large with a smaller micro-batch */
	/*
	 * By recompute: the micro-batch with which 1f1b needed too much memory with the trial's degrees; 0:
	 * no such micro-batch is known.
	 */
	uint64_t most_of_1f1b[P4D_RECOMPUTE_KEEP + 1];
	p4d_timeline_work work;
	p4d_cost_cache cache;
	p4d_plan_memo memo;
	p4d_search_floor floor[P4D_SEARCH_FLOORS];
	double capacity_bytes; /* 0 unknown */
	p4d_search_counts counts;
} p4d_search_enumeration;

/* Whether space->kept has the option's bit. */
static inline bool p4d_search__is_kept(const p4d_search_space *space, p4d_option option)
{
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++)
		if (p4d_layout_options[i] == option)
			return space->kept >> i & 1;
	return false;
}

/* search_enumerate.c */
void p4d_search_enumerate__start(p4d_search_enumeration *w, const p4d_request *request,
				 const p4d_search_space *space, double slack);
void p4d_search_enumerate__end(p4d_search_enumeration *w);
/* Tries every layout worth trying. */
void p4d_search_enumerate__all(p4d_search_enumeration *w);
/* Copies an entry's choices into the trial. */
void p4d_search_enumerate__back(p4d_search_enumeration *w, const p4d_search_entry *e);
static inline bool p4d_is_open(const p4d_search_enumeration *w, p4d_option option)
{
	return w->open[option];
}

/*
 * Iterates over the ways to distribute experts. etp: number of shards of one expert (1, then divisors of tp).
 * ep: number of ranks with different experts (divisors of the number of experts). Starts with at->etp = 0;
 * false after the last way. Models without experts have one way. ranks: ranks of a stage; 0: any number.
 */
typedef struct p4d_search_spread {
	uint64_t ep, etp;
} p4d_search_spread;
bool p4d_search_enumerate__spread(const p4d_search_enumeration *w, uint64_t ranks, p4d_search_spread *at);

/* Whether the budget is spent. */
static inline bool p4d_search__is_spent(const p4d_search_space *space)
{
	return space->budget && !space->budget->left;
}

/* Subtracts units from the budget. False: too few are left. */
static inline bool p4d_search__take(const p4d_search_enumeration *w, uint64_t units)
{
	p4d_search_budget *budget = w->space->budget;

	if (!budget)
		return true;
	if (budget->left < units) {
		budget->left = 0;
		budget->cut = true;
		return false;
	}
	budget->left -= units;
	return true;
}

/* search_prune.c */
enum { P4D_SEARCH_MOST_MICRO_BATCH = 1024 };
/* P4D_TOO_SLOW: the layout is too slow to be a result; whether it fits was not checked. */
typedef enum p4d_search_outcome {
	P4D_NOT_DIVISIBLE,
	P4D_TOO_LARGE,
	P4D_FITS,
	P4D_TOO_SLOW
} p4d_search_outcome;
/* False if not even the optimizer states fit with the trial's degrees, with any schedule. */
bool p4d_search_prune__states_fit(p4d_search_enumeration *w, p4d_search_spread at);
/* Whether layouts with the trial's tp and cp may be results. */
bool p4d_search_prune__may_win(p4d_search_enumeration *w);
/* Tries the candidate, unless p4d can tell without building a layout that it does not fit or is too slow. */
p4d_search_outcome p4d_search_prune__try(p4d_search_enumeration *w);
/*
 * If the caller wants only the fastest layout: times the first layouts that fit. From then on the search
 * examines only layouts that may tie with them. Overwrites the trial.
 */
void p4d_search_prune__time(p4d_search_enumeration *w);

/* search_sharding.c */
/* Continues with the next kind of sharding. False: there is none, or none is needed. */
bool p4d_search_sharding__next(p4d_search_enumeration *w);
/* Chooses the shard-degree for this many dp*cp ranks. False: this kind of sharding does not apply to them. */
bool p4d_search_sharding__degrees(p4d_search_enumeration *w, uint64_t ranks);
/* Sets the sharding of the trial, if it is open. degree 0: all ranks. */
void p4d_search_sharding__put(p4d_search_enumeration *w, int sharding, uint64_t degree);

/* search_candidate.c */
/*
 * Times an entry that has only a bound. Overwrites the candidate. If the budget does not suffice, the entry
 * keeps its bound. An entry that cannot be timed is never the fastest.
 */
void p4d_search_candidate__time(p4d_search_enumeration *w, p4d_search_entry *e);
/* Restores an entry as the candidate, with its layout. */
void p4d_search_candidate__revive(p4d_search_enumeration *w, const p4d_search_entry *e,
				  p4d_candidate *candidate);
/* Whether a layout whose step takes at least this long may be a result. */
bool p4d_search_candidate__may_win(p4d_search_enumeration *w, double bound);

/* Evaluates the candidate, and stores it if it fits. */
p4d_search_outcome p4d_search_candidate__try(p4d_search_enumeration *w);
/* p4d_cost_floor of the layout with the faster cp-comm, times the whole batch. */
p4d_cost_least p4d_search_candidate__floor(p4d_search_enumeration *w);
