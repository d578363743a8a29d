/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cost/cost_internal.h"
#include "search/search.h"
#include "timeline/timeline.h"

/* Inside the search; for search*.c only. */

/* A layout that fits, as far as the search chose it. */
typedef struct p4d_search_entry {
	uint16_t tp, cp, pp, vpp;
	uint32_t micro_batch;
	uint8_t recompute, schedule, vocab_parallel, cp_comm;
	double bound; /* seconds per sequence that it cannot beat; 0 unknown */
	uint64_t device_bytes;
} p4d_search_entry;

/* The walk over all candidates of one request; the loops below fill `trial` from outside in. */
typedef struct p4d_search_enumeration {
	const p4d_request *asked;
	const p4d_search_space *space;
	p4d_request trial; /* complete but for what follows from the degrees */
	bool complete;     /* or else nothing can be laid out */
	p4d_layout layout; /* large, hence here rather than on every frame */
	p4d_search_entry *entry;
	size_t entries, room;
	bool any;     /* stop at the first that fits */
	bool timed;   /* the clock knows the GPU */
	bool discard; /* what cannot fit is not looked at in detail */
	bool lean;    /* counts.leanest is filled */
	/* when only the fastest is wanted and nobody counts: the best so far, if count; else NULL */
	p4d_candidate *fastest;
	size_t count;
	double bound;       /* of the last that was P4D_TOO_SLOW */
	unsigned too_large; /* a bit for each recompute that was, with a smaller micro-batch */
	p4d_timeline_work work;
	p4d_cost_cache clock;
	double capacity_bytes; /* 0 unknown */
	p4d_search_counts counts;
} p4d_search_enumeration;

/* search_enumerate.c */
void p4d_search_enumerate__start(p4d_search_enumeration *w, const p4d_request *request,
				 const p4d_search_space *space);
/* Tries every layout that is worth it. */
void p4d_search_enumerate__all(p4d_search_enumeration *w);
/* What an entry proposed becomes the trial again. */
void p4d_search_enumerate__back(p4d_search_enumeration *w, const p4d_search_entry *e);
static inline bool p4d_is_open(const p4d_search_enumeration *w, p4d_option option)
{
	return !p4d_is_set(w->asked, option);
}

/* search_candidate.c */
/* P4D_TOO_SLOW: cannot beat what was found; whether it fits was not asked. */
typedef enum p4d_search_outcome {
	P4D_NOT_DIVISIBLE,
	P4D_TOO_LARGE,
	P4D_FITS,
	P4D_TOO_SLOW
} p4d_search_outcome;

/* Judges the trial. What fits is remembered or, where only the fastest is wanted, timed. */
p4d_search_outcome p4d_search_candidate__try(p4d_search_enumeration *w);
/* Completes the trial and lays it out. Of the two ways to keys and values of other ranks takes the faster. */
bool p4d_search_candidate__build(p4d_search_enumeration *w);
/* p4d_cost_floor of the layout, by the faster way. */
double p4d_search_candidate__floor(p4d_search_enumeration *w);
/* The other way. */
void p4d_search_candidate__set_cp_comm(p4d_search_enumeration *w, int cp_comm);
/* The trial as a candidate that is not timed. */
void p4d_search_candidate__fill(const p4d_search_enumeration *w, uint64_t device_bytes,
				p4d_candidate *candidate);

/* search.c. Batches may differ where the user left the batch open, so time counts per sequence. */
double p4d_search__per_sequence(const p4d_candidate *candidate);
