/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Slurm's lists of hosts, such as "h1,gpu[01-16,20],r[1-2]n[1-4]". They are read in place: nothing is
 * allocated, and the work is bounded for any text.
 */

/* Number of hosts in a list. 0: none, or too many for the nodes of a job (more than 65,536 hosts, or 64
 * KiB). */
uint32_t p4d_hostlist__count(const char *list);

/*
 * The first hosts of a list in Slurm's order: the nodes of a job with fewer tasks than hosts. NULL: no
 * memory, or the list is too long. The caller frees the result.
 */
char *p4d_hostlist__first(const char *list, uint32_t count);

/*
 * Comparisons subtract their approximate nanoseconds from *budget. A comparison of a few thousand hosts needs
 * less than P4D_HOSTLIST_BUDGET. If nothing is left, comparisons return an answer without comparing.
 */
enum { P4D_HOSTLIST_BUDGET = 1 << 17 };

/* True if some host of a is in b; also true if the budget is spent. */
bool p4d_hostlist__overlap(const char *a, const char *b, uint32_t *budget);

/* True if every host of a is in b; false if the budget is spent. */
bool p4d_hostlist__within(const char *a, const char *b, uint32_t *budget);

/*
 * Number of hosts of a list that are in none of the others; all hosts of the list if the comparison would
 * take too long.
 */
uint32_t p4d_hostlist__count_outside(const char *list, const char *const *others, size_t count,
				     uint32_t *budget);
