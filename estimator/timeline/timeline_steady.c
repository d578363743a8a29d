/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/timeline.h"
#include "timeline/timeline_graph.h"

/*
 * The step time of many micro-batches, from the graph of a few. In its steady state, a step repeats the same
 * window of nodes. After some windows, every node of a window ends later than in the previous window by the
 * same amount as in the window before. If all nodes advance at one pace, this continues without end. If some
 * nodes advance more slowly than others, it continues until one of them begins to wait for a different node.
 * That moment can be computed, so the windows until then are skipped, and simulation resumes there.
 */

enum {
	SHAPES = 24,            /* maximum number of cached graphs */
	MEMORY_KEPT = 24 << 20, /* maximum bytes of cached graphs, unless a single one is larger */
	USUAL_ROUNDS = 4,       /* rounds that are not counted against a search's budget */
	TO_BUILD = 12,          /* cost of building a node, in units of two simulated nodes */
	MOST_ROUNDS =
	    64, /* maximum number of rounds of simulating and skipping; after that the mean pace is used */
};

typedef struct graph_shape {
	p4d_timeline_graph graph;
	double *end; /* end time of each node; owned */
	size_t bytes;
	uint64_t used; /* time of the last use, in units of cache.now */
} graph_shape;

typedef struct cache {
	uint64_t now;
	unsigned shapes;
	graph_shape shape[SHAPES];
	double *cost; /* owned */
	size_t costs;
} cache;

/* A graph with its durations. */
typedef struct steady_runner {
	const p4d_timeline_graph *g;
	double *end, *pace;
	const double *cost;
	double lag[P4D_LAGS];
} steady_runner;

static void simulate(const steady_runner *x, uint32_t from, uint32_t to)
{
	const p4d_timeline_node *node = x->g->node;
	double *end = x->end;

	for (uint32_t i = from; i < to; i++) {
		double before = end[node[i].before], data = end[node[i].needs] + x->lag[node[i].lag];
		end[i] = (data > before ? data : before) + x->cost[node[i].cost];
	}
}

static uint32_t window(const p4d_timeline_graph *g, uint32_t number)
{
	return g->body + number * g->period;
}

/* How much later node i ends than the same node `back` windows before. */
static double pace(const steady_runner *x, uint32_t i, uint32_t back)
{
	return x->end[i] - x->end[i - back * x->g->period];
}

/*
 * Whether the pace of every node in the last `back` windows equals its pace in the windows before, within the
 * tolerance.
 */
static bool is_linear(const steady_runner *x, uint32_t back, double tolerance)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t end = window(g, g->windows);

	for (uint32_t i = end - back * g->period; i < end; i++)
		if (fabs(pace(x, i, back) - pace(x, i - back * g->period, back)) > tolerance)
			return false;
	return true;
}

static bool is_uniform(const steady_runner *x, uint32_t back, double tolerance)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t end = window(g, g->windows);
	const double first = pace(x, end - 1, back);

	for (uint32_t i = end - back * g->period; i < end - 1; i++)
		if (fabs(pace(x, i, back) - first) > tolerance)
			return false;
	return true;
}

/*
 * The difference between the two times for which node i waits. Above 0: its own stage is later; below 0: the
 * node that it depends on.
 */
static double slack(const steady_runner *x, uint32_t i)
{
	const p4d_timeline_node *node = &x->g->node[i];

	return x->end[node->before] - (x->end[node->needs] + x->lag[node->lag]);
}

/* After how many repetitions of `back` windows, at this pace, some node begins to wait for a different
 * node. */
static double until_change(const steady_runner *x, uint32_t back, double tolerance)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t end = window(g, g->windows);
	double times = HUGE_VAL;

	for (uint32_t i = end - back * g->period; i < end; i++) {
		if (!g->node[i].needs || !g->node[i].before)
			continue;
		double now = slack(x, i), change = now - slack(x, i - back * g->period);
		if (fabs(change) > tolerance && (now > 0) != (change > 0) && fabs(now / change) < times)
			times = fabs(now / change);
	}
	return times;
}

/* Moves the end times of the last windows, to which later nodes refer, forward by `times` their pace. */
static void skip(const steady_runner *x, uint32_t back, double times)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t end = window(g, g->windows), stretch = back * g->period;
	const uint32_t keep = (g->reach > back ? g->reach : back) * g->period;

	for (uint32_t i = 0; i < stretch; i++)
		x->pace[i] = pace(x, end - stretch + i, back);
	/* from the last to the first, so that the end of the range reuses the last pace */
	for (uint32_t i = 0; i < keep; i++)
		x->end[end - 1 - i] += times * x->pace[stretch - 1 - i % stretch];
}

/* Simulates this many more windows, after shifting the last ones to make room. */
static void go_on(const steady_runner *x, uint32_t windows)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t from = window(g, g->windows - g->reach), to = from - windows * g->period;

	memmove(&x->end[to], &x->end[from], (size_t)g->reach * g->period * sizeof(*x->end));
	simulate(x, window(g, g->windows - windows), window(g, g->windows));
}

/*
 * Number of windows that can be skipped, and the number after which the pattern of paces repeats. 0: none
 * now.
 */
static uint64_t windows_to_skip(const steady_runner *x, uint64_t more, uint32_t *back)
{
	const uint32_t most_back = x->g->windows / 3;
	const double tolerance = 1e-12 * x->end[window(x->g, x->g->windows) - 1];

	for (*back = 1; *back <= most_back; ++*back) {
		if (!is_linear(x, *back, tolerance))
			continue;
		uint64_t times = more / *back;
		if (!is_uniform(x, *back, tolerance)) {
			double change = floor(until_change(x, *back, tolerance));
			if (change < (double)times)
				times = (uint64_t)change;
		}
		return times * *back;
	}
	return 0;
}

/*
 * Charges additional rounds to a search's budget; each costs as much as a timeline. False: the budget is used
 * up.
 */
static bool charge(uint64_t *budget, uint32_t nodes)
{
	if (!budget)
		return true;
	*budget -= *budget < nodes ? *budget : nodes;
	return *budget > 0;
}

/*
 * Extends the step by this many windows. Uses their mean pace after the maximum number of rounds, or if the
 * budget is used up.
 */
static void extend(const steady_runner *x, uint64_t more, uint64_t *budget)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t free_windows = g->windows - g->reach;
	uint32_t back;
	bool enough = false;

	for (unsigned round = 0; more > 0; round++) {
		if (round == MOST_ROUNDS || enough) {
			back = g->windows / 2;
			skip(x, back, (double)more / back);
			return;
		}
		uint64_t skipped = windows_to_skip(x, more, &back);
		if (skipped)
			skip(x, back, (double)(skipped / back));
		more -= skipped;
		uint32_t windows = more < free_windows ? (uint32_t)more : free_windows;
		if (windows)
			go_on(x, windows);
		enough = round >= USUAL_ROUNDS && !charge(budget, windows * g->period);
		more -= windows;
	}
}

static double run_graph(const steady_runner *x, uint32_t micro_batches, uint64_t *budget)
{
	const p4d_timeline_graph *g = x->g;
	const uint32_t rest = micro_batches > g->schedule.micro_batches ? window(g, g->windows) : 1;
	double seconds = 0;

	x->end[0] = 0;
	simulate(x, 1, rest);
	if (rest > 1)
		extend(x, (micro_batches - g->schedule.micro_batches) / g->micro_batches, budget);
	simulate(x, rest, g->nodes);
	for (uint32_t i = rest; i < g->nodes; i++)
		seconds = x->end[i] > seconds ? x->end[i] : seconds;
	return seconds;
}

static void drop(cache *c, p4d_timeline_work *work, unsigned number)
{
	graph_shape *dropped = &c->shape[number];

	free(dropped->graph.node);
	free(dropped->end);
	work->bytes -= dropped->bytes;
	*dropped = c->shape[--c->shapes];
}

static unsigned oldest(const cache *c)
{
	unsigned found = 0;

	for (unsigned i = 1; i < c->shapes; i++)
		if (c->shape[i].used < c->shape[found].used)
			found = i;
	return found;
}

static bool is_same(const p4d_timeline_graph *graph, const p4d_schedule *b, bool paired)
{
	const p4d_schedule *a = &graph->schedule;

	return graph->paired == paired && a->kind == b->kind && a->vocabulary == b->vocabulary &&
	       a->stages == b->stages && a->chunks == b->chunks && a->micro_batches == b->micro_batches &&
	       p4d_schedule_slices(a) == p4d_schedule_slices(b) && a->local == b->local;
}

/*
 * Subtracts the work of this many runs through a graph from the budget: one unit for two simulated nodes, and
 * TO_BUILD units for two nodes that are built.
 */
static int take(p4d_timeline_work *work, const p4d_schedule *s, uint64_t times, p4d_error *err)
{
	const uint64_t nodes = p4d_timeline_graph__nodes(s), units = times * nodes / 2;

	if (!work->budget)
		return 0;
	if (*work->budget < units)
		return p4d_fail(err, P4D_E_OVERFLOW, "a timeline of %" PRIu64 " nodes is too long here",
				nodes);
	*work->budget -= units;
	return 0;
}

/* Returns the graph of a schedule with this number of micro-batches, and builds it if it is not cached. */
static graph_shape *find_shape(p4d_timeline_work *work, const p4d_schedule *s, bool paired, p4d_error *err)
{
	cache *c = work->memory;
	graph_shape built = {0};

	c->now++;
	for (unsigned i = 0; i < c->shapes; i++) {
		if (is_same(&c->shape[i].graph, s, paired)) {
			c->shape[i].used = c->now;
			return take(work, s, 3, err) < 0 ? NULL : &c->shape[i];
		}
	}
	if (take(work, s, TO_BUILD, err) < 0 || p4d_timeline_graph__build(s, paired, &built.graph, err) < 0)
		return NULL;
	/* the paces of all windows follow the end times of all nodes */
	size_t doubles = (size_t)built.graph.nodes + (size_t)built.graph.windows * built.graph.period;
	built.end = malloc(doubles * sizeof(*built.end));
	if (!built.end) {
		free(built.graph.node);
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline");
		return NULL;
	}
	built.bytes = doubles * sizeof(*built.end) + built.graph.nodes * sizeof(*built.graph.node);
	built.used = c->now;
	while (c->shapes == SHAPES || (c->shapes && work->bytes + built.bytes > MEMORY_KEPT))
		drop(c, work, oldest(c));
	work->bytes += built.bytes;
	c->shape[c->shapes] = built;
	return &c->shape[c->shapes++];
}

static int begin_work(p4d_timeline_work *work, size_t costs, p4d_error *err)
{
	cache *c = work->memory;

	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline");
		work->memory = c;
		work->bytes = sizeof(*c);
	}
	if (costs > c->costs) {
		double *cost = realloc(c->cost, costs * sizeof(*cost));
		if (!cost)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline");
		work->bytes += (costs - c->costs) * sizeof(*cost);
		c->cost = cost;
		c->costs = costs;
	}
	return 0;
}

static int seconds_of_graph(const p4d_schedule *s, const p4d_durations *d, p4d_timeline_work *work,
			    double *seconds, p4d_error *err)
{
	p4d_schedule few = *s;
	const uint32_t enough = p4d_timeline_graph__enough(s);
	graph_shape *found;

	if (s->micro_batches > enough)
		few.micro_batches = enough;
	found = find_shape(work, &few, d->alone, err);
	if (found && few.micro_batches < s->micro_batches && !found->graph.windows)
		/* too few micro-batches for a steady state, so all of them are simulated */
		found = find_shape(work, s, d->alone, err);
	if (!found)
		return -1;
	const steady_runner x = {
	    .g = &found->graph,
	    .end = found->end,
	    .pace = found->end + found->graph.nodes,
	    .cost = ((cache *)work->memory)->cost,
	    .lag = {[P4D_LAG_SEND] = d->send, [P4D_LAG_SYNC] = d->vocabulary_sync},
	};
	*seconds = run_graph(&x, s->micro_batches, work->budget);
	return 0;
}

int p4d_timeline_seconds(const p4d_schedule *s, const p4d_durations *d, p4d_timeline_work *work,
			 double *seconds, double *bubble_fraction, p4d_error *err)
{
	double whole;

	if (begin_work(work, p4d_timeline_graph__cost_count(s, d->alone), err) < 0)
		return -1;
	double *cost = ((cache *)work->memory)->cost;
	p4d_timeline_graph__costs(s, d, cost);
	if ((p4d_schedule_kinds[s->kind]->in_phases
		 ? p4d_timeline_gpipe__seconds(s, d->send, cost, work->budget, &whole, err)
		 : seconds_of_graph(s, d, work, &whole, err)) < 0)
		return -1;
	*seconds = whole;
	*bubble_fraction = whole > 0 ? 1 - p4d_timeline_graph__busy(s, cost) / (s->stages * whole) : 0;
	return 0;
}

void p4d_timeline_work_free(p4d_timeline_work *work)
{
	cache *c = work->memory;

	while (c && c->shapes)
		drop(c, work, 0);
	if (c)
		free(c->cost);
	free(c);
	*work = (p4d_timeline_work){.budget = work->budget};
}
