/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cost/cost_internal.h"
#include "request/framework.h"
#include "search/search.h"
#include "timeline/timeline.h"

/* Inside the search; for search*.c only. */

/* Step times up to this ratio are a tie: the cost model is not exact to a percent. */
#define P4D_SEARCH_TIE 1.015

/* The search's choices for a layout that fits. */
typedef struct p4d_search_entry {
	uint16_t tp, cp, pp, vpp, ep, etp;
	uint32_t micro_batch;
	uint8_t slices;
	bool equal_slices; /* else as long as is fastest */
	uint8_t recompute, schedule, vocab_parallel, cp_comm, sharding;
	uint32_t shard_degree; /* as the layout has it */
	uint16_t memory_step;  /* its memory, coarse */
	uint8_t kinds;         /* of tp, cp, pp, vpp, ep, etp and slices, how many are in use */
	bool unsafe, pipeline_empty;
	bool timed, cut; /* cut: the budget did not suffice for it */
	double seconds;  /* of the step; until it is timed, a lower bound; 0 unknown */
	double bubble_fraction;
	uint64_t device_bytes;
} p4d_search_entry;

/* A floor that was worked out (search_prune.c). key: degrees, micro-batch and recompute; 0: empty. */
typedef struct p4d_search_floor {
	uint64_t key, vocab;
	p4d_cost_least seconds;
} p4d_search_floor;

enum { P4D_SEARCH_FLOOR_BITS = 7, P4D_SEARCH_FLOORS = 1 << P4D_SEARCH_FLOOR_BITS };

/* The enumeration of all candidates of one request; nested loops fill `trial`, outermost first. */
typedef struct p4d_search_enumeration {
	const p4d_request *asked;
	const p4d_search_space *space;
	p4d_request trial;      /* complete but for what follows from the degrees */
	bool open[P4D_OPTIONS]; /* options that the search may choose: not asked for, nor the framework's only
				 */
	bool complete;          /* false: no layout is possible */
	p4d_layout layout;      /* large, hence here rather than on every frame */
	p4d_search_entry *entry;
	size_t entries, room;
	bool grids;                   /* --tp-grid: little is known of a layout before it is built */
	bool any;                     /* stop at the first that fits */
	bool one;                     /* only the fastest is asked for, and what ties with it */
	bool timed;                   /* the cost model covers the GPU */
	bool discard;                 /* what cannot fit is not examined in detail */
	bool lean;                    /* counts.smallest is filled */
	bool equal_slices;            /* of the candidate: the fastest lengths do not fit */
	double least;                 /* lower bound of the step of the fastest that fits */
	double fastest;               /* step of one that fits and was timed; infinite: none */
	double slack;                 /* what is slower by more is not examined, and */
	bool skipped;                 /* something was not */
	unsigned sharing;             /* which kind of sharing is tried (search_sharding.c); 0: the least */
	double bound;                 /* of the last candidate; 0 unknown */
	uint64_t split_pp, split_vpp; /* what the trial's pipeline split is for */
	unsigned too_large;           /* a bit for each recompute that was, with a smaller micro-batch */
	/* by recompute, the micro-batch with which 1f1b of the trial's degrees was too large; 0: none was */
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
 * Ways to spread experts, in order: shards of one (1, then what divides tp), and of all ranks of a stage
 * those that hold different ones (what divides experts). Starts with etp = 0; false after the last. One for
 * models without. ranks: of a stage; 0: any number.
 */
typedef struct p4d_search_spread {
	uint64_t ep, etp;
} p4d_search_spread;
bool p4d_search_enumerate__spread(const p4d_search_enumeration *w, uint64_t ranks, p4d_search_spread *at);

/* Nothing is left to search with. */
static inline bool p4d_search__is_spent(const p4d_search_space *space)
{
	return space->budget && !space->budget->left;
}

/* Takes units off the budget; false: nothing is left. */
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
/* P4D_TOO_SLOW: not among those that are asked for; whether it fits was not checked. */
typedef enum p4d_search_outcome {
	P4D_NOT_DIVISIBLE,
	P4D_TOO_LARGE,
	P4D_FITS,
	P4D_TOO_SLOW
} p4d_search_outcome;
/* False when not even the states fit with the trial's degrees, whatever the schedule. */
bool p4d_search_prune__states_fit(p4d_search_enumeration *w, p4d_search_spread at);
/* Whether layouts with the trial's tp and cp may be among those that are asked for. */
bool p4d_search_prune__may_win(p4d_search_enumeration *w);
/* The candidate, unless it is known without a layout that it does not fit or is too slow. */
p4d_search_outcome p4d_search_prune__try(p4d_search_enumeration *w);
/*
 * Where only the fastest is asked for, the first that fit show what a step takes, and only what may tie with
 * that is looked at from then on. The trial is lost.
 */
void p4d_search_prune__time(p4d_search_enumeration *w);

/* search_sharding.c */
/* Goes on to the next kind of sharing; false: there is none, or none is needed. */
bool p4d_search_sharding__next(p4d_search_enumeration *w);
/* Chooses the shard-degree of so many dp*cp ranks; false: this kind of sharing has none there. */
bool p4d_search_sharding__degrees(p4d_search_enumeration *w, uint64_t ranks);
/* Puts it into the trial, where it is open. degree: 0: all ranks. */
void p4d_search_sharding__put(p4d_search_enumeration *w, int sharding, uint64_t degree);

/* search_candidate.c */
/*
 * Times an entry that only has a bound; the candidate is lost. Where the budget does not suffice it keeps the
 * bound; one that cannot be timed is never the fastest.
 */
void p4d_search_candidate__time(p4d_search_enumeration *w, p4d_search_entry *e);
/* Restores an entry as the candidate, with its layout. */
void p4d_search_candidate__revive(p4d_search_enumeration *w, const p4d_search_entry *e,
				  p4d_candidate *candidate);
/* Whether a layout whose step takes at least this long may be among those that are asked for. */
bool p4d_search_candidate__may_win(p4d_search_enumeration *w, double bound);

/* Evaluates the candidate. If it fits, it is stored. */
p4d_search_outcome p4d_search_candidate__try(p4d_search_enumeration *w);
/* p4d_cost_floor of the layout, with the faster cp-comm, for the whole batch. */
p4d_cost_least p4d_search_candidate__floor(p4d_search_enumeration *w);
