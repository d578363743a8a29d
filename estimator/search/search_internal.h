/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cost/cost_internal.h"
#include "request/framework.h"
#include "search/search.h"
#include "timeline/timeline.h"

/* Internals of the search, only for search*.c. */

/* Step times up to this ratio are a tie: the cost model is not exact to a percent. */
#define P4D_SEARCH_TIE 1.015

/* The search's choices for a layout that fits. */
typedef struct p4d_search_entry {
	uint16_t tp, cp, pp, vpp, ep, etp;
	uint32_t micro_batch;
	uint8_t slices;
	bool equal_slices; /* slices have equal lengths; else the fastest lengths */
	uint8_t recompute, schedule, vocab_parallel, cp_comm, sharding;
	uint32_t shard_degree; /* as in the layout */
	uint16_t memory_step;  /* its memory, coarse */
	uint8_t kinds;         /* how many of tp, cp, pp, vpp, ep, etp and slices are in use */
	bool counts_ends;      /* embedding and loss count as layers, by p4d's choice */
	bool unsafe, pipeline_empty;
	bool timed, cut; /* cut: the budget did not suffice to time it */
	double seconds;  /* step time; before it is timed, a lower bound; 0: unknown */
	double bubble_fraction;
	uint64_t device_bytes;
} p4d_search_entry;

/* A stored p4d_cost_floor (search_prune.c). key: degrees, micro-batch and recompute; 0: empty. */
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
	p4d_layout layout;      /* large, hence here rather than on every frame */
	p4d_search_entry *entry;
	size_t entries, room;
	bool grids;        /* --tp-grid: a layout must be built to know whether it works */
	bool any;          /* stop at the first layout that fits */
	bool one;          /* the caller wants only the fastest layout and those that tie with it */
	bool timed;        /* the cost model covers the GPU */
	bool discard;      /* do not examine layouts that cannot fit */
	bool lean;         /* counts.smallest is filled */
	bool equal_slices; /* the candidate has equal slices, because the fastest lengths do not fit */
	double least;      /* lower bound of the step time of the fastest layout that fits */
	double fastest;    /* least step time of the layouts that fit and were timed; infinite: none */
	double slack;      /* layouts that are slower by more than this factor are not examined */
	bool skipped;      /* a layout was not examined because of slack */
	unsigned sharing;  /* kind of sharding that is tried (search_sharding.c); 0: the least */
	double bound;      /* lower bound of the last candidate; 0: unknown */
	uint64_t split_pp, split_vpp; /* pp and vpp for which the trial's pipeline split was made */
	unsigned too_large; /* a bit for each recompute that was too large with a smaller micro-batch */
	/* by recompute: the micro-batch with which 1f1b was too large for the trial's degrees; 0: none was */
	uint64_t most_of_1f1b[P4D_RECOMPUTE_KEEP + 1];
	p4d_timeline_work work;
	p4d_cost_cache cache;
	p4d_plan_memo memo;
	p4d_search_floor floor[P4D_SEARCH_FLOORS];
	double capacity_bytes; /* 0 unknown */
	p4d_search_counts counts;
} p4d_search_enumeration;

/* search_enumerate.c */
void p4d_search_enumerate__start(p4d_search_enumeration *w, const p4d_request *request,
				 const p4d_search_space *space, double slack);
void p4d_search_enumerate__end(p4d_search_enumeration *w);
/* Tries every layout worth trying. */
void p4d_search_enumerate__all(p4d_search_enumeration *w);
/* Puts an entry's choices into the trial. */
void p4d_search_enumerate__back(p4d_search_enumeration *w, const p4d_search_entry *e);
static inline bool p4d_is_open(const p4d_search_enumeration *w, p4d_option option)
{
	return w->open[option];
}

/*
 * Iterates over the ways to spread experts. etp: shards of one expert (1, then divisors of tp). ep: ranks
 * with different experts (divisors of the number of experts). Starts with at->etp = 0; false after the last.
 * Models without experts have one way. ranks: ranks of a stage; 0: any number.
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

/* Subtracts units from the budget; false: it does not suffice. */
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
/* P4D_TOO_SLOW: the layout cannot be among the results; whether it fits was not checked. */
typedef enum p4d_search_outcome {
	P4D_NOT_DIVISIBLE,
	P4D_TOO_LARGE,
	P4D_FITS,
	P4D_TOO_SLOW
} p4d_search_outcome;
/* False when not even the states fit with the trial's degrees, whatever the schedule. */
bool p4d_search_prune__states_fit(p4d_search_enumeration *w, p4d_search_spread at);
/* Whether layouts with the trial's tp and cp may be among the results. */
bool p4d_search_prune__may_win(p4d_search_enumeration *w);
/* Tries the candidate, unless it is clear without building a layout that it does not fit or is too slow. */
p4d_search_outcome p4d_search_prune__try(p4d_search_enumeration *w);
/*
 * If the caller wants only the fastest layout: times the first layouts that fit. From then on the search
 * examines only layouts that may tie with them. Overwrites the trial.
 */
void p4d_search_prune__time(p4d_search_enumeration *w);

/* search_sharding.c */
/* Continues with the next kind of sharding; false: there is none, or none is needed. */
bool p4d_search_sharding__next(p4d_search_enumeration *w);
/* Chooses the shard-degree for this many dp*cp ranks; false: this kind of sharding has none for them. */
bool p4d_search_sharding__degrees(p4d_search_enumeration *w, uint64_t ranks);
/* Sets the sharding of the trial, if it is open. degree: 0: all ranks. */
void p4d_search_sharding__put(p4d_search_enumeration *w, int sharding, uint64_t degree);

/* search_candidate.c */
/*
 * Times an entry that only has a bound. Overwrites the candidate. If the budget does not suffice, the entry
 * keeps the bound. An entry that cannot be timed is never the fastest.
 */
void p4d_search_candidate__time(p4d_search_enumeration *w, p4d_search_entry *e);
/* Restores an entry as the candidate, with its layout. */
void p4d_search_candidate__revive(p4d_search_enumeration *w, const p4d_search_entry *e,
				  p4d_candidate *candidate);
/* Whether a layout whose step takes at least this long may be among the results. */
bool p4d_search_candidate__may_win(p4d_search_enumeration *w, double bound);

/* Evaluates the candidate. If it fits, it is stored. */
p4d_search_outcome p4d_search_candidate__try(p4d_search_enumeration *w);
/* p4d_cost_floor of the layout, with the faster cp-comm, for the whole batch. */
p4d_cost_least p4d_search_candidate__floor(p4d_search_enumeration *w);
