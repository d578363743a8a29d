/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline_graph.h"

#include <stdlib.h>
#include <string.h>

#include "schedule_order.h"

/*
 * The order of the nodes is that of their starts when F = B = W = S = T = 1: found by running the orders of
 * all stages with these integers. It has the period of the schedule as soon as the stages are busy.
 */

enum { UNKNOWN = 0 };

/* A pass, a collective, or a part of a barrier, which have no op of their own. */
typedef struct item {
	uint32_t micro_batch;
	uint16_t chunk;
	uint8_t op;
	uint8_t barrier; /* part of the barrier behind all passes of this op */
	uint16_t stage;
	uint8_t on_barrier, lag; /* op of the barrier it waits for, 0 none; how long after */
	uint32_t on;             /* or item it waits for, + 1; 0 none */
	uint32_t time; /* 2 * start + 1; 2 * start of a barrier, which goes before those that wait for it */
	uint32_t node;
} item;

typedef struct builder {
	const p4d_schedule *s;
	p4d_graph *graph;
	uint32_t last; /* position of the loss */
	item *items;
	uint32_t count, latest;
	uint32_t *begin; /* stage -> its first item */
	/* Item + 1 by position and micro-batch; by stage and micro-batch of the vocabulary passes; of the
	 * last part of a barrier by micro-batch. */
	uint32_t *forward, *backward, *tables[P4D_OPS], *barrier[P4D_OPS];
	/* by micro-batch: how many stages have run the pass, the latest end */
	uint32_t *arrived[P4D_OPS], *joined[P4D_OPS];
	uint32_t *memory;
	uint32_t *at;    /* stage -> next item */
	uint32_t *clock; /* stage -> time */
} builder;

static const uint8_t vocabulary_ops[] = {P4D_OP_EMBED_FORWARD, P4D_OP_EMBED_BACKWARD, P4D_OP_VOCAB_FORWARD,
					 P4D_OP_VOCAB_BACKWARD};
enum { VOCABULARY_OPS = 4 };

/* All passes that end in a barrier somebody waits for. */
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

/* Nodes that a micro-batch adds. */
static uint64_t nodes_each(const p4d_schedule *s)
{
	const unsigned passes = p4d_is_split(s) ? 3 : 2;
	uint64_t each = (uint64_t)p4d_positions(s) * passes;

	if (s->vocabulary != P4D_VOCAB_OFF)
		each += (uint64_t)s->stages * (VOCABULARY_OPS + barriers_of(s));
	return each;
}

static uint64_t nodes_once(const p4d_schedule *s)
{
	const unsigned tables = s->vocabulary != P4D_VOCAB_OFF ? 1 : 0;

	return (uint64_t)s->stages * (2 * (s->chunks + tables) + 1);
}

static void add(builder *b, uint32_t stage, unsigned op, uint32_t chunk, uint32_t micro_batch)
{
	b->items[b->count++] = (item){.micro_batch = micro_batch,
				      .chunk = (uint16_t)chunk,
				      .op = (uint8_t)op,
				      .stage = (uint16_t)stage};
}

/* The passes of all stages in their order, with the collectives where p4d_schedule_compile puts them. */
static void add_stage(builder *b, uint32_t stage)
{
	const uint32_t m = b->s->micro_batches;
	p4d_order order;
	p4d_pass pass;

	b->begin[stage] = b->at[stage] = b->count;
	p4d_order_begin(b->s, stage, &order);
	while (p4d_order_next(&order, &pass)) {
		const uint32_t i = pass.micro_batch;
		if (i == 0 && (pass.op == P4D_OP_FORWARD || pass.op == P4D_OP_EMBED_FORWARD))
			add(b, stage, P4D_OP_GATHER_PARAMS, pass.chunk, 0);
		uint32_t number = b->count + 1;
		add(b, stage, pass.op, pass.chunk, i);
		if (pass.chunk == b->s->chunks) {
			b->tables[pass.op][(size_t)i * b->s->stages + stage] = number;
		} else if (pass.op != P4D_OP_BACKWARD_WEIGHT) {
			uint32_t *of = pass.op == P4D_OP_FORWARD ? b->forward : b->backward;
			of[(size_t)p4d_position_of(b->s, stage, pass.chunk) * m + i] = number;
		}
		if (i == m - 1 && (pass.op == P4D_OP_BACKWARD || pass.op == P4D_OP_BACKWARD_WEIGHT ||
				   pass.op == P4D_OP_EMBED_BACKWARD))
			add(b, stage, P4D_OP_REDUCE_GRADS, pass.chunk, 0);
	}
	add(b, stage, P4D_OP_OPTIMIZER, 0, 0);
}

static void wait_for(item *it, uint32_t on, unsigned barrier, unsigned lag)
{
	it->on = on;
	it->on_barrier = (uint8_t)barrier;
	it->lag = (uint8_t)lag;
}

/* The transfer from one position to the next is none where the V turns. */
static unsigned lag_between(const p4d_schedule *s, uint32_t position, uint32_t next)
{
	return p4d_is_v_shaped(s->kind) && position + next == 2 * s->stages - 1 ? P4D_LAG_NONE : P4D_LAG_SEND;
}

/* Finds what an item waits for besides its stage. */
static void resolve(const builder *b, item *it)
{
	const p4d_schedule *s = b->s;
	const size_t m = s->micro_batches, i = it->micro_batch;
	const bool tables = s->vocabulary != P4D_VOCAB_OFF;
	const unsigned one = s->vocabulary == P4D_VOCAB_1;
	uint32_t position;

	switch (it->op) {
	case P4D_OP_FORWARD:
		position = p4d_position_of(s, it->stage, it->chunk);
		if (position > 0)
			wait_for(it, b->forward[(position - 1) * m + i], 0,
				 lag_between(s, position - 1, position));
		else if (tables)
			wait_for(it, 0, P4D_OP_EMBED_FORWARD, P4D_LAG_SYNC);
		break;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		position = p4d_position_of(s, it->stage, it->chunk);
		if (position < b->last)
			wait_for(it, b->backward[(position + 1) * m + i], 0,
				 lag_between(s, position, position + 1));
		else if (tables)
			wait_for(it, 0, one ? P4D_OP_VOCAB_BACKWARD : P4D_OP_VOCAB_FORWARD, P4D_LAG_SYNC);
		break;
	case P4D_OP_VOCAB_FORWARD:
		wait_for(it, b->forward[b->last * m + i], 0, P4D_LAG_SYNC);
		break;
	case P4D_OP_VOCAB_BACKWARD:
		wait_for(it, 0, P4D_OP_VOCAB_FORWARD, P4D_LAG_SYNC);
		break;
	case P4D_OP_EMBED_BACKWARD:
		wait_for(it, b->backward[i], 0, P4D_LAG_SYNC);
		break;
	}
}

static bool is_pass(unsigned op)
{
	return op != P4D_OP_GATHER_PARAMS && op != P4D_OP_REDUCE_GRADS;
}

/* Ends of passes in units; item.time holds 2 * start + 1 once it is known. */
static uint32_t duration(const item *it)
{
	return it->op == P4D_OP_BACKWARD ? 2 : is_pass(it->op) ? 1 : 0;
}

static bool run_stage(builder *b, uint32_t stage)
{
	const uint32_t end = stage + 1 < b->s->stages ? b->begin[stage + 1] : b->count, from = b->at[stage];

	for (; b->at[stage] < end; b->at[stage]++) {
		item *it = &b->items[b->at[stage]];
		uint32_t start = b->clock[stage], data = 0;
		if (it->on) {
			const item *of = &b->items[it->on - 1];
			if (of->time == UNKNOWN)
				break;
			data = of->time / 2 + duration(of);
		} else if (it->on_barrier) {
			if (b->arrived[it->on_barrier][it->micro_batch] < b->s->stages)
				break;
			data = b->joined[it->on_barrier][it->micro_batch];
		}
		start = data > start ? data : start;
		it->time = 2 * start + 1;
		b->clock[stage] = start + duration(it);
		b->latest = it->time > b->latest ? it->time : b->latest;
		if (has_barrier(b->s, it->op)) {
			uint32_t *joined = &b->joined[it->op][it->micro_batch];
			*joined = b->clock[stage] > *joined ? b->clock[stage] : *joined;
			b->arrived[it->op][it->micro_batch]++;
		}
	}
	return b->at[stage] > from;
}

static void run(builder *b)
{
	const uint32_t p = b->s->stages;
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < 2 * p; i++)
			moved |= run_stage(b, i < p ? i : 2 * p - 1 - i);
	}
}

/* The maximum over all stages as a chain of nodes, each of two. */
static void add_barriers(builder *b)
{
	for (unsigned k = 0; k < VOCABULARY_OPS; k++) {
		unsigned op = vocabulary_ops[k];
		if (!has_barrier(b->s, op))
			continue;
		for (uint32_t i = 0; i < b->s->micro_batches; i++) {
			for (uint32_t stage = 0; stage < b->s->stages; stage++) {
				item *it = &b->items[b->count];
				add(b, stage, op, b->s->chunks, i);
				it->barrier = 1;
				it->time = 2 * b->joined[op][i];
			}
			b->barrier[op][i] = b->count;
		}
	}
}

/* Gives items their nodes in the order of time; equal times keep their order. False without memory. */
static bool sort(builder *b)
{
	uint32_t *bucket = calloc((size_t)b->latest + 3, sizeof(*bucket));

	if (!bucket)
		return false;
	for (uint32_t i = 0; i < b->count; i++)
		bucket[b->items[i].time + 1]++;
	for (uint32_t time = 1; time <= b->latest + 2; time++)
		bucket[time] += bucket[time - 1];
	for (uint32_t i = 0; i < b->count; i++)
		b->items[i].node = 1 + bucket[b->items[i].time]++;
	free(bucket);
	return true;
}

static uint32_t cost_of(const p4d_schedule *s, const item *it)
{
	const uint32_t positions = p4d_positions(s), stages = s->stages;

	if (it->barrier)
		return 3 * (positions + stages) + VOCABULARY_OPS;
	switch (it->op) {
	case P4D_OP_FORWARD:
		return 3 * (it->stage * s->chunks + it->chunk);
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		return 3 * (it->stage * s->chunks + it->chunk) + 1;
	case P4D_OP_BACKWARD_WEIGHT:
		return 3 * (it->stage * s->chunks + it->chunk) + 2;
	case P4D_OP_GATHER_PARAMS:
		return 3 * (positions + it->stage);
	case P4D_OP_REDUCE_GRADS:
		return 3 * (positions + it->stage) + 1;
	case P4D_OP_OPTIMIZER:
		return 3 * (positions + it->stage) + 2;
	default:
		return 3 * (positions + stages) + it->op - P4D_OP_EMBED_FORWARD;
	}
}

static void fill_node(const builder *b, uint32_t number, p4d_node *node)
{
	const item *it = &b->items[number];

	node->cost = cost_of(b->s, it);
	node->lag = P4D_LAG_NONE;
	if (it->barrier) {
		size_t pass = (size_t)it->micro_batch * b->s->stages + it->stage;
		node->before = it->stage ? b->items[number - 1].node : 0;
		node->needs = b->items[b->tables[it->op][pass] - 1].node;
		return;
	}
	node->before = number > b->begin[it->stage] ? b->items[number - 1].node : 0;
	node->needs = 0;
	if (it->on)
		node->needs = b->items[it->on - 1].node;
	else if (it->on_barrier)
		node->needs = b->items[b->barrier[it->on_barrier][it->micro_batch] - 1].node;
	node->lag = it->lag;
}

static bool repeats(const p4d_node *node, uint32_t period)
{
	const p4d_node *earlier = node - period;

	return node->cost == earlier->cost && node->lag == earlier->lag &&
	       node->before == earlier->before + (node->before ? period : 0) &&
	       node->needs == earlier->needs + (node->needs ? period : 0);
}

/* The longest stretch in which every node repeats the one a period before. */
static void find_periods(p4d_graph *graph, uint64_t each)
{
	uint32_t run = 0, longest = 0, end = 0;

	if (each * graph->micro_batches >= graph->nodes)
		return;
	graph->period = (uint32_t)(each * graph->micro_batches);
	for (uint32_t i = graph->period + 1; i < graph->nodes; i++) {
		run = repeats(&graph->node[i], graph->period) ? run + 1 : 0;
		if (run > longest) {
			longest = run;
			end = i + 1;
		}
	}
	graph->windows = longest / graph->period + 1;
	/* the last windows of the stretch: the end of the step follows them */
	graph->body = end - graph->windows * graph->period;
	for (uint32_t i = end - graph->period; i < graph->nodes; i++) {
		const p4d_node *node = &graph->node[i];
		const uint32_t from = i < end ? i : end;
		uint32_t back = node->before && node->before < from ? from - node->before : 0;
		if (node->needs && node->needs < from && from - node->needs > back)
			back = from - node->needs;
		back = (back + graph->period - 1) / graph->period;
		graph->reach = back > graph->reach ? back : graph->reach;
	}
	if (graph->windows < graph->reach + 2 || graph->windows < 3)
		graph->windows = 0;
}

static bool allocate(builder *b, uint64_t items)
{
	const p4d_schedule *s = b->s;
	const size_t m = s->micro_batches, p = s->stages, passes = (size_t)p4d_positions(s) * m;
	const size_t tables = s->vocabulary != P4D_VOCAB_OFF ? VOCABULARY_OPS : 0;
	uint32_t *at = calloc(2 * passes + tables * m * (p + 3) + 3 * p, sizeof(*at));

	b->items = malloc((size_t)items * sizeof(*b->items));
	b->memory = at;
	if (!at || !b->items)
		return false;
	b->begin = at;
	b->at = at + p;
	b->clock = at + 2 * p;
	at += 3 * p;
	b->forward = at;
	b->backward = at + passes;
	at += 2 * passes;
	for (size_t i = 0; i < tables; i++, at += m * (p + 3)) {
		b->tables[vocabulary_ops[i]] = at;
		b->barrier[vocabulary_ops[i]] = at + m * p;
		b->arrived[vocabulary_ops[i]] = at + m * (p + 1);
		b->joined[vocabulary_ops[i]] = at + m * (p + 2);
	}
	return true;
}

static bool build(builder *b)
{
	for (uint32_t stage = 0; stage < b->s->stages; stage++)
		add_stage(b, stage);
	for (uint32_t i = 0; i < b->count; i++)
		resolve(b, &b->items[i]);
	run(b);
	add_barriers(b);
	b->graph->nodes = b->count + 1;
	b->graph->node = malloc((size_t)b->graph->nodes * sizeof(*b->graph->node));
	if (!b->graph->node || !sort(b))
		return false;
	b->graph->node[0] = (p4d_node){0};
	for (uint32_t i = 0; i < b->count; i++)
		fill_node(b, i, &b->graph->node[b->items[i].node]);
	return true;
}

int p4d_graph_build(const p4d_schedule *s, p4d_graph *graph, p4d_error *err)
{
	const uint64_t items = nodes_once(s) + nodes_each(s) * s->micro_batches;
	builder b = {.s = s, .graph = graph, .last = p4d_positions(s) - 1};
	bool done;

	if (items > INT32_MAX)
		return p4d_fail(err, P4D_E_OVERFLOW, "%u stages of %u chunks are too many for a timeline",
				s->stages, s->chunks);
	*graph = (p4d_graph){.schedule = *s, .costs = p4d_graph_cost_count(s)};
	done = allocate(&b, items) && build(&b);
	free(b.items);
	free(b.memory);
	if (!done) {
		free(graph->node);
		*graph = (p4d_graph){0};
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline");
	}
	graph->micro_batches = s->kind == P4D_INTERLEAVED ? s->stages : 1;
	find_periods(graph, nodes_each(s));
	return 0;
}

/*
 * Twice the micro-batches of the beginning and the end, about, where more windows show longer patterns. What
 * those two take was counted: the tests see to it that windows are left for every shape.
 */
uint32_t p4d_graph_enough(const p4d_schedule *s)
{
	const uint32_t p = s->stages;

	switch (s->kind) {
	case P4D_INTERLEAVED:
		return 6 * p;
	case P4D_ZBV:
		return 2 * p + p / 4 + 14;
	default:
		return p + p / 2 + 16;
	}
}
