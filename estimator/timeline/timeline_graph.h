/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"
#include "timeline/timeline.h"

/*
 * The dependency graph of a step, without durations: a node ends at the later of (end of the node before it
 * on its stage) and (end of the node it needs, plus a lag), plus its cost. Nodes are in topological order.
 * Costs and lags are indices into a table, so that one graph serves all durations.
 *
 * In the steady state the graph repeats itself: node i of one period is node i + period of the next, and
 * waits for the same nodes one period later. A step with more micro-batches is the same graph with more
 * periods.
 */
typedef struct p4d_timeline_node {
	uint32_t before, needs; /* nodes; 0 is the start of the step */
	uint32_t cost, lag;
} p4d_timeline_node;

enum { P4D_LAG_NONE, P4D_LAG_SEND, P4D_LAG_SYNC, P4D_LAGS };

typedef struct p4d_timeline_graph {
	p4d_schedule schedule; /* with as many micro-batches as the graph has */
	uint32_t nodes;
	p4d_timeline_node *node; /* owned */
	uint32_t costs;          /* entries of a cost table */
	/* Periods: windows [body + k*period, body + (k+1)*period), k < windows; 0 when there are none. */
	uint32_t body, period, windows;
	uint32_t reach;         /* how many windows back the dependencies of a window, or of the end, reach */
	uint32_t micro_batches; /* in a period */
} p4d_timeline_graph;

/*
 * Builds the graph. Errors: NO_MEMORY; OVERFLOW above 2^31 nodes. graph->node is freed by the caller. Not for
 * a schedule in phases, which has no single steady state.
 */
int p4d_timeline_graph__build(const p4d_schedule *s, p4d_timeline_graph *graph, p4d_error *err);

/* Implementation: sets body, period, windows and reach. each: nodes of a micro-batch. */
void p4d_timeline_graph__find_periods(p4d_timeline_graph *graph, uint64_t each);

/* Nodes that all its micro-batches add to the graph of a schedule. */
uint64_t p4d_timeline_graph__nodes(const p4d_schedule *s);

/* Micro-batches with which a graph of this kind has several periods; a multiple of those of a period. */
uint32_t p4d_timeline_graph__enough(const p4d_schedule *s);

/* Entries of the cost table for passes of chunks, which come first. */
static inline uint32_t p4d_timeline_graph__passes(const p4d_schedule *s)
{
	return 3 * p4d_schedule_positions(s) * p4d_schedule_slices(s);
}

/*
 * The cost table: for every stage, chunk and slice forward, backward (or its first half) and backward weight,
 * with the receive before them; for every stage a gather, a reduce, the optimizer; the vocabulary passes in
 * the order of p4d_op; 0.
 */
uint32_t p4d_timeline_graph__cost_count(const p4d_schedule *s);
void p4d_timeline_graph__costs(const p4d_schedule *s, const p4d_durations *d, double *cost);

/* Busy seconds of all stages in the whole step. */
double p4d_timeline_graph__busy(const p4d_schedule *s, const double *cost);

/*
 * The step of a schedule in phases, for which there is a formula: a flow shop with constant times and
 * unlimited buffers; for slices, whose times differ, pass by pass. Takes the cost table. Errors: NO_MEMORY;
 * OVERFLOW if the budget is too small.
 */
int p4d_timeline_gpipe__seconds(const p4d_schedule *s, double send, const double *cost, uint64_t *budget,
				double *seconds, p4d_error *err);
