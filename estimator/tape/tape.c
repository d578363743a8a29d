/* SPDX-License-Identifier: Apache-2.0 */
#include "tape/tape.h"

#include <string.h>

short p4d_tape__value(p4d_tape *t, uint64_t bytes, bool needs)
{
	if (t->values == P4D_TAPE_VALUES) {
		t->overflow = true;
		return 0;
	}
	t->value[t->values].bytes = (bytes + 511) & ~511ull; /* CUDACachingAllocator's blocks */
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
	*o = (p4d_tape_operation){
	    .in = {-1, -1, -1}, .out = -1, .others = {-1, -1}, .saved = {-1, -1, -1, -1, -1}};
	return o;
}

void p4d_tape_hold(p4d_tape *t, short value)
{
	t->value[t->value[value].storage].until = (short)(t->operations - 1);
}

/* ---- playing ---- */

typedef struct player {
	const p4d_tape *tape;
	const p4d_tape_pass *again; /* of a backward pass: what recomputes, until it did */
	int64_t live, weights, cached;
	p4d_tape_moment most;
	short until[P4D_TAPE_VALUES]; /* of a storage: the operation after which Python has forgotten it */
	unsigned short saved[P4D_TAPE_VALUES]; /* by so many operations */
} player;

static void look_at(player *p, p4d_tape_moment beside)
{
	const p4d_tape_moment at = {p->live + beside.live, p->weights + beside.weights};

	if (at.live + at.weights > p->most.live + p->most.weights)
		p->most = at;
}

static void look(player *p, uint64_t scratch)
{
	look_at(p, (p4d_tape_moment){(int64_t)scratch, 0});
}

static bool saves(const p4d_tape_operation *o)
{
	return o->saved[0] >= 0 || o->kept || o->copy;
}

/* When Python forgets each storage, and how many operations save it. */
static void start(player *p, const p4d_tape *t, bool save)
{
	p->tape = t; /* of its arrays as much is set as is used */
	p->again = NULL;
	p->live = p->weights = p->cached = 0;
	p->most = (p4d_tape_moment){0, 0};
	memset(p->saved, 0, t->values * sizeof(*p->saved));
	for (unsigned i = 0; i < t->values; i++)
		p->until[i] = t->value[i].until;
	for (unsigned i = 0; i < t->operations; i++) {
		const p4d_tape_operation *o = &t->operation[i];
		for (int k = 0; k < P4D_TAPE_INPUTS; k++)
			if (o->in[k] >= 0 && p->until[t->value[o->in[k]].storage] < (short)i)
				p->until[t->value[o->in[k]].storage] = (short)i;
		if (o->out >= 0 && p->until[t->value[o->out].storage] < (short)i)
			p->until[t->value[o->out].storage] = (short)i;
		for (int k = 0; save && k < P4D_TAPE_SAVED; k++)
			if (o->saved[k] >= 0)
				p->saved[t->value[o->saved[k]].storage]++;
	}
}

/* Storages by the operation after which Python has forgotten them; -1: no further one. */
typedef struct endings {
	short first[P4D_TAPE_OPERATIONS], next[P4D_TAPE_VALUES];
} endings;

static void list_endings(const player *p, endings *e)
{
	const p4d_tape *t = p->tape;

	memset(e->first, -1, t->operations * sizeof(*e->first));
	for (unsigned v = 1; v < t->values; v++)
		if (t->value[v].storage == (short)v && p->until[v] >= 0) {
			e->next[v] = e->first[p->until[v]];
			e->first[p->until[v]] = (short)v;
		}
}

/* Storages of results that stay. */
static void staying(const p4d_tape *t, bool stays[P4D_TAPE_VALUES])
{
	memset(stays, 0, t->values * sizeof(*stays));
	for (unsigned i = 0; i < t->operations; i++)
		if (t->operation[i].stays && t->operation[i].out >= 0)
			stays[t->value[t->operation[i].out].storage] = true;
}

/* What operations keep for the backward pass: those whose result stays, and the others. */
typedef struct kept_by {
	bool staying, others;
} kept_by;

/* Operations 0..end-1. there: storages whose memory was there before; NULL: none. */
static void walk(player *p, unsigned end, kept_by kept, const bool *there)
{
	const p4d_tape *t = p->tape;
	endings forgotten;

	list_endings(p, &forgotten);
	for (unsigned i = 0; i < end; i++) {
		const p4d_tape_operation *o = &t->operation[i];
		const short result = o->out < 0 ? -1 : t->value[o->out].storage;
		const short last = i + 1 == t->operations ? result < 0 ? 0 : result : -1;
		if (result >= 0 && result == o->out && !(there && there[result]))
			p->live += (int64_t)t->value[result].bytes;
		p->live +=
		    ((o->stays ? kept.staying : kept.others) ? (int64_t)o->kept : 0) + (int64_t)o->copy;
		look(p, o->scratch);
		if (!kept.others)
			*(o->cached ? &p->cached : &p->live) += (o->cached ? 1 : -1) * (int64_t)o->copy;
		for (short v = forgotten.first[i]; v >= 0; v = forgotten.next[v])
			if (!p->saved[v] && v != last)
				p->live -= (int64_t)t->value[v].bytes;
	}
}

static p4d_tape_pass pass_of(const player *p)
{
	return (p4d_tape_pass){.most = p->most, .end = {p->live, 0}, .cached = p->cached};
}

p4d_tape_pass p4d_tape_forward(const p4d_tape *t, bool save, bool again, bool keep_input)
{
	player p;
	unsigned end = t->operations;

	start(&p, t, save);
	while (again && end && !saves(&t->operation[end - 1]))
		end--;
	walk(&p, end, (kept_by){save, save}, NULL);
	/* what an early end leaves behind */
	for (unsigned i = 0; end < t->operations && i < end; i++) {
		const short v = t->operation[i].out;
		if (v > 0 && p.until[v] >= (short)end && t->value[v].storage == v && !p.saved[v])
			p.live -= (int64_t)t->value[v].bytes;
	}
	if (!keep_input && !p.saved[0])
		p.live -= (int64_t)t->value[0].bytes;
	return pass_of(&p);
}

p4d_tape_pass p4d_tape_selected(const p4d_tape *t)
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

p4d_tape_pass p4d_tape_again_selected(const p4d_tape *t)
{
	player p;
	bool stays[P4D_TAPE_VALUES];
	const short last = t->operation[t->operations - 1].out;

	start(&p, t, true);
	staying(t, stays);
	walk(&p, t->operations, (kept_by){false, true}, stays);
	if (last >= 0 && !p.saved[t->value[last].storage]) /* nobody wants it again */
		p.live -= (int64_t)t->value[last].bytes;
	return pass_of(&p);
}

/* Gradients of values: memory that they may share. */
typedef struct gradients {
	short of[P4D_TAPE_VALUES];           /* by value: index of the memory; -1: none yet */
	uint64_t bytes[4 * P4D_TAPE_VALUES]; /* by memory */
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

/* A gradient arrives; a sum takes memory where the first one is not ours alone. */
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

static void run_backward(player *p, gradients *g, const p4d_tape_operation *o, bool reduced, bool keep_input)
{
	const p4d_tape *t = p->tape;
	const short gradient = o->out >= 0 ? g->of[o->out] : -1;
	short made[P4D_TAPE_INPUTS];

	if (p->again && saves(o)) {
		look_at(p, p->again->most);
		p->live += p->again->end.live;
		p->again = NULL;
	}
	p->live += (int64_t)o->arrives;
	look(p, 0);
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
	p->weights += (int64_t)(o->lowered ? o->lowered : o->weight);
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
	if (o->lowered) {
		p->weights += (int64_t)o->weight;
		look(p, 0);
		p->weights -= (int64_t)o->lowered;
	}
	if (reduced)
		p->weights -= (int64_t)o->weight;
}

static p4d_tape_pass backward(const p4d_tape *t, const p4d_tape_pass *again, bool reduced, bool keep_input)
{
	player p;
	gradients g; /* of its arrays as much is set as is used */
	const short last = t->operation[t->operations - 1].out;

	start(&p, t, true);
	p.again = again;

	g.count = 0;
	memset(g.of, -1, t->values * sizeof(*g.of));
	if (last >= 0) {
		g.of[last] = make(&p, &g, t->value[last].bytes);
		p.live = 0; /* it was there */
	}
	for (unsigned i = t->operations; i-- > 0;) {
		const p4d_tape_operation *o = &t->operation[i];
		bool wanted = o->weight > 0;
		for (int k = 0; k < P4D_TAPE_INPUTS; k++)
			wanted = wanted || (o->in[k] >= 0 && t->value[o->in[k]].needs);
		if (wanted && (o->out < 0 || g.of[o->out] >= 0))
			run_backward(&p, &g, o, reduced, keep_input);
	}
	p.live -= keep_input ? (int64_t)t->value[0].bytes : 0;
	return (p4d_tape_pass){.most = p.most, .end = {p.live, p.weights}};
}

p4d_tape_pass p4d_tape_backward(const p4d_tape *t, bool reduced, bool keep_input)
{
	return backward(t, NULL, reduced, keep_input);
}

p4d_tape_pass p4d_tape_backward_again(const p4d_tape *t, p4d_tape_pass again, bool reduced)
{
	return backward(t, &again, reduced, true);
}
