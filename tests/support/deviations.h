/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Errors of predictions compared with measured rows, for groups of rows, and the largest errors. */
#include "support/support.h"

#include <math.h>

/* The errors of a group of rows, as shares of the measured values. */
typedef struct deviations {
	const char *what;
	double sum, worst;
	int rows;
} deviations;

static inline void deviations_count(deviations *s, double share)
{
	s->sum += fabs(share);
	s->worst = fmax(s->worst, fabs(share));
	s->rows++;
}

static inline void deviations_print(const deviations *s)
{
	if (s->rows)
		printf("%-24s %5d rows, mean %.3f %%, worst %.2f %%\n", s->what, s->rows,
		       100 * s->sum / s->rows, 100 * s->worst);
}

typedef struct deviation {
	double share, bytes;
	unsigned line;
} deviation;

static inline int deviation_larger(const void *a, const void *b)
{
	const double x = fabs(((const deviation *)a)->share), y = fabs(((const deviation *)b)->share);

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Sorts the deviations and prints the `most` largest. */
static inline void deviations_print_worst(deviation *of, int rows, int most)
{
	qsort(of, (size_t)rows, sizeof(*of), deviation_larger);
	for (int i = 0; i < rows && i < most; i++)
		printf("line %4u: %+6.2f %%, %+9.1f MiB\n", of[i].line, 100 * of[i].share,
		       of[i].bytes / (1 << 20));
}

/* Errors of a group of rows. In an array, the first entry without rows marks the end. `worst` keeps its
 * sign. */
typedef struct deviation_group {
	char name[128];
	double sum, worst;
	int rows;
	unsigned line;
} deviation_group;

/* groups: an array of `most` entries, which are zero at first. */
static inline void deviation_group_count(deviation_group *groups, int most, const char *name, unsigned line,
					 double share)
{
	deviation_group *g = groups;

	while (g->rows && strcmp(g->name, name))
		g++;
	assert_true(g < groups + most - 1);
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->rows++;
	g->sum += fabs(share);
	if (fabs(share) > fabs(g->worst)) {
		g->worst = share;
		g->line = line;
	}
}
