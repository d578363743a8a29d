/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The pipeline schedules, X(ID, symbol, name): the option's value P4D_ID, the entry p4d_schedule__symbol in
 * schedule/kind_symbol.c, and what a user types. The order is only that of the help text.
 */
#define P4D_SCHEDULE_LIST(X) \
	X(GPIPE, gpipe, "gpipe") \
	X(1F1B, 1f1b, "1f1b") \
	X(INTERLEAVED, interleaved, "interleaved") \
	X(ZB1P, zb1p, "zb1p") \
	X(ZBV, zbv, "zbv") \
	X(V_HALF, v_half, "v-half")

#define P4D_SCHEDULE_ID(id, symbol, name) P4D_##id,
#define P4D_SCHEDULE_NAME(id, symbol, name) "|" name
enum {
	P4D_SCHEDULE_LIST(P4D_SCHEDULE_ID) P4D_SCHEDULES,
	/* the defaults: with one chunk per stage, with more */
	P4D_SCHEDULE_DEFAULT = P4D_1F1B,
	P4D_SCHEDULE_OF_CHUNKS = P4D_INTERLEAVED
};

struct p4d_schedule;
struct p4d_schedule_order;

/* The properties of a schedule. */
typedef struct p4d_schedule_kind {
	uint32_t chunks; /* vpp; 0: any number above 1. With more than one chunk it needs a pipeline */
	bool split;      /* weight gradients are separate passes from input gradients */
	bool v_shaped;   /* the second chunk runs back from the last stage to the first */
	bool in_groups;  /* runs groups of as many micro-batches as stages; the number must be a multiple */
	bool in_phases;  /* all forward passes, then all backward passes: the step time is a formula */
	bool vocabulary; /* supports the passes of vocabulary parallelism */
	bool slices;     /* may run slices of micro-batches (--token-slices) */

	uint8_t turn, rank; /* in the search: the order of trying; the rank where there is no step time */
	bool only_asked;    /* tried only on request: another is better in every way */
	bool idle_if_recomputed; /* not tried with full recompute, where it gains nothing */
	bool fuller; /* holds no less than 1f1b of as many stages, where layers are split evenly */
	/* Micro-batches that show the steady state: quarters * stages / 4 + more; 6 and 16 by default. About
	 * twice those of the warm-up and the cool-down; tests check that they suffice for every shape. */
	struct {
		uint32_t quarters, more;
	} steady;

	/* Adds the streams of a stage. */
	void (*order)(const struct p4d_schedule *s, uint32_t stage, struct p4d_schedule_order *order);
	/* p4d_schedule_slots; NULL where every stream has one pace: then they are counted from it. */
	struct p4d_slots (*slots)(const struct p4d_schedule *s, uint32_t stage);
	/* V-shaped: p4d_schedule_v_ends with many micro-batches. left: stages from this one to the last. */
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
