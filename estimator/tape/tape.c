/* SPDX-License-Identifier: Apache-2.0 */
#include "tape/tape.h"

#include <string.h>

short p4d_tape__value(p4d_tape *t, uint64_t bytes, bool needs)
{
	if (t->values == P4D_TAPE_VALUES) {
		t->overflow = true;
		return 0;
	}
	t->value[t->values].bytes =
	    (bytes + 511) & ~511ull; /* rounded to the block size of CUDACachingAllocator */
	t->value[t->values].storage = (short)t->values;
	t->value[t->values].needs = needs;
	t->value[t->values].until = -1;
	return (short)t->values++;
}

short p4d_tape__view(p4d_tape *t, short of, uint64_t bytes)
{
	const short v = p4d_tape__value(t, bytes, t->value[of].needs);

	t->value[v].storage = t->value[of].storage;
	return v;
}

p4d_tape_operation *p4d_tape_append(p4d_tape *t)
{
	if (t->operations == P4D_TAPE_OPERATIONS) {
		t->overflow = true;
		t->operations--;
	}
	p4d_tape_operation *o = &t->operation[t->operations++];
	t->lives.operations = 0;
	*o = (p4d_tape_operation){
	    .in = {-1, -1, -1}, .out = -1, .others = {-1, -1}, .saved = {-1, -1, -1, -1, -1}};
	return o;
}

void p4d_tape_hold(p4d_tape *t, short value)
{
	t->value[t->value[value].storage].until = (short)(t->operations - 1);
	t->lives.operations = 0;
}

/* ---- simulation ---- */

static void lengthen(const p4d_tape *t, p4d_tape_lives *lives, short value, short operation)
{
	if (value >= 0 && lives->until[t->value[value].storage] < operation)
		lives->until[t->value[value].storage] = operation;
}

static void find_lives(p4d_tape *t)
{
	p4d_tape_lives *lives = &t->lives; /* only the used part of its arrays is set */

	lives->operations = t->operations;
	memset(lives->saved, 0, t->values * sizeof(*lives->saved));
	memset(lives->first, -1, t->operations * sizeof(*lives->first));
	for (unsigned i = 0; i < t->values; i++)
		lives->until[i] = t->value[i].until;
	for (unsigned i = 0; i < t->operations; i++) {
		const p4d_tape_operation *o = &t->operation[i];
		for (int k = 0; k < P4D_TAPE_INPUTS; k++)
			lengthen(t, lives, o->in[k], (short)i);
		lengthen(t, lives, o->out, (short)i);
		for (int k = 0; k < P4D_TAPE_SAVED; k++)
			if (o->saved[k] >= 0)
				lives->saved[t->value[o->saved[k]].storage]++;
	}
	for (unsigned v = 1; v < t->values; v++)
		if (t->value[v].storage == (short)v && lives->until[v] >= 0) {
			lives->next[v] = lives->first[lives->until[v]];
			lives->first[lives->until[v]] = (short)v;
		}
}

typedef struct player {
	const p4d_tape *tape;
	int64_t live, cached;
	int64_t most;                          /* peak of the forward pass */
	unsigned short saved[P4D_TAPE_VALUES]; /* number of operations that saved the value */
	/* only in the backward pass; way, widest and weights have an element for each of the `ways` */
	const p4d_tape_weights *way;
	unsigned ways;
	p4d_tape_moment widest[P4D_TAPE_WAYS];
	int64_t weights[P4D_TAPE_WAYS];
	const p4d_tape_pass *again; /* the recomputing pass; NULL after it has run */
} player;

/* save: operations keep the tensors for their backward pass. */
static void start(player *p, p4d_tape *t, bool save)
{
	if (t->lives.operations != t->operations)
		find_lives(t);
	p->tape = t; /* only the used part of its arrays is set */
	p->live = p->cached = p->most = 0;
	if (save)
		memcpy(p->saved, t->lives.saved, t->values * sizeof(*p->saved));
	else
		memset(p->saved, 0, t->values * sizeof(*p->saved));
}

/* ---- forward ---- */

/* Marks the storages of results that selective recomputation keeps. */
static void staying(const p4d_tape *t, bool stays[P4D_TAPE_VALUES])
{
	memset(stays, 0, t->values * sizeof(*stays));
	for (unsigned i = 0; i < t->operations; i++)
		if (t->operation[i].stays && t->operation[i].out >= 0)
			stays[t->value[t->operation[i].out].storage] = true;
}

/* Which operations save tensors for the backward pass: those whose result is kept, and all others. */
typedef struct kept_by {
	bool staying, others;
} kept_by;

/* Simulates operations 0..end-1. there: storages that existed before these operations; NULL: none. */
static void walk(player *p, unsigned end, kept_by kept, const bool *there)
{
	const p4d_tape *t = p->tape;
	const p4d_tape_lives *lives = &t->lives;

	for (unsigned i = 0; i < end; i++) {
		const p4d_tape_operation *o = &t->operation[i];
		const short result = o->out < 0 ? -1 : t->value[o->out].storage;
		const short last = i + 1 == t->operations ? result < 0 ? 0 : result : -1;
		if (result >= 0 && result == o->out && !(there && there[result]))
			p->live += (int64_t)t->value[result].bytes;
		p->live +=
		    ((o->stays ? kept.staying : kept.others) ? (int64_t)o->kept : 0) + (int64_t)o->copy;
		if (p->live + (int64_t)o->scratch > p->most)
			p->most = p->live + (int64_t)o->scratch;
		if (!kept.others)
			*(o->cached ? &p->cached : &p->live) += (o->cached ? 1 : -1) * (int64_t)o->copy;
		for (short v = lives->first[i]; v >= 0; v = lives->next[v])
			if (!p->saved[v] && v != last)
				p->live -= (int64_t)t->value[v].bytes;
	}
}

static p4d_tape_pass pass_of(const player *p)
{
	return (p4d_tape_pass){.most = {p->most, 0}, .end = {p->live, 0}, .cached = p->cached};
}

p4d_tape_pass p4d_tape_forward(p4d_tape *t, bool save, bool again, bool keep_input)
{
	player p;
	unsigned end = t->operations;

	start(&p, t, save);
	while (again && end && !p4d_tape_saves(&t->operation[end - 1]))
		end--;
	walk(&p, end, (kept_by){save, save}, NULL);
	/* values that still exist because the pass ended early */
	for (unsigned i = 0; end < t->operations && i < end; i++) {
		const short v = t->operation[i].out;
		if (v > 0 && t->lives.until[v] >= (short)end && t->value[v].storage == v && !p.saved[v])
			p.live -= (int64_t)t->value[v].bytes;
	}
	if (!keep_input && !p.saved[0])
		p.live -= (int64_t)t->value[0].bytes;
	return pass_of(&p);
}

p4d_tape_pass p4d_tape_selected(p4d_tape *t)
{
	player p;
	bool stays[P4D_TAPE_VALUES];

	start(&p, t, false);
	staying(t, stays);
	for (unsigned v = 0; v < t->values; v++)
		p.saved[v] = stays[v];
	walk(&p, t->operations, (kept_by){true, false}, NULL);
	return pass_of(&p);
}

p4d_tape_pass p4d_tape_again_selected(p4d_tape *t)
{
	player p;
	bool stays[P4D_TAPE_VALUES];
	const short last = t->operation[t->operations - 1].out;

	start(&p, t, true);
	staying(t, stays);
	walk(&p, t->operations, (kept_by){false, true}, stays);
	if (last >= 0 && !p.saved[t->value[last].storage]) /* no later operation uses the result */
		p.live -= (int64_t)t->value[last].bytes;
	return pass_of(&p);
}

/* ---- backward ---- */

static void look_at(player *p, p4d_tape_moment beside)
{
	const int64_t live = p->live + beside.live;

	for (unsigned k = 0; k < p->ways; k++) {
		const int64_t weights = p->weights[k] + beside.weights;
		if (live + weights > p->widest[k].live + p->widest[k].weights)
			p->widest[k] = (p4d_tape_moment){live, weights};
	}
}

static void look(player *p, uint64_t scratch)
{
	look_at(p, (p4d_tape_moment){(int64_t)scratch, 0});
}

/* Gradients of values, which may share memory. */
typedef struct gradients {
	short of[P4D_TAPE_VALUES];           /* by value: index of the memory of its gradient; -1: none yet */
	uint64_t bytes[4 * P4D_TAPE_VALUES]; /* bytes of each memory */
	unsigned short refs[4 * P4D_TAPE_VALUES];
	short count;
} gradients;

static short make(player *p, gradients *g, uint64_t bytes)
{
	const short m = g->count < 4 * P4D_TAPE_VALUES - 1 ? g->count++ : g->count;

	g->bytes[m] = bytes;
	g->refs[m] = 1;
	p->live += (int64_t)bytes;
	return m;
}

static void release(player *p, gradients *g, short m)
{
	if (m >= 0 && --g->refs[m] == 0)
		p->live -= (int64_t)g->bytes[m];
}

/*
 * Adds memory block m to a value's gradient. The sum is in place, and m is freed, if nothing else refers to
 * the value's present gradient. Otherwise the sum allocates a new block.
 */
static void arrive(player *p, gradients *g, short value, short m)
{
	const short old = g->of[value];

	if (old < 0) {
		g->of[value] = m;
		return;
	}
	if (g->refs[old] == 1) {
		release(p, g, m);
		return;
	}
	g->of[value] = make(p, g, g->bytes[old]);
	look(p, 0);
	release(p, g, old);
	release(p, g, m);
}

/*
 * Bytes of an operation's gradients of parameters: in the type of the matmul if they are cast later, and
 * after the cast.
 */
typedef struct weights {
	uint64_t lowered, stored;
} weights;

static weights weights_of(const p4d_tape_operation *o, const p4d_tape_weights *way)
{
	return way->sum ? (weights){o->lowered ? o->lowered : o->weight, o->weight / way->element * way->sum}
			: (weights){o->lowered, o->weight};
}

/* Allocates an operation's gradients of parameters, in the type in which its backward pass makes them. */
static void add_weights(player *p, const p4d_tape_operation *o)
{
	for (unsigned k = 0; o->weight && k < p->ways; k++) {
		const weights w = weights_of(o, &p->way[k]);
		p->weights[k] += (int64_t)(w.lowered ? w.lowered : w.stored);
	}
}

/*
 * Casts these gradients to their final type. Frees them if the pass reduces gradients as soon as they exist.
 */
static void cast_weights(player *p, const p4d_tape_operation *o)
{
	bool cast = false;

	if (!o->weight)
		return;
	for (unsigned k = 0; k < p->ways; k++) {
		const weights w = weights_of(o, &p->way[k]);
		p->weights[k] += w.lowered ? (int64_t)w.stored : 0;
		cast = cast || w.lowered;
	}
	if (cast)
		look(p, 0);
	for (unsigned k = 0; k < p->ways; k++) {
		const weights w = weights_of(o, &p->way[k]);
		p->weights[k] -= (int64_t)w.lowered + (p->way[k].reduced ? (int64_t)w.stored : 0);
	}
}

/* Makes the gradients of an operation's inputs. */
static void make_gradients(player *p, gradients *g, const p4d_tape_operation *o, short gradient,
			   short made[P4D_TAPE_INPUTS])
{
	const p4d_tape *t = p->tape;

	for (int k = 0; k < P4D_TAPE_INPUTS; k++) {
		made[k] = -1;
		if (o->in[k] < 0 || !t->value[o->in[k]].needs)
			continue;
		if (o->gradient[k] == P4D_NEW_GRADIENT)
			made[k] = make(p, g, t->value[o->in[k]].bytes);
		else if (o->gradient[k] == P4D_SAME_GRADIENT && gradient >= 0) {
			made[k] = gradient;
			g->refs[gradient]++;
		}
	}
}

static void run_backward(player *p, gradients *g, const p4d_tape_operation *o, bool keep_input)
{
	const p4d_tape *t = p->tape;
	const short gradient = o->out >= 0 ? g->of[o->out] : -1;
	short made[P4D_TAPE_INPUTS];

	if (p->again && p4d_tape_saves(o)) {
		look_at(p, p->again->most);
		p->live += p->again->end.live;
		p->again = NULL;
	}
	p->live += (int64_t)o->arrives;
	if (o->arrives)
		look(p, 0);
	make_gradients(p, g, o, gradient, made);
	add_weights(p, o);
	look(p, o->back_scratch);
	for (int k = 0; k < P4D_TAPE_SAVED; k++) {
		const short s = o->saved[k] >= 0 ? t->value[o->saved[k]].storage : -1;
		if (s >= 0 && --p->saved[s] == 0 && !(keep_input && s == 0))
			p->live -= (int64_t)t->value[s].bytes;
	}
	p->live -= (int64_t)(o->kept + o->copy);
	if (gradient >= 0) {
		release(p, g, gradient);
		g->of[o->out] = -1;
	}
	for (int k = 0; k < 2; k++)
		if (o->others[k] >= 0 && g->of[o->others[k]] >= 0)
			release(p, g, g->of[o->others[k]]);
	for (int k = 0; k < P4D_TAPE_INPUTS; k++)
		if (made[k] >= 0)
			arrive(p, g, o->in[k], made[k]);
	cast_weights(p, o);
}

void p4d_tape_backward_in(p4d_tape *t, const p4d_tape_pass *again, bool keep_input,
			  const p4d_tape_weights way[], unsigned ways, p4d_tape_pass pass[])
{
	player p;
	gradients g; /* only the used part of its arrays is set */
	const short last = t->operation[t->operations - 1].out;

	start(&p, t, true);
	p.again = again;
	p.way = way;
	p.ways = ways;
	memset(p.weights, 0, sizeof(p.weights));
	memset(p.widest, 0, sizeof(p.widest));
	g.count = 0;
	memset(g.of, -1, t->values * sizeof(*g.of));
	if (last >= 0) {
		g.of[last] = make(&p, &g, t->value[last].bytes);
		p.live = 0; /* the gradient of the result existed before the pass */
	}
	for (unsigned i = t->operations; i-- > 0;) {
		const p4d_tape_operation *o = &t->operation[i];
		bool wanted = o->weight > 0;
		for (int k = 0; k < P4D_TAPE_INPUTS && !wanted; k++)
			wanted = o->in[k] >= 0 && t->value[o->in[k]].needs;
		if (wanted && (o->out < 0 || g.of[o->out] >= 0))
			run_backward(&p, &g, o, keep_input);
	}
	p.live -= keep_input ? (int64_t)t->value[0].bytes : 0;
	for (unsigned k = 0; k < ways; k++)
		pass[k] = (p4d_tape_pass){.most = p.widest[k], .end = {p.live, p.weights[k]}};
}

p4d_tape_pass p4d_tape_backward(p4d_tape *t, bool reduced, bool keep_input)
{
	const p4d_tape_weights way = {.reduced = reduced};
	p4d_tape_pass pass;

	p4d_tape_backward_in(t, NULL, keep_input, &way, 1, &pass);
	return pass;
}
