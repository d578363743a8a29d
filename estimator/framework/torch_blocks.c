/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/torch_blocks.h"

#include <string.h>

#include "base/wide.h"

void p4d_torch_blocks__hold(p4d_torch_held_blocks *held, p4d_allocated block)
{
	if (held->count < P4D_TORCH_HELD)
		held->of[held->count++] = block;
	else
		held->overflow = true;
}

void p4d_torch_blocks__release(p4d_caching_allocator *a, p4d_torch_held_blocks *held, unsigned count)
{
	for (unsigned i = count; i < held->count; i++)
		p4d_caching_allocator_give(a, held->of[i]);
	held->count = held->count > count ? count : held->count;
}

void p4d_torch_blocks__take(p4d_caching_allocator *a, p4d_torch_held_blocks *into, p4d_wide bytes)
{
	const p4d_allocated block = p4d_caching_allocator_take(a, bytes);

	if (into && block)
		p4d_torch_blocks__hold(into, block);
}

static short storage(const p4d_tape *t, short value)
{
	return value < 0 ? -1 : t->value[value].storage;
}

static void lengthen(p4d_torch_blocks *b, const p4d_tape *t, short value, unsigned operation)
{
	const short s = storage(t, value);

	if (s >= 0 && b->until[s] < (short)operation)
		b->until[s] = (short)operation;
}

/* For each storage: when Python drops it, and how many operations save it. */
static void find_lifetimes(p4d_torch_blocks *b, const p4d_tape *t, bool save)
{
	memset(b->saved, 0, t->values * sizeof(*b->saved));
	for (unsigned i = 0; i < t->values; i++)
		b->until[i] = t->value[i].until;
	for (unsigned i = 0; i < t->operations; i++) {
		const p4d_tape_operation *o = &t->operation[i];
		for (int k = 0; k < P4D_TAPE_INPUTS; k++)
			lengthen(b, t, o->in[k], i);
		lengthen(b, t, o->out, i);
		for (int k = 0; save && k < P4D_TAPE_SAVED; k++)
			if (o->saved[k] >= 0)
				b->saved[storage(t, o->saved[k])]++;
	}
}

/*
 * A matmul converts its weights before it allocates its result. Other scratch memory is allocated after the
 * result.
 */
static void compute(p4d_torch_blocks *b, const p4d_tape *t, const p4d_tape_operation *o, unsigned i,
		    bool save)
{
	p4d_allocated unpacked = o->multiplies ? p4d_caching_allocator_take(b->allocator, o->scratch) : 0;

	b->copy[i] = p4d_caching_allocator_take(b->allocator, o->copy);
	if (o->out >= 0 && storage(t, o->out) == o->out)
		b->value[o->out] = p4d_caching_allocator_take(b->allocator, t->value[o->out].bytes);
	if (o->multiplies)
		p4d_allocator_touch(b->allocator, o->biased ? 1 << 20 : b->workspace);
	else
		p4d_allocator_touch(b->allocator, o->scratch);
	b->kept[i] = save ? p4d_caching_allocator_take(b->allocator, o->kept) : 0;
	p4d_allocator_forget(b->allocator, &unpacked);
}

p4d_allocated p4d_torch_blocks__forward(p4d_torch_blocks *b, const p4d_tape *t, p4d_torch_pass pass,
					p4d_allocated input, bool keep_input, p4d_torch_held_blocks *cached)
{
	const bool save = pass != P4D_TORCH_SAVES_NONE;
	unsigned end = t->operations;
	const short last = storage(t, t->operation[end - 1].out);

	find_lifetimes(b, t, save);
	while (pass == P4D_TORCH_AGAIN && end && !p4d_tape_saves(&t->operation[end - 1]))
		end--;
	memset(b->value, 0, t->values * sizeof(*b->value));
	b->value[0] = input;
	short first = 1; /* earlier storages were dropped by Python, or an operation saved them */
	for (unsigned i = 0; i < end; i++) {
		const p4d_tape_operation *o = &t->operation[i];
		compute(b, t, o, i, save);
		if (b->copy[i] && !save && o->cached && cached)
			p4d_torch_blocks__hold(cached, b->copy[i]);
		else if (b->copy[i] && !save)
			p4d_allocator_forget(b->allocator, &b->copy[i]);
		const short made = o->out > 0 ? o->out : 0;
		for (short v = first; v <= made; v++)
			if (b->value[v] && !b->saved[v] && b->until[v] <= (short)i && v != last)
				p4d_allocator_forget(b->allocator, &b->value[v]);
		while (first <= made && (!b->value[first] || b->saved[first]))
			first++;
	}
	for (unsigned v = 1; end < t->operations && v < t->values; v++)
		if (b->value[v] && !b->saved[v])
			p4d_allocator_forget(b->allocator, &b->value[v]);
	if (!keep_input && !b->saved[0])
		p4d_allocator_forget(b->allocator, &b->value[0]);
	return last >= 0 ? b->value[last] : 0;
}

void p4d_torch_blocks__put(p4d_torch_blocks *b, const p4d_tape *t, p4d_torch_held_blocks *saved)
{
	for (unsigned v = 0; v < t->values; v++)
		if (b->saved[v])
			p4d_torch_blocks__hold(saved, b->value[v]);
	for (unsigned i = 0; i < t->operations; i++) {
		if (t->operation[i].kept)
			p4d_torch_blocks__hold(saved, b->kept[i]);
		if (t->operation[i].copy)
			p4d_torch_blocks__hold(saved, b->copy[i]);
	}
}

static p4d_allocated pop(p4d_torch_held_blocks *held)
{
	return held->count ? held->of[--held->count] : 0;
}

void p4d_torch_blocks__get(p4d_torch_blocks *b, const p4d_tape *t, p4d_torch_held_blocks *saved)
{
	find_lifetimes(b, t, true);
	for (unsigned i = t->operations; i-- > 0;) {
		b->copy[i] = t->operation[i].copy ? pop(saved) : 0;
		b->kept[i] = t->operation[i].kept ? pop(saved) : 0;
	}
	for (unsigned v = t->values; v-- > 0;)
		b->value[v] = b->saved[v] ? pop(saved) : 0;
}

/* ---- backward ---- */

enum { GRADIENTS = 4 * P4D_TAPE_VALUES };

/* Gradients of values, which may share memory. */
typedef struct held_gradients {
	short of[P4D_TAPE_VALUES]; /* by value: index of the memory block of its gradient; -1: none yet */
	struct {
		p4d_allocated block;
		uint64_t bytes;
		unsigned refs;
	} memory[GRADIENTS];
	short count;
} held_gradients;

static short keep(held_gradients *g, p4d_allocated block, uint64_t bytes)
{
	const short m = g->count < GRADIENTS - 1 ? g->count++ : g->count;

	g->memory[m].block = block;
	g->memory[m].bytes = bytes;
	g->memory[m].refs = 1;
	return m;
}

static void release(p4d_torch_blocks *b, held_gradients *g, short m)
{
	if (m >= 0 && --g->memory[m].refs == 0)
		p4d_allocator_forget(b->allocator, &g->memory[m].block);
}

/*
 * Adds a gradient to a value's gradient. The sum needs a new block if other values share the existing
 * gradient's block.
 */
static void arrive(p4d_torch_blocks *b, held_gradients *g, short value, short m)
{
	const short old = g->of[value];

	if (old < 0) {
		g->of[value] = m;
		return;
	}
	if (g->memory[old].refs == 1) {
		release(b, g, m);
		return;
	}
	const uint64_t bytes = g->memory[old].bytes;
	g->of[value] = keep(g, p4d_caching_allocator_take(b->allocator, bytes), bytes);
	release(b, g, old);
	release(b, g, m);
}

/* Allocates the gradient of an operation's parameters: in the matmul's type, then in the parameters' type. */
static p4d_allocated of_weight(p4d_torch_blocks *b, const p4d_tape_operation *o)
{
	p4d_allocated lowered = p4d_caching_allocator_take(b->allocator, o->lowered);

	if (!o->lowered && o->weight)
		b->gradient(b->owner, o->weight);
	if (o->multiplies && o->weight)
		p4d_allocator_touch(b->allocator, b->workspace);
	return lowered;
}

static void forget_saved(p4d_torch_blocks *b, const p4d_tape *t, const p4d_tape_operation *o, unsigned i,
			 bool keep_input)
{
	for (int k = 0; k < P4D_TAPE_SAVED; k++) {
		const short s = storage(t, o->saved[k]);
		if (s >= 0 && --b->saved[s] == 0 && !(keep_input && s == 0))
			p4d_allocator_forget(b->allocator, &b->value[s]);
	}
	p4d_allocator_forget(b->allocator, &b->kept[i]);
	p4d_allocator_forget(b->allocator, &b->copy[i]);
}

static void run_backward(p4d_torch_blocks *b, held_gradients *g, const p4d_tape *t, unsigned i,
			 bool keep_input)
{
	const p4d_tape_operation *o = &t->operation[i];
	const short gradient = o->out >= 0 ? g->of[o->out] : -1;
	short made[P4D_TAPE_INPUTS];
	p4d_allocated unpacked =
			  o->multiplies ? p4d_caching_allocator_take(b->allocator, o->back_scratch) : 0,
		      lowered = 0;

	if (o->multiplies)
		lowered = of_weight(b, o);
	for (int k = 0; k < P4D_TAPE_INPUTS; k++) {
		made[k] = -1;
		if (o->in[k] < 0 || !t->value[o->in[k]].needs)
			continue;
		if (o->gradient[k] == P4D_NEW_GRADIENT) {
			const uint64_t bytes = t->value[o->in[k]].bytes;
			made[k] = keep(g, p4d_caching_allocator_take(b->allocator, bytes), bytes);
			if (o->multiplies)
				p4d_allocator_touch(b->allocator, b->workspace);
		} else if (o->gradient[k] == P4D_SAME_GRADIENT && gradient >= 0) {
			made[k] = gradient;
			g->memory[gradient].refs++;
		}
	}
	if (!o->multiplies) {
		p4d_allocator_touch(b->allocator, o->back_scratch);
		lowered = of_weight(b, o);
	}
	p4d_allocator_forget(b->allocator, &unpacked);
	forget_saved(b, t, o, i, keep_input);
	if (gradient >= 0) {
		release(b, g, gradient);
		g->of[o->out] = -1;
	}
	for (int k = 0; k < 2; k++)
		if (o->others[k] >= 0 && g->of[o->others[k]] >= 0) {
			release(b, g, g->of[o->others[k]]);
			g->of[o->others[k]] = -1;
		}
	for (int k = 0; k < P4D_TAPE_INPUTS; k++)
		if (made[k] >= 0)
			arrive(b, g, o->in[k], made[k]);
	if (o->lowered)
		b->gradient(b->owner, o->weight);
	p4d_allocator_forget(b->allocator, &lowered);
}

p4d_allocated p4d_torch_blocks__backward(p4d_torch_blocks *b, const p4d_tape *t, p4d_allocated gradient,
					 bool keep_input)
{
	held_gradients g; /* too large to clear; only the used part of its arrays is initialized */
	const short last = t->operation[t->operations - 1].out;

	g.count = 0;
	memset(g.of, -1, t->values * sizeof(*g.of));
	if (last >= 0)
		g.of[last] = keep(&g, gradient, t->value[last].bytes);
	for (unsigned i = t->operations; i-- > 0;) {
		const p4d_tape_operation *o = &t->operation[i];
		bool wanted = o->weight > 0;
		for (int k = 0; k < P4D_TAPE_INPUTS; k++)
			wanted = wanted || (o->in[k] >= 0 && t->value[o->in[k]].needs);
		if (wanted && (o->out < 0 || g.of[o->out] >= 0))
			run_backward(b, &g, t, i, keep_input);
	}
	return g.of[0] >= 0 ? g.memory[g.of[0]].block : 0;
}

/* ---- a layout ---- */

static uint64_t reserved_of_all(p4d_allocator_play *play, void *of, bool is_short, uint64_t *taken)
{
	p4d_allocator_use use = {0};

	if (is_short)
		return p4d_caching_allocator_least(play, of, taken);
	const uint64_t reserved = play(of, UINT64_MAX, &use);
	*taken = use.taken;
	return reserved;
}

uint64_t p4d_torch_blocks__reserved(p4d_allocator_play *play, void *of, uint32_t *played, uint64_t layers,
				    uint32_t depth, bool is_short)
{
	const uint64_t more = layers > depth ? layers - depth : 0;
	p4d_allocator_use half_use = {0};
	uint64_t taken;

	*played = (uint32_t)(layers - more);
	const uint64_t some = reserved_of_all(play, of, is_short, &taken);
	if (!some || !more)
		return some;
	*played = depth / 2;
	const uint64_t half = play(of, UINT64_MAX, &half_use);
	const uint64_t half_taken = half_use.taken;
	if (!half || taken <= half_taken || (!is_short && some <= half))
		return 0;
	/* on a nearly full GPU, further layers use reserved memory that the simulated layers left unused */
	const uint64_t each =
	    is_short ? (uint64_t)((p4d_wide)(taken - half_taken) / (depth - depth / 2) * some / taken)
		     : (some - half) / (depth - depth / 2);
	return some + each * more;
}
