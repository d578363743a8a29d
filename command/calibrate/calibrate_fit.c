/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the margin of a group: a reserve in GiB and a share of the allocated memory, in addition to p4d's
 * own constants. With the margin, 95 of 100 new measurements are expected to be at most the prediction. No
 * margin makes p4d refuse a job that ran, and none is below p4d's own constants.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "calibrate/calibrate_internal.h"

static const double QUANTILE = 0.95;
/* A margin can explain that a job ran out of memory if the prediction lacks at most this share of the GPU. */
static const double REACH = 0.10;

/* Additions to p4d's own constants. */
typedef struct extra {
	double reserve; /* GiB */
	double share;   /* share of the allocated memory */
} extra;

static double more(const p4d_calibrate_row *row, extra x)
{
	return x.reserve + x.share * row->allocated;
}

static bool is_measured(const p4d_calibrate_row *row)
{
	return !row->measured.oom && !row->censored;
}

/* Sorts the values and returns their one-sided 95 % bound, for n >= 19: with at least 95 % probability, a
 * new value is not above it. */
static double bound_of(double *value, size_t n)
{
	const size_t k = (size_t)ceil(QUANTILE * ((double)n + 1));

	qsort(value, n, sizeof(*value), p4d_number_order);
	return value[(k < n ? k : n) - 1];
}

/* The rows of a group. */
typedef struct members {
	const p4d_calibrate_row **row; /* owned */
	double *value;                 /* scratch array with an element for each row; owned */
	size_t count;
} members;

/*
 * Returns bound_of for measurement minus prediction, in GiB, if predictions include the margin x.
 * *covered: the share of measured rows whose measurement is at most the prediction. Both are 0 if no row
 * is measured.
 */
static double bound_with(const members *m, extra x, double *covered)
{
	size_t n = 0, within = 0;

	for (size_t i = 0; i < m->count; i++)
		if (is_measured(m->row[i])) {
			m->value[n] = m->row[i]->residual - more(m->row[i], x);
			within += m->value[n++] <= 1e-9;
		}
	*covered = n ? (double)within / (double)n : 0;
	return n ? bound_of(m->value, n) : 0;
}

/* Slope of the residual over the allocated memory, by least squares; 0 if the sizes hardly differ. */
static double slope_of(const members *m)
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0;

	for (size_t i = 0; i < m->count; i++) {
		const p4d_calibrate_row *row = m->row[i];
		if (!is_measured(row))
			continue;
		n++;
		x += row->allocated;
		y += row->residual;
		xx += row->allocated * row->allocated;
		xy += row->allocated * row->residual;
	}
	const double spread = n ? xx / n - x / n * (x / n) : 0;
	if (!n || spread < 0.01 * (x / n) * (x / n))
		return 0;
	return (xy / n - x / n * (y / n)) / spread;
}

static double up(double value, double unit)
{
	return ceil(value / unit - 1e-9) * unit;
}

static double down(double value, double unit)
{
	return floor(value / unit + 1e-9) * unit;
}

enum { PER_GIB = 100, PER_SHARE = 1000 }; /* rounded to the digits that p4d.conf has */

/* The smallest margin that reaches the bound. Its share of allocated memory is the slope of the rows. */
static extra covering(const members *m)
{
	extra x = {0, slope_of(m)};
	double covered;

	x.share = x.share > 0 ? up(fmin(x.share, 1), 1.0 / PER_SHARE) : 0;
	x.reserve = bound_with(m, x, &covered);
	if (x.reserve < 0 && x.share > 0) {
		/* if the share alone exceeds the bound, a smaller share is enough */
		size_t n = 0;
		for (size_t i = 0; i < m->count; i++)
			if (is_measured(m->row[i]) && m->row[i]->allocated > 0)
				m->value[n++] = m->row[i]->residual / m->row[i]->allocated;
		x.share = n ? up(fmax(bound_of(m->value, n), 0), 1.0 / PER_SHARE) : 0;
	}
	x.reserve = x.reserve > 0 ? up(x.reserve, 1.0 / PER_GIB) : 0;
	return x;
}

/* The memory that p4d compares with the limit. For frameworks on PyTorch, it has no fragmentation. */
static double needed(const p4d_calibrate_row *row, extra x)
{
	return row->fragments_freely ? row->device - row->fragmentation + x.reserve
				     : row->device + more(row, x);
}

static bool is_refused(const p4d_calibrate_row *row, extra x)
{
	return needed(row, x) > row->limit * row->capacity;
}

static bool passes(const p4d_calibrate_row *row, extra x)
{
	return row->device + more(row, x) <= row->safe * row->capacity;
}

/*
 * Lowers a margin until no job that ran is refused because of it. Returns the job that required this; NULL:
 * the margin was low enough.
 */
static const p4d_calibrate_row *hold(const members *m, extra *x)
{
	const p4d_calibrate_row *held = NULL;
	const extra own = {0, 0};

	for (size_t i = 0; i < m->count; i++) {
		const p4d_calibrate_row *row = m->row[i];
		if (row->measured.oom || is_refused(row, own) || !is_refused(row, *x))
			continue;
		held = row;
		const double room = row->limit * row->capacity - needed(row, own);
		if (!row->fragments_freely && x->share * row->allocated > room)
			x->share = down(room / row->allocated, 1.0 / PER_SHARE);
		const double rest = room - (row->fragments_freely ? 0 : x->share * row->allocated);
		if (x->reserve > rest)
			x->reserve = down(fmax(rest, 0), 1.0 / PER_GIB);
	}
	return held;
}

/* Raises a margin until p4d would have warned about each job near the limit that ran out of memory. */
static void reach_deaths(const members *m, extra *x)
{
	for (size_t i = 0; i < m->count; i++) {
		const p4d_calibrate_row *row = m->row[i];
		const double lacks = row->safe * row->capacity - row->device - more(row, *x);
		if (row->measured.oom && lacks >= 0 && lacks <= REACH * row->capacity)
			x->reserve = up(x->reserve + lacks + 0.5 / PER_GIB, 1.0 / PER_GIB);
	}
}

/* Adds a word to a list, once. */
static void add_word(char *list, size_t size, const char *word)
{
	const size_t length = strlen(list);
	const char *at = strstr(list, word);

	if (*word && !at && length + strlen(word) + 3 < size)
		snprintf(list + length, size - length, "%s%s", length ? ", " : "", word);
}

static void describe(const members *m, p4d_calibrate_fit *fit)
{
	for (size_t i = 0; i < m->count; i++) {
		const p4d_measured *row = &m->row[i]->measured;
		fit->measured += is_measured(m->row[i]);
		fit->censored += m->row[i]->censored;
		fit->deaths += row->oom;
		add_word(fit->slurm, sizeof(fit->slurm), row->slurm);
		add_word(fit->driver, sizeof(fit->driver), row->driver);
		if (*row->date && (!*fit->first || strcmp(row->date, fit->first) < 0))
			snprintf(fit->first, sizeof(fit->first), "%s", row->date);
		if (strcmp(row->date, fit->last) > 0)
			snprintf(fit->last, sizeof(fit->last), "%s", row->date);
	}
	fit->enough = fit->measured >= P4D_CALIBRATE_LEAST;
}

static void fit_members(const members *m, const p4d_calibrate_group *g, p4d_calibrate_fit *fit)
{
	const extra own = {0, 0}, in_force = {g->reserve_in_force - g->reserve_own,
					      g->fragmentation_in_force - g->fragmentation_own};
	extra x = own;

	describe(m, fit);
	fit->bound_own = bound_with(m, own, &fit->covered_own);
	fit->bound_in_force = bound_with(m, in_force, &fit->covered_in_force);
	if (fit->enough) {
		x = covering(m);
		reach_deaths(m, &x);
		fit->held = hold(m, &x);
	}
	fit->bound = bound_with(m, x, &fit->covered);
	fit->reserve_gib = g->reserve_own + x.reserve;
	fit->fragmentation = g->fragmentation_own + x.share;
	fit->raised = x.reserve > 0 || x.share > 0;
	for (size_t i = 0; i < m->count; i++)
		fit->passed += m->row[i]->measured.oom && passes(m->row[i], x);
}

int p4d_calibrate__fit(const p4d_calibrate *all, size_t group, p4d_error *err)
{
	p4d_calibrate_group *g = &all->group[group];
	members m = {.row = calloc(all->count, sizeof(const p4d_calibrate_row *)),
		     .value = calloc(all->count, sizeof(double))};

	if (!m.row || !m.value) {
		free(m.row);
		free(m.value);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu rows", all->count);
	}
	for (size_t i = 0; i < all->count; i++)
		if (all->row[i].group == group)
			m.row[m.count++] = &all->row[i];
	g->fit = (p4d_calibrate_fit){.enough = false};
	fit_members(&m, g, &g->fit);
	free(m.row);
	free(m.value);
	return 0;
}
