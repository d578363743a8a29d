/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"
#include "timeline/timeline.h"

/*
 * The dependency graph of a step, without durations. A node starts at the later of two times: the end of the
 * previous node on its stage, and the end of the node that it depends on plus a lag. It ends after its cost.
 * Nodes are in topological order. Costs and lags are indices into a table, so one graph serves all durations.
 *
 * In the steady state the graph is periodic: node i of one period is node i + period of the next, with the
 * same dependencies one period later. A step with more micro-batches is the same graph with more periods.
 */
typedef struct p4d_timeline_node {
	uint32_t before, needs; /* indices of nodes; node 0 is the start of the step */
	uint32_t cost, lag;
} p4d_timeline_node;

enum { P4D_LAG_NONE, P4D_LAG_SEND, P4D_LAG_SYNC, P4D_LAGS };

typedef struct p4d_timeline_graph {
	p4d_schedule schedule; /* with as many micro-batches as the graph has */
	bool paired;           /* passes without a partner have costs of their own */
	uint32_t nodes;
	p4d_timeline_node *node; /* owned */
	uint32_t costs;          /* number of entries of a cost table */
	/* Periods: windows [body + k*period, body + (k+1)*period), k < windows. windows is 0 if there are
	 * none. */
	uint32_t body, period, windows;
	uint32_t reach;         /* number of earlier windows on which the nodes of a window, or of the
				 * end, depend */
	uint32_t micro_batches; /* micro-batches in a period */
} p4d_timeline_graph;

/*
 * Builds the graph. Errors: NO_MEMORY; OVERFLOW above 2^31 nodes. The caller frees graph->node. Not for a
 * schedule in phases, which has no single steady state.
 */
int p4d_timeline_graph__build(const p4d_schedule *s, bool paired, p4d_timeline_graph *graph, p4d_error *err);

/* Implementation: sets body, period, windows and reach. each: number of nodes of a micro-batch. */
void p4d_timeline_graph__find_periods(p4d_timeline_graph *graph, uint64_t each);

/* Number of nodes that each micro-batch adds to the graph of a schedule, in all stages together. */
uint64_t p4d_timeline_graph__nodes(const p4d_schedule *s);

/*
 * Number of micro-batches with which a graph of this kind has several periods; a multiple of the
 * micro-batches of a period.
 */
uint32_t p4d_timeline_graph__enough(const p4d_schedule *s);

/* Entries of the cost table for the passes of chunks, which come first in the table. */
static inline uint32_t p4d_timeline_graph__passes(const p4d_schedule *s)
{
	return 3 * p4d_schedule_positions(s) * p4d_schedule_slices(s);
}

/*
 * Number of entries of the cost table. The entries are, in this order: for every stage, chunk and slice:
 * forward, backward (or its first half) and backward weight, each with the receive before it. For every
 * stage: gather, reduce, optimizer. Then the vocabulary passes in the order of p4d_op, and 0. With durations
 * of passes without a partner (paired): for every stage, chunk and slice such a forward pass, such a backward
 * pass, and in crosswise schedules a backward pass with a forward pass of the other chunk.
 */
uint32_t p4d_timeline_graph__cost_count(const p4d_schedule *s, bool paired);
/* Fills the cost table. */
void p4d_timeline_graph__costs(const p4d_schedule *s, const p4d_durations *d, double *cost);

/* Busy seconds of all stages in the whole step. */
double p4d_timeline_graph__busy(const p4d_schedule *s, const double *cost);

/*
 * The step of a schedule in phases, by a formula: a flow shop with constant times and unlimited buffers. If
 * slices have different times, it goes pass by pass. Takes the cost table. Errors: NO_MEMORY; OVERFLOW if the
 * budget is too small.
 */
int p4d_timeline_gpipe__seconds(const p4d_schedule *s, double send, const double *cost, uint64_t *budget,
				double *seconds, p4d_error *err);
