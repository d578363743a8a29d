/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/timeline.h"

#include <stdlib.h>

#include "schedule/schedule_fields.h"
#include "timeline/timeline_cost.h"

/* Times at which data of a micro-batch becomes available; negative: not yet. */
typedef struct arrivals {
	double *forward,
	    *backward; /* when the stage at a position has received data; index: position * m + micro-batch */
	/* per micro-batch, with vocabulary parallelism */
	double *embedded, *hidden, *logits, *gradient, *first;
	uint16_t *embeds, *forwards, *backwards; /* number of stages that have run the pass */
} arrivals;

/* Passes of a stage that end at the same time: the two of a pair, and a weight gradient that follows at
 * once. */
typedef struct pair {
	bool open;                      /* they have begun */
	const p4d_instruction *forward; /* the forward pass of a pair */
	double seconds;                 /* duration of the forward pass */
	const p4d_instruction *send[2]; /* the sends of the passes' results */
	unsigned sends;
} pair;

typedef struct runner {
	const p4d_schedule *s;
	const p4d_instruction_list *lists;
	const p4d_durations *d;
	arrivals at;
	uint32_t last; /* position of the model's loss */
	size_t *next;  /* for each stage: index of the next instruction */
	pair *pairs;   /* for each stage */
	double *clock, *busy;
	p4d_span **span;
	p4d_error *err;
} runner;

static const double NOT_YET = -1;

static double *arrival_of(const runner *x, double *array, uint32_t position, const p4d_instruction *in)
{
	return &array[(size_t)position * x->s->micro_batches + in->micro_batch];
}

/* The time at which an instruction's data is available; NOT_YET: another stage has to run first. */
static double data_time(const runner *x, uint32_t stage, const p4d_instruction *in)
{
	const uint32_t position =
	    in->chunk < x->s->chunks ? p4d_schedule_position_of(x->s, stage, in->chunk) : x->last + 1;
	const uint32_t i = in->micro_batch;

	switch (in->op) {
	case P4D_OP_RECV_FORWARD:
		return *arrival_of(x, x->at.forward, position, in);
	case P4D_OP_RECV_BACKWARD:
		return *arrival_of(x, x->at.backward, position, in);
	}
	if (x->s->vocabulary == P4D_VOCAB_OFF)
		return 0;
	switch (in->op) {
	case P4D_OP_FORWARD:
		if (position > 0)
			return 0;
		return x->at.embeds[i] == x->s->stages ? x->at.embedded[i] : NOT_YET;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		if (position < x->last)
			return 0;
		if (x->s->vocabulary == P4D_VOCAB_1)
			return x->at.backwards[i] == x->s->stages ? x->at.gradient[i] : NOT_YET;
		return x->at.forwards[i] == x->s->stages ? x->at.logits[i] : NOT_YET;
	case P4D_OP_VOCAB_FORWARD:
		return x->at.hidden[i];
	case P4D_OP_VOCAB_BACKWARD:
		return x->at.forwards[i] == x->s->stages ? x->at.logits[i] : NOT_YET;
	case P4D_OP_EMBED_BACKWARD:
		return x->at.first[i];
	}
	return 0;
}

static void join(double *moment, uint16_t *stages, double end)
{
	*moment = end > *moment ? end : *moment;
	++*stages;
}

/* Records an instruction's end for the instructions that need its result. */
static void announce(runner *x, uint32_t stage, const p4d_instruction *in, double end)
{
	const bool chunk = in->chunk < x->s->chunks;
	const uint32_t position = chunk ? p4d_schedule_position_of(x->s, stage, in->chunk) : 0;
	const uint32_t i = in->micro_batch;
	const double synced = end + x->d->vocabulary_sync, sent = end + (in->peer == stage ? 0 : x->d->send);

	switch (in->op) {
	case P4D_OP_SEND_FORWARD:
		*arrival_of(x, x->at.forward, position + 1, in) = sent;
		return;
	case P4D_OP_SEND_BACKWARD:
		*arrival_of(x, x->at.backward, position - 1, in) = sent;
		return;
	}
	if (x->s->vocabulary == P4D_VOCAB_OFF)
		return;
	switch (in->op) {
	case P4D_OP_FORWARD:
		if (position == x->last)
			x->at.hidden[i] = synced;
		break;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		if (position == 0)
			x->at.first[i] = synced;
		break;
	case P4D_OP_EMBED_FORWARD:
		join(&x->at.embedded[i], &x->at.embeds[i], synced);
		break;
	case P4D_OP_VOCAB_FORWARD:
		join(&x->at.logits[i], &x->at.forwards[i], synced);
		break;
	case P4D_OP_VOCAB_BACKWARD:
		join(&x->at.gradient[i], &x->at.backwards[i], synced);
		break;
	}
}

static bool is_forward_or_backward(const p4d_instruction *in)
{
	return in->op == P4D_OP_FORWARD || p4d_is_backward(in->op);
}

/* The pass of the other direction next to this one in its stage's list; NULL: it has none. */
static const p4d_instruction *partner_of(const runner *x, const p4d_instruction_list *list,
					 const p4d_instruction *in)
{
	const bool forward = in->op == P4D_OP_FORWARD;
	const p4d_instruction *other = in, *end = forward ? &list->at[list->count - 1] : list->at;

	do {
		if (other == end)
			return NULL;
		other += forward ? 1 : -1;
	} while (!is_forward_or_backward(other));
	return p4d_runs_beside(x->s, in->op, in->chunk, other->op, other->chunk) ? other : NULL;
}

/* Whether the weight gradient follows at once, so that both halves of the backward pass are one. */
static bool is_whole(const p4d_instruction_list *list, const p4d_instruction *in)
{
	const p4d_instruction *next = in + 1, *end = list->at + list->count;

	if (next < end && next->op == P4D_OP_SEND_BACKWARD)
		next++;
	return in->op == P4D_OP_BACKWARD_INPUT && next < end && next->op == P4D_OP_BACKWARD_WEIGHT &&
	       next->chunk == in->chunk && next->micro_batch == in->micro_batch;
}

/* Divides the time of a pair between its passes. */
static void divide(runner *x, uint32_t stage, const pair *of, const p4d_instruction *backward)
{
	p4d_span *span = x->span[stage], *last = &span[backward - x->lists[stage].at];

	span[of->forward - x->lists[stage].at] = (p4d_span){last->start, last->start + of->seconds};
	last->start += of->seconds;
}

static void set_span(runner *x, uint32_t stage, const p4d_instruction *in, double start, double end)
{
	const bool sends = in->op == P4D_OP_SEND_FORWARD || in->op == P4D_OP_SEND_BACKWARD;

	if (x->span)
		x->span[stage][in - x->lists[stage].at] =
		    (p4d_span){start, end + (sends && in->peer != stage ? x->d->send : 0)};
}

/* The passes are done: their results are sent. */
static void close_pair(runner *x, uint32_t stage, double end)
{
	pair *of = &x->pairs[stage];

	for (unsigned i = 0; i < of->sends; i++) {
		announce(x, stage, of->send[i], end);
		set_span(x, stage, of->send[i], end, end);
	}
	*of = (pair){0};
}

/* Runs an instruction of a list with pairs, whose data is available; its end. */
static double run_paired(runner *x, uint32_t stage, const p4d_instruction *in, double start)
{
	pair *of = &x->pairs[stage];
	const bool crosswise = p4d_schedule_kinds[x->s->kind]->crosswise, passes = is_forward_or_backward(in);
	const double cost = p4d_cost(x->s, x->d, stage, in);
	const bool alone = passes && !partner_of(x, &x->lists[stage], in);
	double end = start + cost + (alone ? x->d->alone[p4d_pass_index(x->s, stage, in)] : 0);

	if (crosswise && in->op == P4D_OP_FORWARD && !alone) {
		*of = (pair){.open = true, .forward = in, .seconds = cost};
		return start;
	}
	if (of->open && (in->op == P4D_OP_SEND_FORWARD || in->op == P4D_OP_SEND_BACKWARD)) {
		of->send[of->sends++] = in;
		return start;
	}
	end += p4d_is_backward(in->op) ? of->seconds : 0;
	set_span(x, stage, in, start, end);
	if (p4d_is_backward(in->op) && of->forward && x->span)
		divide(x, stage, of, in);
	announce(x, stage, in, end);
	if (p4d_is_backward(in->op) && crosswise && is_whole(&x->lists[stage], in)) {
		of->open = true;
		of->seconds = 0;
	} else if (p4d_is_backward(in->op) || in->op == P4D_OP_BACKWARD_WEIGHT) {
		close_pair(x, stage, end);
	}
	return end;
}

/* Runs an instruction whose data is available; its end. */
static double run_one(runner *x, uint32_t stage, const p4d_instruction *in, double start)
{
	const double cost = p4d_cost(x->s, x->d, stage, in);

	x->busy[stage] += cost;
	if (x->d->alone)
		return run_paired(x, stage, in, start);
	announce(x, stage, in, start + cost);
	set_span(x, stage, in, start, start + cost);
	return start + cost;
}

/* Runs a stage until an instruction has to wait; true if it made progress. */
static bool run_stage(runner *x, uint32_t stage)
{
	const p4d_instruction_list *list = &x->lists[stage];
	const size_t from = x->next[stage];
	size_t at = from;

	for (; at < list->count; at++) {
		const double data = data_time(x, stage, &list->at[at]);
		if (data < 0)
			break;
		x->clock[stage] =
		    run_one(x, stage, &list->at[at], data > x->clock[stage] ? data : x->clock[stage]);
	}
	x->next[stage] = at;
	return at > from;
}

/*
 * Runs all stages. It visits them upwards and downwards in turn, because forward passes go up and backward
 * passes go down.
 */
static int run(runner *x)
{
	const uint32_t p = x->s->stages;
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < 2 * p; i++)
			moved |= run_stage(x, i < p ? i : 2 * p - 1 - i);
	}
	for (uint32_t stage = 0; stage < p; stage++)
		if (x->next[stage] < x->lists[stage].count)
			return p4d_schedule_instruction_fail(x->err, &x->lists[stage], stage, x->next[stage],
							     "deadlock");
	return 0;
}

/* Checks the fields of instructions, because they are used as indices. */
static int check_fields(const runner *x)
{
	for (uint32_t stage = 0; stage < x->s->stages; stage++) {
		for (size_t at = 0; at < x->lists[stage].count; at++) {
			const char *fault =
			    p4d_schedule_instruction_fault(x->s, stage, &x->lists[stage].at[at]);
			if (fault)
				return p4d_schedule_instruction_fail(x->err, &x->lists[stage], stage, at,
								     "%s", fault);
		}
	}
	return 0;
}

static int allocate_spans(runner *x)
{
	x->span = calloc(x->s->stages, sizeof(*x->span));
	for (uint32_t stage = 0; x->span && stage < x->s->stages; stage++) {
		x->span[stage] = malloc(x->lists[stage].count * sizeof(**x->span) + 1);
		if (!x->span[stage])
			return -1;
	}
	return x->span ? 0 : -1;
}

/* Scratch memory of a run. */
typedef struct scratch {
	double *moments;
	uint16_t *stages;
} scratch;

static void release(runner *x, scratch *memory)
{
	free(memory->moments);
	free(memory->stages);
	free(x->next);
	free(x->pairs);
}

static int allocate(runner *x, scratch *memory)
{
	const size_t p = x->s->stages, m = x->s->micro_batches, cells = p4d_schedule_positions(x->s) * m;
	const size_t all = 2 * cells + 5 * m;
	double *at = malloc((all + p) * sizeof(*at));

	memory->moments = at;
	memory->stages = calloc(3 * m, sizeof(*memory->stages));
	x->next = calloc(p, sizeof(*x->next));
	x->pairs = calloc(p, sizeof(*x->pairs));
	if (!at || !memory->stages || !x->next || !x->pairs)
		return -1;
	for (size_t i = 0; i < all; i++)
		at[i] = NOT_YET;
	x->clock = at + all;
	for (size_t i = 0; i < p; i++)
		x->clock[i] = 0;
	x->at.forward = at;
	x->at.backward = at + cells;
	at += 2 * cells;
	x->at.embedded = at;
	x->at.hidden = at + m;
	x->at.logits = at + 2 * m;
	x->at.gradient = at + 3 * m;
	x->at.first = at + 4 * m;
	x->at.embeds = memory->stages;
	x->at.forwards = memory->stages + m;
	x->at.backwards = memory->stages + 2 * m;
	return 0;
}

int p4d_timeline_run(const p4d_schedule *s, const p4d_instruction_list *lists, const p4d_durations *d,
		     bool with_spans, p4d_timeline *out, p4d_error *err)
{
	runner x = {.s = s, .lists = lists, .d = d, .last = p4d_schedule_positions(s) - 1, .err = err};
	scratch memory = {0};
	p4d_timeline timeline = {0};
	int status = check_fields(&x);

	if (status == 0) {
		status = allocate(&x, &memory);
		timeline.busy = x.busy = calloc(s->stages, sizeof(double));
		if (!x.busy || (with_spans && allocate_spans(&x) < 0))
			status = -1;
		timeline.span = x.span;
		status = status < 0 ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a timeline") : run(&x);
	}
	for (uint32_t stage = 0; status == 0 && stage < s->stages; stage++) {
		timeline.seconds = x.clock[stage] > timeline.seconds ? x.clock[stage] : timeline.seconds;
		timeline.bubble_fraction += x.busy[stage];
	}
	release(&x, &memory);
	if (status < 0) {
		p4d_timeline_free(&timeline, s->stages);
		return -1;
	}
	if (timeline.seconds > 0)
		timeline.bubble_fraction = 1 - timeline.bubble_fraction / (s->stages * timeline.seconds);
	*out = timeline;
	return 0;
}

void p4d_timeline_free(p4d_timeline *timeline, uint32_t stages)
{
	for (uint32_t stage = 0; timeline->span && stage < stages; stage++)
		free(timeline->span[stage]);
	free(timeline->span);
	free(timeline->busy);
	*timeline = (p4d_timeline){0};
}
