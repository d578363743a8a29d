/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Slurm's lists of hosts, "h1,gpu[01-16,20],r[1-2]n[1-4]", read in place: nothing is allocated, and the work
 * is bounded whatever the text.
 */

/* The hosts that a list names; 0: none, or too many to be the nodes of a job (more than 65,536, or 64 KiB).
 */
uint32_t p4d_hostlist__count(const char *list);

/*
 * The first hosts of a list in Slurm's order, which a job of fewer tasks than hosts gets. NULL: no memory, or
 * too many to find out. The caller frees it.
 */
char *p4d_hostlist__first(const char *list, uint32_t count);

/*
 * Comparisons subtract about as many nanoseconds from *budget as they take. A few thousand hosts need less
 * than this. With 0 left, comparisons answer without comparing.
 */
enum { P4D_HOSTLIST_BUDGET = 1 << 17 };

/* True if some host of a is in b; also true if the budget is spent. */
bool p4d_hostlist__overlap(const char *a, const char *b, uint32_t *budget);

/* True if every host of a is in b; false if the budget is spent. */
bool p4d_hostlist__within(const char *a, const char *b, uint32_t *budget);

/* How many hosts of a list are in none of the others; all of them if it would take too long to find out. */
uint32_t p4d_hostlist__count_outside(const char *list, const char *const *others, size_t count,
				     uint32_t *budget);
