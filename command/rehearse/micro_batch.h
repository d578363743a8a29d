/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearsed.h"

/* Finds the largest micro-batch that fits, by rehearsing the program with other values of one of its
 * options. */

enum { P4D_MICRO_BATCH_TRIES = 10 };

typedef struct p4d_micro_batch_try {
	uint64_t value;
	uint64_t device; /* bytes that the rank needed; if the value does not fit, bytes that the rank had
			  * when memory ran out */
	bool fits;
} p4d_micro_batch_try;

typedef struct p4d_micro_batch {
	const char *option; /* name of the program's option; NULL: the user requested no search */
	unsigned tries;
	p4d_micro_batch_try tried[P4D_MICRO_BATCH_TRIES]; /* the tries, sorted by value */
	uint64_t largest;                                 /* the largest value that fits; 0: none */
	bool sure; /* the next larger value was tried and does not fit, or 1 does not fit */
} p4d_micro_batch;

/*
 * Tries values of an option that the program has as `option VALUE` or `option=VALUE`. rank: the result with
 * the value in the command. If a try fails for another reason than memory, the search ends. Errors: USAGE,
 * those of p4d_player__play.
 */
int p4d_micro_batch__find(p4d_micro_batch *m, const p4d_player *player, const p4d_rehearsed *rank,
			  p4d_error *err);
