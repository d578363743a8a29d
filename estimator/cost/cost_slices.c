/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best lengths of a sequence's slices (--token-slices), by the dynamic program of TeraPipe (arXiv
 * 2102.07988, 3.3). A later slice attends to more tokens, so slices of equal length take longer and longer. A
 * step of m micro-batches takes m times the sum of the slices' times, plus p - 1 times the longest of them,
 * while the pipeline fills and drains. For each bound on the longest time, the program finds the cut with the
 * least sum.
 *
 * Slices end at multiples of a 128th of the sequence, or of steps (p4d_layout_slice_step) if there are fewer.
 * The time of a slice is that of one layer, forward and backward, and grows linearly with the number of
 * tokens before the slice.
 */
#include <math.h>
#include <string.h>

#include "cost/cost_internal.h"

enum { MOST_PLACES = 128, MOST_BOUNDS = 24 };

/* Ratio between successive bounds on the longest slice's time that the program tries. */
#define NEXT_BOUND 1.01

/*
 * The time of a slice that has `length` places (units of tokens, see above) and starts the sequence; and the
 * additional time for each place before the slice.
 */
typedef struct slice_times {
	uint32_t places;
	uint64_t tokens; /* number of tokens in a place */
	double base[MOST_PLACES + 1], slope[MOST_PLACES + 1];
} slice_times;

static double seconds_at(p4d_layout *one, const p4d_cost_rates *r, uint64_t begin, uint64_t length)
{
	one->slice_begin = begin;
	one->slice_len = length;
	const p4d_cost_passes y = p4d_cost__layer_passes(one, r, NULL);
	return y.forward + y.input + y.weight;
}

/*
 * How many steps (p4d_layout_slice_step) a place has: the smallest divisor of `steps` with which there are at
 * most MOST_PLACES places, but at least one place for each slice. 0: there is no such divisor, or it is more
 * than twice the smallest number of steps that a place must have.
 */
static uint64_t steps_of_place(uint64_t steps, uint64_t slices)
{
	const uint64_t fewest = (steps + MOST_PLACES - 1) / MOST_PLACES;

	for (uint64_t k = fewest; k && k <= 2 * fewest && steps / k >= slices; k++)
		if (steps % k == 0)
			return k;
	return 0;
}

static bool find_times(const p4d_layout *l, const p4d_gpu *gpu, slice_times *t)
{
	const uint64_t step = p4d_layout_slice_step(l),
		       together = steps_of_place(l->seq_len / step, l->slices);
	const p4d_cost_rates rates = p4d_cost__rates_of(l, gpu);
	p4d_layout one;

	if (!together || l->seq_len % step)
		return false;
	t->tokens = step * together;
	t->places = (uint32_t)(l->seq_len / t->tokens);
	memcpy(&one, l, sizeof(one));
	for (uint32_t i = 1; i <= t->places; i++) {
		const uint64_t length = i * t->tokens, behind = l->seq_len - length;
		t->base[i] = seconds_at(&one, &rates, 0, length);
		t->slope[i] = behind ? (seconds_at(&one, &rates, behind, length) - t->base[i]) /
					   (double)(behind / t->tokens)
				     : 0;
	}
	return true;
}

static double time_of(const slice_times *t, uint32_t begin, uint32_t end)
{
	return t->base[end - begin] + begin * t->slope[end - begin];
}

/*
 * The end of the longest slice that starts at `begin` and takes no longer than the bound; `begin` if there is
 * none.
 */
static uint32_t furthest(const slice_times *t, uint32_t begin, double bound)
{
	uint32_t end = begin;

	while (end < t->places && time_of(t, begin, end + 1) <= bound)
		end++;
	return end;
}

/* Whether this many slices within the bound reach the end of the sequence. */
static bool reaches(const slice_times *t, uint64_t slices, double bound)
{
	uint32_t at = 0;

	for (uint64_t i = 0; i < slices && at < t->places; i++)
		at = furthest(t, at, bound);
	return at == t->places;
}

/* The lowest bound with which this many slices reach the end of the sequence, exact to a thousandth. */
static double least_bound(const slice_times *t, uint64_t slices)
{
	double low = 0, high = time_of(t, 0, t->places);

	while (high - low > 1e-3 * high) {
		const double middle = (low + high) / 2;
		if (reaches(t, slices, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* A cut: the end of each slice, the sum of their times, and the longest time. */
typedef struct slice_cut {
	uint32_t end[P4D_MAX_SLICES];
	double sum, longest;
} slice_cut;

/* Dynamic programming: the cut into this many slices with the least sum, in which no slice takes longer
 * than the bound. */
static bool best_cut(const slice_times *t, uint32_t slices, double bound, slice_cut *cut)
{
	double sum[2][MOST_PLACES +
		      1]; /* least sum of times for the first slices, by the place where they end */
	uint8_t begin[P4D_MAX_SLICES][MOST_PLACES + 1];

	for (uint32_t end = 0; end <= t->places; end++)
		sum[0][end] = end ? HUGE_VAL : 0;
	for (uint32_t n = 0; n < slices; n++) {
		const double *before = sum[n % 2];
		double *after = sum[(n + 1) % 2];
		for (uint32_t end = 0; end <= t->places; end++)
			after[end] = HUGE_VAL;
		for (uint32_t from = n; from < t->places && from <= t->places - (slices - n); from++) {
			if (isinf(before[from]))
				continue;
			for (uint32_t end = from + 1; end <= t->places; end++) {
				const double seconds = time_of(t, from, end);
				if (seconds > bound)
					break;
				if (before[from] + seconds >= after[end])
					continue;
				after[end] = before[from] + seconds;
				begin[n][end] = (uint8_t)from;
			}
		}
	}
	cut->sum = sum[slices % 2][t->places];
	if (isinf(cut->sum))
		return false;
	cut->longest = 0;
	for (uint32_t n = slices, end = t->places; n-- > 0; end = begin[n][end]) {
		const double seconds = time_of(t, begin[n][end], end);
		cut->end[n] = end;
		cut->longest = seconds > cut->longest ? seconds : cut->longest;
	}
	return true;
}

static double step_of(const p4d_layout *l, const slice_cut *cut)
{
	return (double)l->micro_batches * cut->sum + (double)(l->pp - 1) * cut->longest;
}

/* The lengths of the slices with the fastest step; false: unknown. */
static bool find_slices(const p4d_layout *l, const p4d_gpu *gpu, uint32_t *lengths)
{
	const uint32_t slices = (uint32_t)l->slices;
	slice_cut best, cut;
	slice_times t;

	if (slices < 2 || !p4d_cost_known(l, gpu) || !find_times(l, gpu, &t) ||
	    !best_cut(&t, slices, HUGE_VAL, &best))
		return false;
	const double least_sum = best.sum;
	double bound = least_bound(&t, slices);
	for (int i = 0; i < MOST_BOUNDS && bound < best.longest; i++, bound *= NEXT_BOUND) {
		if ((double)l->micro_batches * least_sum + (double)(l->pp - 1) * bound >= step_of(l, &best))
			break; /* a cut whose longest slice takes longer cannot be better */
		if (best_cut(&t, slices, bound, &cut) && step_of(l, &cut) < step_of(l, &best))
			best = cut;
	}
	for (uint32_t i = 0; i < slices; i++)
		lengths[i] = (uint32_t)((best.end[i] - (i ? best.end[i - 1] : 0)) * t.tokens);
	return true;
}

void p4d_cost_choose_slices(p4d_request *request, p4d_layout *l, const p4d_gpu *gpu)
{
	uint32_t lengths[P4D_MAX_SLICES];

	if (l->slices == 1 || p4d_is_set(request, P4D_SLICE_LENGTHS) || !find_slices(l, gpu, lengths))
		return;
	p4d_layout_set_slices(l, lengths);
	p4d_layout_slices_text(lengths, l->slices, request->slice_lengths, sizeof(request->slice_lengths));
	p4d_request_put(request, P4D_SLICE_LENGTHS, 1, P4D_BY_P4D);
}
