/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/timeline_graph.h"

static double later(double a, double b)
{
	return a > b ? a : b;
}

/*
 * m passes go through stages from..to one after the other: started at `begin` on the first, they have left
 * the last when the first pass has gone through and the slowest stage has run the other m-1. The longest of
 * these paths, over all first stages, is when the last stage is done.
 */
static double forward_end(const p4d_schedule *s, double send, const double *cost, uint32_t stage)
{
	const double *gather = cost + 3 * s->stages;
	double way = -send, slowest = 0, end = 0;

	for (uint32_t from = stage + 1; from-- > 0;) {
		way += send + cost[3 * from];
		slowest = later(slowest, cost[3 * from]);
		end = later(end, gather[3 * from] + way + (s->micro_batches - 1) * slowest);
	}
	return end;
}

/* The same down the stages, each starting when its forward passes are done. */
double p4d_timeline_gpipe__seconds(const p4d_schedule *s, double send, const double *cost)
{
	const double *once = cost + 3 * s->stages;
	double seconds = 0;

	for (uint32_t from = 0; from < s->stages; from++) {
		double begin = forward_end(s, send, cost, from), way = -send, slowest = 0;
		for (uint32_t stage = from + 1; stage-- > 0;) {
			way += send + cost[3 * stage + 1];
			slowest = later(slowest, cost[3 * stage + 1]);
			double end = begin + way + (s->micro_batches - 1) * slowest;
			seconds = later(seconds, end + once[3 * stage + 1] + once[3 * stage + 2]);
		}
	}
	return seconds;
}
