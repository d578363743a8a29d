/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/wide.h"
#include "timeline/timeline_graph.h"

/*
 * The time at which the forward passes of a stage are done. m passes go one after the other through all
 * stages up to this one. For each of these stages there is a lower bound: the first pass starts when the
 * stage has gathered its parameters, goes through the stages from there on, and then the slowest of them runs
 * the other m-1 passes. The result is the maximum of these bounds.
 */
static double forward_end(const p4d_schedule *s, double send, const double *cost, uint32_t stage)
{
	const double *gather = cost + 3 * s->stages;
	double way = -send, slowest = 0, end = 0;

	for (uint32_t from = stage + 1; from-- > 0;) {
		way += send + cost[3 * from];
		slowest = P4D_MOST(slowest, cost[3 * from]);
		end = P4D_MOST(end, gather[3 * from] + way + (s->micro_batches - 1) * slowest);
	}
	return end;
}

/*
 * Seconds of a step with whole sequences: the backward passes run in the other direction, and each stage
 * starts them when its forward passes are done.
 */
static double seconds_of_whole(const p4d_schedule *s, double send, const double *cost)
{
	const double *once = cost + 3 * s->stages;
	double seconds = 0;

	for (uint32_t from = 0; from < s->stages; from++) {
		double begin = forward_end(s, send, cost, from), way = -send, slowest = 0;
		for (uint32_t stage = from + 1; stage-- > 0;) {
			way += send + cost[3 * stage + 1];
			slowest = P4D_MOST(slowest, cost[3 * stage + 1]);
			double end = begin + way + (s->micro_batches - 1) * slowest;
			seconds = P4D_MOST(seconds, end + once[3 * stage + 1] + once[3 * stage + 2]);
		}
	}
	return seconds;
}

/* ---- slices ---- */

/* Cost of a pass of a slice: op 0 forward, 1 backward. */
static double slice_cost(const p4d_schedule *s, const double *cost, uint32_t stage, uint32_t slice,
			 unsigned op)
{
	return cost[3 * (stage * p4d_schedule_slices(s) + slice) + op];
}

/* Times at which each stage has run this many slices forward, and then backward. */
static void run_slices(const p4d_schedule *s, double send, const double *cost, uint32_t count, double *clock)
{
	const double *once = cost + p4d_timeline_graph__passes(s);
	const uint32_t slices = p4d_schedule_slices(s);

	for (uint32_t stage = 0; stage < s->stages; stage++)
		clock[stage] = once[3 * stage];
	for (uint32_t i = 0; i < count; i++) {
		double arrives = 0;
		for (uint32_t stage = 0; stage < s->stages; stage++) {
			clock[stage] =
			    P4D_MOST(clock[stage], arrives) + slice_cost(s, cost, stage, i % slices, 0);
			arrives = clock[stage] + send;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		double arrives = 0;
		for (uint32_t stage = s->stages; stage-- > 0;) {
			clock[stage] = P4D_MOST(clock[stage], arrives) +
				       slice_cost(s, cost, stage, slices - 1 - i % slices, 1);
			arrives = clock[stage] + send;
		}
	}
}

/*
 * Seconds that one more micro-batch adds if there are many: the slowest stage's forward pass plus the slowest
 * stage's backward pass.
 */
static double pace_of(const p4d_schedule *s, const double *cost)
{
	double slowest[2] = {0, 0};

	for (uint32_t stage = 0; stage < s->stages; stage++) {
		double sum[2] = {0, 0};
		for (uint32_t slice = 0; slice < p4d_schedule_slices(s); slice++) {
			sum[0] += slice_cost(s, cost, stage, slice, 0);
			sum[1] += slice_cost(s, cost, stage, slice, 1);
		}
		slowest[0] = P4D_MOST(slowest[0], sum[0]);
		slowest[1] = P4D_MOST(slowest[1], sum[1]);
	}
	return slowest[0] + slowest[1];
}

/* Number of passes that are computed one by one; later ones continue at the same pace. */
enum { MOST_PASSES = 1 << 24 };

static int seconds_of_slices(const p4d_schedule *s, double send, const double *cost, uint64_t *budget,
			     double *seconds, p4d_error *err)
{
	const double *once = cost + p4d_timeline_graph__passes(s);
	const uint32_t slices = p4d_schedule_slices(s), most = MOST_PASSES / s->stages / slices * slices;
	const uint32_t count = s->micro_batches < most ? s->micro_batches : most;
	const uint64_t passes = (uint64_t)count * s->stages;
	double *clock;

	if (budget && *budget < passes)
		return p4d_fail(err, P4D_E_OVERFLOW,
				"a timeline of %" PRIu64 " passes takes too long to simulate", 2 * passes);
	if (budget)
		*budget -= passes;
	clock = malloc(s->stages * sizeof(*clock));
	if (!clock)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline");
	run_slices(s, send, cost, count, clock);
	*seconds = 0;
	for (uint32_t stage = 0; stage < s->stages; stage++)
		*seconds = P4D_MOST(*seconds, clock[stage] + once[3 * stage + 1] + once[3 * stage + 2]);
	*seconds += (s->micro_batches - count) / slices * pace_of(s, cost);
	free(clock);
	return 0;
}

int p4d_timeline_gpipe__seconds(const p4d_schedule *s, double send, const double *cost, uint64_t *budget,
				double *seconds, p4d_error *err)
{
	if (p4d_schedule_slices(s) > 1)
		return seconds_of_slices(s, send, cost, budget, seconds, err);
	*seconds = seconds_of_whole(s, send, cost);
	return 0;
}
