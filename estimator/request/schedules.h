/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The pipeline schedules, X(ID, symbol, name): P4D_ID is the option's value, p4d_schedule__symbol in
 * schedule/kind_symbol.c its entry, and name what users type. The order of this list affects only the help
 * text.
 */
#define P4D_SCHEDULE_LIST(X) \
	X(GPIPE, gpipe, "gpipe") \
	X(1F1B, 1f1b, "1f1b") \
	X(INTERLEAVED, interleaved, "interleaved") \
	X(ZB1P, zb1p, "zb1p") \
	X(ZBV, zbv, "zbv") \
	X(V_HALF, v_half, "v-half") \
	X(DUALPIPE_V, dualpipe_v, "dualpipe-v")

#define P4D_SCHEDULE_ID(id, symbol, name) P4D_##id,
#define P4D_SCHEDULE_NAME(id, symbol, name) "|" name
enum {
	P4D_SCHEDULE_LIST(P4D_SCHEDULE_ID) P4D_SCHEDULES,
	/* defaults: for one chunk per stage, and for several chunks */
	P4D_SCHEDULE_DEFAULT = P4D_1F1B,
	P4D_SCHEDULE_OF_CHUNKS = P4D_INTERLEAVED
};

struct p4d_schedule;
struct p4d_schedule_order;

/* The properties of a schedule. */
typedef struct p4d_schedule_kind {
	uint32_t chunks; /* vpp; 0: any number above 1. Schedules with several chunks need a pipeline */
	bool split;      /* weight gradients are computed in separate passes */
	bool v_shaped;   /* the second chunk runs back from the last stage to the first */
	bool crosswise;  /* has two chunks; passes of different chunks run at the same time if they exchange
			    tokens */
	bool in_groups;  /* runs groups of as many micro-batches as there are stages, so the number of
			    micro-batches must be a multiple of the stages */
	bool in_phases;  /* all forward passes, then all backward passes: the step time is a formula */
	bool vocabulary; /* supports the passes of vocabulary parallelism */
	bool slices;     /* may run slices of micro-batches (--token-slices) */

	uint8_t turn, rank; /* for the search. turn: it tries schedules with lower values first. rank: the
			       order of schedules whose step time is unknown */
	bool only_asked;    /* tried only on request: another schedule is always better, or only an
			     * extension of a program has it */
	bool idle_if_recomputed; /* not tried with full recompute, where it has no advantage */
	bool fuller; /* needs at least as much memory as 1f1b with the same number of stages, if layers are
			split evenly */
	/* Number of micro-batches that shows the steady state: quarters * stages / 4 + more; 6 and 16 by
	 * default. It is about twice the warm-up and cool-down; tests check that it suffices for every
	 * shape. */
	struct {
		uint32_t quarters, more;
	} steady;

	/* Adds the streams of a stage. */
	void (*order)(const struct p4d_schedule *s, uint32_t stage, struct p4d_schedule_order *order);
	/* p4d_schedule_slots; NULL if every stream has one pace: slots then follow from that pace */
	struct p4d_slots (*slots)(const struct p4d_schedule *s, uint32_t stage);
	/* V-shaped: p4d_schedule_v_ends with many micro-batches. left: number of stages from this one to
	 * the last. */
	struct p4d_v_ends (*ends)(uint32_t left);
} p4d_schedule_kind;

extern const p4d_schedule_kind *const p4d_schedule_kinds[P4D_SCHEDULES];

static inline bool p4d_is_v_shaped(int schedule)
{
	return p4d_schedule_kinds[schedule]->v_shaped;
}

static inline bool p4d_is_split(int schedule)
{
	return p4d_schedule_kinds[schedule]->split;
}
