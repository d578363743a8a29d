/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/timeline_graph.h"

#include <stdlib.h>

#include "schedule/schedule_order.h"
#include "timeline/timeline_cost.h"

/*
 * Runs the passes of all stages in their orders, in units in which F = B = W = S = T = 1, and adds a node for
 * each pass that has run. In this order, dependencies of a node come first. If the layout has more
 * micro-batches than the graph, nodes are finally sorted by their start times. That order is periodic as soon
 * as all stages are busy.
 */

/* A stage while its passes run in order. */
typedef struct row {
	const p4d_pass *pass;
	uint32_t next;   /* the next pass of the stage */
	uint32_t before; /* node of the previous pass */
	uint32_t clock;  /* the stage's current time, in units */
	/*
	 * places for the ends of a forward and a backward pass that run at the same time; NULL: none has
	 * begun
	 */
	uint32_t *ends[2];
	uint32_t *node; /* nodes of this stage that have run, in order */
	uint32_t nodes;
} row;

typedef struct graph_builder {
	const p4d_schedule *s;
	p4d_timeline_graph *graph;
	uint32_t last;      /* position of the model's loss */
	uint32_t count;     /* number of passes of a stage */
	uint32_t row_nodes; /* number of nodes of a stage */
	p4d_pass *passes;
	row *rows;
	/* Indices of nodes; 0: none yet. forward, backward: by position and micro-batch. tables: of
	 * vocabulary passes, by micro-batch and stage. barrier: of a barrier's last part, by micro-batch. */
	uint32_t *forward, *backward, *tables[P4D_OPS], *barrier[P4D_OPS];
	uint32_t *arrived[P4D_OPS]; /* by micro-batch: number of stages that have run the pass */
	uint32_t *end, *time; /* per node: its end, in time units; and 2 * its start, plus 1 unless it belongs
				 to a barrier, so that barriers come first */
	uint32_t latest;      /* the latest end of a node, in time units */
	uint32_t *memory;
} graph_builder;

static const uint8_t vocabulary_ops[] = {P4D_OP_EMBED_FORWARD, P4D_OP_EMBED_BACKWARD, P4D_OP_VOCAB_FORWARD,
					 P4D_OP_VOCAB_BACKWARD};
enum { VOCABULARY_OPS = 4 };

/* Whether passes of this kind end in a barrier for which another pass waits. */
static bool has_barrier(const p4d_schedule *s, unsigned op)
{
	return s->vocabulary != P4D_VOCAB_OFF &&
	       (op == P4D_OP_EMBED_FORWARD || op == P4D_OP_VOCAB_FORWARD ||
		(op == P4D_OP_VOCAB_BACKWARD && s->vocabulary == P4D_VOCAB_1));
}

static unsigned barriers_of(const p4d_schedule *s)
{
	unsigned barriers = 0;

	for (unsigned i = 0; i < VOCABULARY_OPS; i++)
		barriers += has_barrier(s, vocabulary_ops[i]);
	return barriers;
}

/* Number of nodes that a micro-batch adds. */
static uint64_t nodes_each(const p4d_schedule *s)
{
	const unsigned passes = p4d_is_split(s->kind) ? 3 : 2;
	uint64_t each = (uint64_t)p4d_schedule_positions(s) * passes;

	if (s->vocabulary != P4D_VOCAB_OFF)
		each += (uint64_t)s->stages * (VOCABULARY_OPS + barriers_of(s));
	return each;
}

static uint64_t nodes_once(const p4d_schedule *s)
{
	const unsigned tables = s->vocabulary != P4D_VOCAB_OFF ? 1 : 0;

	return (uint64_t)s->stages * (2 * (s->chunks + tables) + 1);
}

uint64_t p4d_timeline_graph__nodes(const p4d_schedule *s)
{
	return nodes_each(s) * s->micro_batches;
}

/* Number of nodes of one stage, without barriers. */
static uint64_t nodes_of_row(const p4d_schedule *s)
{
	const uint64_t barriers = s->vocabulary != P4D_VOCAB_OFF ? (uint64_t)s->stages * barriers_of(s) : 0;

	return (nodes_once(s) + (nodes_each(s) - barriers) * s->micro_batches) / s->stages;
}

static uint32_t add(graph_builder *b, p4d_timeline_node node, uint32_t start, uint32_t units, bool is_barrier)
{
	const uint32_t number = b->graph->nodes++;

	b->graph->node[number] = node;
	b->end[number] = start + units;
	b->time[number] = 2 * start + !is_barrier;
	b->latest = b->time[number] > b->latest ? b->time[number] : b->latest;
	return number;
}

/* Adds a stage's next node, after the stage's previous node and the node it depends on. */
static uint32_t add_to(graph_builder *b, row *x, uint32_t cost, uint32_t units, uint32_t needs, uint32_t lag)
{
	const uint32_t data = b->end[needs], start = data > x->clock ? data : x->clock;
	const p4d_timeline_node node = {.before = x->before, .needs = needs, .cost = cost, .lag = lag};

	x->before = add(b, node, start, units, false);
	x->node[x->nodes++] = x->before;
	x->clock = start + units;
	return x->before;
}

/* Entries that each stage has in the cost table; see p4d_timeline_graph__cost_count. */
enum { GATHER, REDUCE, OPTIMIZER };

static uint32_t cost_once(const p4d_schedule *s, uint32_t stage, unsigned what)
{
	return p4d_timeline_graph__passes(s) + 3 * stage + what;
}

static uint32_t cost_of_table(const p4d_schedule *s, unsigned op)
{
	return p4d_timeline_graph__passes(s) + 3 * s->stages + op - P4D_OP_EMBED_FORWARD;
}

/* Whether no pass of the other direction runs next to this pass of the stage. */
static bool is_alone(const graph_builder *b, const row *x, const p4d_pass *pass)
{
	const bool forward = pass->op == P4D_OP_FORWARD;
	const p4d_pass *other = pass, *end = forward ? &x->pass[b->count - 1] : x->pass;

	do {
		if (other == end)
			return true;
		other += forward ? 1 : -1;
	} while (other->op != P4D_OP_FORWARD && !p4d_is_backward(other->op));
	return !p4d_runs_beside(b->s, pass->op, pass->chunk, other->op, other->chunk);
}

static bool is_crosswise(const graph_builder *b)
{
	return b->graph->paired && p4d_schedule_kinds[b->s->kind]->crosswise;
}

static bool runs_at_once(const graph_builder *b, const row *x, const p4d_pass *pass)
{
	return is_crosswise(b) && pass->op != P4D_OP_BACKWARD_WEIGHT && !is_alone(b, x, pass);
}

/* Whether the weight gradient follows at once, so that both halves of the backward pass are one. */
static bool is_whole(const graph_builder *b, const row *x, const p4d_pass *pass)
{
	return is_crosswise(b) && pass->op == P4D_OP_BACKWARD_INPUT && pass + 1 < &x->pass[b->count] &&
	       pass[1].op == P4D_OP_BACKWARD_WEIGHT && pass[1].chunk == pass->chunk &&
	       pass[1].micro_batch == pass->micro_batch;
}

static uint32_t cost_of_nothing(const p4d_schedule *s)
{
	return cost_of_table(s, P4D_OP_EMBED_FORWARD + VOCABULARY_OPS);
}

/* The backward pass of a pair takes the time of both. */
static uint32_t cost_of_chunk(const graph_builder *b, uint32_t stage, const p4d_pass *pass)
{
	const p4d_schedule *s = b->s;
	const row *x = &b->rows[stage];
	const unsigned which = pass->op == P4D_OP_FORWARD ? 0 : pass->op == P4D_OP_BACKWARD_WEIGHT ? 2 : 1;
	const uint32_t unit = (stage * s->chunks + pass->chunk) * p4d_schedule_slices(s) +
			      p4d_schedule_slice_of(s, pass->micro_batch);

	if (runs_at_once(b, x, pass))
		return which ? p4d_timeline_graph__cost_count(s, false) + 3 * unit + 2 : cost_of_nothing(s);
	if (b->graph->paired && which < 2 && is_alone(b, x, pass))
		return p4d_timeline_graph__cost_count(s, false) + 3 * unit + which;
	return 3 * unit + which;
}

/* Adds nodes for the maximum over all stages: a chain of nodes with two dependencies each. */
static void add_barrier(graph_builder *b, unsigned op, uint32_t micro_batch)
{
	const uint32_t *table = &b->tables[op][(size_t)micro_batch * b->s->stages];
	const uint32_t nothing = cost_of_nothing(b->s);
	uint32_t joined = 0, number = 0;

	for (uint32_t stage = 0; stage < b->s->stages; stage++)
		joined = b->end[table[stage]] > joined ? b->end[table[stage]] : joined;
	for (uint32_t stage = 0; stage < b->s->stages; stage++) {
		const p4d_timeline_node node = {
		    .before = number, .needs = table[stage], .cost = nothing, .lag = P4D_LAG_NONE};
		number = add(b, node, joined, 0, true);
	}
	b->barrier[op][micro_batch] = number;
}

/* Index of the transfer between two positions. At the turn of a V-shaped schedule there is none. */
static unsigned lag_between(const p4d_schedule *s, uint32_t position, uint32_t next)
{
	return p4d_is_v_shaped(s->kind) && position + next == 2 * s->stages - 1 ? P4D_LAG_NONE : P4D_LAG_SEND;
}

/* The dependency of a pass in addition to its stage. */
typedef struct wait {
	uint32_t needs; /* node; 0: no dependency, or it has not run yet */
	uint8_t lag;
	bool blocked;
} wait;

static wait wait_for(uint32_t node, unsigned lag)
{
	return (wait){node, (uint8_t)lag, !node};
}

static wait wait_of(const graph_builder *b, uint32_t position, const p4d_pass *pass)
{
	const p4d_schedule *s = b->s;
	const size_t m = s->micro_batches, i = pass->micro_batch;
	const bool tables = s->vocabulary != P4D_VOCAB_OFF;
	const unsigned one = s->vocabulary == P4D_VOCAB_1;

	switch (pass->op) {
	case P4D_OP_FORWARD:
		if (position > 0)
			return wait_for(b->forward[(position - 1) * m + i],
					lag_between(s, position - 1, position));
		if (tables)
			return wait_for(b->barrier[P4D_OP_EMBED_FORWARD][i], P4D_LAG_SYNC);
		break;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		if (p4d_schedule_is_told(s, position))
			return wait_for(b->backward[(position + 1) * m + i],
					lag_between(s, position, position + 1));
		if (tables)
			return wait_for(b->barrier[one ? P4D_OP_VOCAB_BACKWARD : P4D_OP_VOCAB_FORWARD][i],
					P4D_LAG_SYNC);
		break;
	case P4D_OP_VOCAB_FORWARD:
		return wait_for(b->forward[b->last * m + i], P4D_LAG_SYNC);
	case P4D_OP_VOCAB_BACKWARD:
		return wait_for(b->barrier[P4D_OP_VOCAB_FORWARD][i], P4D_LAG_SYNC);
	case P4D_OP_EMBED_BACKWARD:
		return wait_for(b->backward[i], P4D_LAG_SYNC);
	}
	return (wait){0, P4D_LAG_NONE, false};
}

static void add_table_pass(graph_builder *b, uint32_t stage, const p4d_pass *pass, const wait *on)
{
	const uint32_t i = pass->micro_batch;

	b->tables[pass->op][(size_t)i * b->s->stages + stage] =
	    add_to(b, &b->rows[stage], cost_of_table(b->s, pass->op), 1, on->needs, on->lag);
	if (has_barrier(b->s, pass->op) && ++b->arrived[pass->op][i] == b->s->stages)
		add_barrier(b, pass->op, i);
}

static void add_chunk_pass(graph_builder *b, uint32_t stage, uint32_t position, const p4d_pass *pass,
			   const wait *on)
{
	const uint32_t number = add_to(b, &b->rows[stage], cost_of_chunk(b, stage, pass),
				       pass->op == P4D_OP_BACKWARD ? 2 : 1, on->needs, on->lag);
	uint32_t *of = pass->op == P4D_OP_FORWARD ? b->forward : b->backward,
		 *end = &of[(size_t)position * b->s->micro_batches + pass->micro_batch];
	row *x = &b->rows[stage];

	if (pass->op == P4D_OP_FORWARD && runs_at_once(b, x, pass)) {
		x->ends[0] = end;
		return;
	}
	if (is_whole(b, x, pass)) {
		x->ends[1] = end;
		return;
	}
	if (pass->op != P4D_OP_BACKWARD_WEIGHT)
		*end = number;
	for (int i = 0; i < 2; i++) {
		if (x->ends[i])
			*x->ends[i] = number;
		x->ends[i] = NULL;
	}
}

/*
 * Adds a pass to the graph. Adds collectives at the places where p4d_schedule_compile puts them. False: the
 * pass depends on a node that is not in the graph yet.
 */
static bool run_pass(graph_builder *b, uint32_t stage, const p4d_pass *pass)
{
	const p4d_schedule *s = b->s;
	const bool chunk = pass->chunk < s->chunks;
	const uint32_t position = chunk ? p4d_schedule_position_of(s, stage, pass->chunk) : 0;
	const wait on = wait_of(b, position, pass);

	if (on.blocked)
		return false;
	if (pass->micro_batch == 0 && (pass->op == P4D_OP_FORWARD || pass->op == P4D_OP_EMBED_FORWARD))
		add_to(b, &b->rows[stage], cost_once(s, stage, GATHER), 0, 0, P4D_LAG_NONE);
	if (chunk)
		add_chunk_pass(b, stage, position, pass, &on);
	else
		add_table_pass(b, stage, pass, &on);
	if (p4d_schedule_ends_with(s, pass->micro_batch) &&
	    (pass->op == P4D_OP_BACKWARD || pass->op == P4D_OP_BACKWARD_WEIGHT ||
	     pass->op == P4D_OP_EMBED_BACKWARD))
		add_to(b, &b->rows[stage], cost_once(s, stage, REDUCE), 0, 0, P4D_LAG_NONE);
	return true;
}

static bool run_stage(graph_builder *b, uint32_t stage)
{
	row *x = &b->rows[stage];
	const uint32_t from = x->next;

	while (x->next < b->count && run_pass(b, stage, &x->pass[x->next]))
		if (++x->next == b->count)
			add_to(b, x, cost_once(b->s, stage, OPTIMIZER), 1, 0, P4D_LAG_NONE);
	return x->next > from;
}

static void run(graph_builder *b)
{
	const uint32_t p = b->s->stages;
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < 2 * p; i++)
			moved |= run_stage(b, i < p ? i : 2 * p - 1 - i);
	}
}

/* Places a node at the next index for its start time. */
static void place(const graph_builder *b, uint32_t *bucket, uint32_t *to, uint32_t number)
{
	to[number] = 1 + bucket[b->time[number]]++;
}

/*
 * Sorts nodes by start time. At equal times, barriers come before passes; then stage by stage. False: no
 * memory.
 */
static bool sort(graph_builder *b)
{
	p4d_timeline_graph *g = b->graph;
	uint32_t *to = calloc((size_t)g->nodes + b->latest + 3, sizeof(*to));
	p4d_timeline_node *node = malloc((size_t)g->nodes * sizeof(*node));

	if (!to || !node) {
		free(to);
		free(node);
		return false;
	}
	uint32_t *bucket = to + g->nodes; /* by time: number of nodes that start earlier */
	for (uint32_t i = 1; i < g->nodes; i++)
		bucket[b->time[i] + 1]++;
	for (uint32_t time = 1; time <= b->latest + 2; time++)
		bucket[time] += bucket[time - 1];
	for (uint32_t stage = 0; stage < b->s->stages; stage++)
		for (uint32_t i = 0; i < b->row_nodes; i++)
			place(b, bucket, to, b->rows[stage].node[i]);
	for (unsigned k = 0; k < VOCABULARY_OPS; k++)
		for (uint32_t i = 0; has_barrier(b->s, vocabulary_ops[k]) && i < b->s->micro_batches; i++)
			for (uint32_t stage = 1; stage <= b->s->stages; stage++)
				place(b, bucket, to, b->barrier[vocabulary_ops[k]][i] - b->s->stages + stage);
	for (uint32_t i = 0; i < g->nodes; i++) {
		const p4d_timeline_node *from = &g->node[i];
		node[to[i]] = (p4d_timeline_node){to[from->before], to[from->needs], from->cost, from->lag};
	}
	free(to);
	free(g->node);
	g->node = node;
	return true;
}

static bool allocate(graph_builder *b, uint64_t nodes)
{
	const p4d_schedule *s = b->s;
	const size_t m = s->micro_batches, p = s->stages, positions = (size_t)p4d_schedule_positions(s) * m;
	const size_t tables = s->vocabulary != P4D_VOCAB_OFF ? VOCABULARY_OPS : 0;
	uint32_t *at = calloc(2 * positions + tables * m * (p + 2), sizeof(*at));
	uint32_t *of_nodes = malloc((2 * (size_t)nodes + p * b->row_nodes) * sizeof(*of_nodes));

	b->memory = at;
	b->end = of_nodes;
	b->passes = malloc(p * (b->count + 1) * sizeof(*b->passes));
	b->rows = malloc(p * sizeof(*b->rows));
	b->graph->node = malloc((size_t)nodes * sizeof(*b->graph->node));
	if (!at || !of_nodes || !b->passes || !b->rows || !b->graph->node)
		return false;
	b->time = b->end + nodes;
	for (size_t stage = 0; stage < p; stage++)
		b->rows[stage] = (row){.pass = b->passes + stage * b->count,
				       .node = b->time + nodes + stage * b->row_nodes};
	b->forward = at;
	b->backward = at + positions;
	at += 2 * positions;
	for (size_t i = 0; i < tables; i++, at += m * (p + 2)) {
		b->tables[vocabulary_ops[i]] = at;
		b->barrier[vocabulary_ops[i]] = at + m * p;
		b->arrived[vocabulary_ops[i]] = at + m * (p + 1);
	}
	return true;
}

static void fill_rows(graph_builder *b)
{
	p4d_schedule_order order;

	for (uint32_t stage = 0; stage < b->s->stages; stage++) {
		p4d_pass *pass = b->passes + (size_t)stage * b->count;
		p4d_schedule_order_begin(b->s, stage, &order);
		for (uint32_t i = 0; i < b->count; i++)
			p4d_schedule_order_next(&order, &pass[i]);
	}
}

static bool build(graph_builder *b, bool periodic)
{
	b->graph->nodes = 0;
	add(b, (p4d_timeline_node){0}, 0, 0, true);
	fill_rows(b);
	run(b);
	if (!periodic)
		return true;
	if (!sort(b))
		return false;
	b->graph->micro_batches =
	    p4d_schedule_kinds[b->s->kind]->in_groups ? p4d_schedule_group(b->s) : p4d_schedule_slices(b->s);
	p4d_timeline_graph__find_periods(b->graph, nodes_each(b->s));
	return true;
}

int p4d_timeline_graph__build(const p4d_schedule *s, bool paired, p4d_timeline_graph *graph, p4d_error *err)
{
	const uint64_t nodes = 1 + nodes_once(s) + nodes_each(s) * s->micro_batches,
		       row_nodes = nodes_of_row(s);
	const uint64_t once = nodes_once(s) / s->stages;
	graph_builder b = {.s = s,
			   .graph = graph,
			   .last = p4d_schedule_positions(s) - 1,
			   .count = (uint32_t)(row_nodes - once),
			   .row_nodes = (uint32_t)row_nodes};

	if (nodes > INT32_MAX)
		return p4d_fail(err, P4D_E_OVERFLOW, "%u stages of %u chunks are too many for a timeline",
				s->stages, s->chunks);
	*graph = (p4d_timeline_graph){
	    .schedule = *s, .paired = paired, .costs = p4d_timeline_graph__cost_count(s, paired)};
	const bool done = allocate(&b, nodes) && build(&b, s->micro_batches >= p4d_timeline_graph__enough(s));
	free(b.memory);
	free(b.end);
	free(b.passes);
	free(b.rows);
	if (!done) {
		free(graph->node);
		*graph = (p4d_timeline_graph){0};
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline");
	}
	return 0;
}
