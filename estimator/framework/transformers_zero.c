/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/transformers.h"

static void add(p4d_zero_list *list, uint64_t elements)
{
	if (elements && list->count < P4D_ZERO_LIST)
		list->elements[list->count++] = elements;
}

/* The parameters of a layer. Norms and biases are small, and count together as one parameter. */
p4d_zero_list p4d_transformers__parameters_of(const p4d_layout *l, unsigned kind)
{
	enum { FEED = P4D_TARGET_GATE | P4D_TARGET_UP | P4D_TARGET_DOWN };
	p4d_transformers_linear linears[P4D_TRANSFORMERS_LINEARS];
	const size_t n = p4d_transformers__linears(l, kind, linears);
	p4d_zero_list list = {.count = 0};
	uint64_t rest = (uint64_t)p4d_transformers__layer_size(l, kind, 1);

	for (size_t i = n; i-- > 0;)
		if (linears[i].target & FEED)
			add(&list, linears[i].in * linears[i].out);
	if (p4d_transformers__has_experts(kind)) {
		const uint64_t down = l->experts * l->expert_ffn * l->hidden, up = l->glu ? 2 : 1;
		const bool biased =
		    l->architecture->expert_bias; /* the bias's gradient comes first in the backward pass */
		add(&list, biased ? l->experts * l->hidden : 0);
		add(&list, down);
		add(&list, biased ? l->experts * up * l->expert_ffn : 0);
		add(&list, up * down);
		add(&list, l->experts * l->hidden);
	}
	list.feed = list.count;
	for (size_t i = n; i-- > 0;)
		if (!(linears[i].target & FEED))
			add(&list, linears[i].in * linears[i].out);
	for (unsigned i = 0; i < list.count; i++)
		rest -= list.elements[i] < rest ? list.elements[i] : rest;
	add(&list, rest);
	return list;
}

static const p4d_zero_list *segment(const p4d_zero *z, p4d_zero_cursor c)
{
	const uint64_t layers = z->layout->layers, i = c.upwards ? layers + 1 - c.segment : c.segment;

	return i == 0            ? &z->end
	       : i == layers + 1 ? &z->begin
				 : &z->of[p4d_transformers__kind_of(z->layout, layers - i)];
}

static p4d_zero_cursor cursor(const p4d_zero *z, bool upwards)
{
	p4d_zero_cursor c = {.upwards = upwards};

	c.list = segment(z, c);
	return c;
}

/* Elements of the next parameter; 0: there is none. */
static uint64_t next(const p4d_zero *z, p4d_zero_cursor *c)
{
	while (c->at == c->list->count) {
		if (c->segment == z->layout->layers + 1)
			return 0;
		c->segment++;
		c->at = 0;
		c->list = segment(z, *c);
	}
	const unsigned i = c->at++;
	return c->list->elements[c->upwards ? c->list->count - 1 - i : i];
}

static uint64_t elements_of(const p4d_zero_list *list)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < list->count; i++)
		sum += list->elements[i];
	return sum;
}

/* ---- windows ---- */

/* Starts a walk through the windows. The last window has the remainder. */
static p4d_zero_windows windows(const p4d_zero *z, uint64_t trained, bool upwards)
{
	return (p4d_zero_windows){.cursor = cursor(z, upwards),
				  .edge = upwards || trained % z->share == 0 ? z->share : trained % z->share};
}

/*
 * Called at the end of a window. touched: elements of the parameters of which the window has a part. slice:
 * the largest part of a parameter in the window. In the update of its rank (step()), the norm of each
 * gradient is computed from an fp64 copy; then the rank's part of the gradients is copied into one tensor,
 * which is cast to fp32.
 */
static void passed(const p4d_zero *z, p4d_zero_windows *w, uint64_t touched, uint64_t slice)
{
	w->most = P4D_MOST(w->most, touched);
	w->update =
	    P4D_MOST(w->update, z->element * touched + P4D_MOST((z->element + 4) * z->share, 8 * slice));
}

/* Moves past the next parameter. */
static bool advance(const p4d_zero *z, p4d_zero_windows *w)
{
	const uint64_t n = next(z, &w->cursor), end = w->at + n;

	if (!n)
		return false;
	if (!w->touched)
		w->begun = w->at;
	w->touched += n;
	w->slice = P4D_MOST(w->slice, (end < w->edge ? end : w->edge) - w->at);
	if (end >= w->edge) {
		passed(z, w, w->touched, w->slice);
		uint64_t rest = end - w->edge;
		if (rest >= z->share) { /* windows that lie completely within this parameter */
			passed(z, w, n, z->share);
			rest %= z->share;
		}
		w->edge = end - rest + z->share;
		w->begun = w->at;
		w->touched = rest ? n : 0;
		w->slice = rest;
	}
	w->at = end;
	return true;
}

/* Moves past all windows that contain a parameter among the first `elements` elements. */
static void advance_to(const p4d_zero *z, p4d_zero_windows *w, uint64_t elements)
{
	while (w->at < elements || (w->touched && w->begun < elements))
		if (!advance(z, w))
			break;
	if (w->touched && w->begun < elements)
		passed(z, w, w->touched, w->slice); /* the last window, which ends with the model */
}

static bool on_host(const p4d_zero *z)
{
	return z->layout->offload & P4D_OFFLOAD_OPTIMIZER;
}

/*
 * Whether gradients are reduced after the last backward pass. Stage 1 does so, in the order of the model,
 * unless reductions overlap with that pass.
 */
static bool at_end(const p4d_layout *l)
{
	return l->zero_stage == 1 && !l->overlap_dp;
}

uint64_t p4d_transformers__zero_left(const p4d_zero *z)
{
	const p4d_layout *l = z->layout;

	return l && l->zero_stage == 2 && !on_host(z) && l->micro_batches > 1 ? z->most * z->element : 0;
}

void p4d_transformers__zero_start(p4d_zero *z, const p4d_layout *l, uint64_t trained, unsigned element)
{
	const bool kept =
	    p4d_framework_shares(l, P4D_SHARES_BY_STAGE) && l->zero_stage >= 1 && l->zero_stage <= 2;
	const uint64_t table = l->vocab * l->hidden, share = (trained + l->dp - 1) / l->dp;
	uint64_t rest = trained;

	z->element = element;
	z->share = share ? share : 1;
	z->most = share;
	if (!kept)
		return;
	z->layout = l;
	/* adapters are so small that p4d does not simulate how their gradients fill the bucket */
	if (l->finetune != P4D_TUNE_FULL)
		return;
	add(&z->begin, (uint64_t)p4d_size_of_begin(l));
	add(&z->begin, table);
	add(&z->end, l->tied ? 0 : table);
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++)
		if (kinds.layers[kind]) {
			z->of[kind] = p4d_transformers__parameters_of(l, kind);
			rest -= kinds.layers[kind] * elements_of(&z->of[kind]);
		}
	const uint64_t ends = elements_of(&z->begin) + elements_of(&z->end);
	add(&z->end, rest > ends ? rest - ends : 0); /* the last norm's parameters */
	z->now = cursor(z, at_end(l));
	z->ahead = windows(z, trained, at_end(l));
	z->boundary = z->ahead.edge;
	z->group = (l->zero_bucket / z->share + 1) * z->share;
	if (p4d_transformers__zero_left(z)) {
		p4d_zero_windows all = z->ahead;
		advance_to(z, &all, UINT64_MAX);
		z->most = all.most;
	}
}

/* ---- reduction ---- */

/*
 * Parts of the bucket for different ranks are reduced from a copy, in groups that end when they exceed the
 * bucket's size (allreduce_and_scatter); a single part needs no copy. Returns the elements of the largest
 * group.
 */
static uint64_t copied(const p4d_zero *z, uint64_t bucket)
{
	const uint64_t S = z->share, n = z->waiting, first = z->boundary - (z->reduced - n);

	if (first >= n)
		return 0;
	if (n <= bucket)
		return n;
	uint64_t group = first; /* the start of the group, counted in elements of the model */
	if (!z->ahead.cursor.upwards)
		group = (n - first) % S ? (n - first) % S : S;
	uint64_t most = 0;
	if (group <= bucket) {
		const uint64_t full = group + ((bucket - group) / S + 1) * S;
		group = most = full < n ? full : n;
	}
	const uint64_t rest = n - group, last = rest > z->group ? rest % z->group : rest;
	if (rest > z->group && z->group > S)
		most = P4D_MOST(most, z->group);
	return last > S ? P4D_MOST(most, last) : most;
}

/* Empties the bucket after a reduction; takes constant time. */
static void emptied(p4d_zero *z)
{
	if (z->boundary <= z->reduced)
		z->boundary += ((z->reduced - z->boundary) / z->share + 1) * z->share;
	z->waiting = z->largest = 0;
}

/* Reduces the bucket. incoming: elements of a gradient that exists in addition. */
static void flush(p4d_transformers_step *s, uint64_t incoming)
{
	p4d_zero *z = &s->zero;
	const p4d_layout *l = z->layout;
	const int64_t element = z->element, beside = (int64_t)incoming * element;

	if (!z->waiting)
		return;
	/* with stage 1, a rank kept more than the bucket before, and has freed other memory */
	const int64_t others = l->zero_stage == 1 ? (int64_t)z->kept * element : 0;
	p4d_transformers__look(
	    s, &s->backward,
	    (p4d_tape_moment){(int64_t)copied(z, l->zero_bucket) * element + beside, -others});
	if (on_host(z)) { /* the norm of the rank's part of a gradient is computed from an fp64 copy */
		const uint64_t part = z->largest < z->share ? z->largest : z->share;
		p4d_transformers__look(s, &s->backward, (p4d_tape_moment){8 * (int64_t)part + beside, 0});
	} else {
		advance_to(z, &z->ahead, z->reduced);
		/* the rank adds its gradients to those of earlier micro-batches */
		const uint64_t kept = p4d_transformers__zero_left(z)
					  ? P4D_MOST(z->most, 2 * z->ahead.most) - z->most
					  : z->ahead.most;
		s->now.gradients += (int64_t)(kept - z->kept) * element;
		z->kept = kept;
		p4d_transformers__look(s, &s->backward, (p4d_tape_moment){beside, 0});
	}
	if (l->zero_stage == 2 && z->waiting > l->zero_bucket)
		s->now.live -= (int64_t)z->waiting * element;
	emptied(z);
}

/*
 * Adds a gradient to the bucket. If the bucket is full, its content is reduced first. A gradient that is
 * larger than the bucket stays allocated until this reduction. With stage 1, in which all gradients exist
 * before the first reduction, it stays longer.
 */
static void reduce(p4d_transformers_step *s, uint64_t elements)
{
	p4d_zero *z = &s->zero;
	const uint64_t bucket = z->layout->zero_bucket;
	const int64_t bytes = (int64_t)(elements * z->element);

	if (z->waiting && z->waiting + elements > bucket)
		flush(s, z->layout->zero_stage == 2 ? elements : 0);
	if (z->layout->zero_stage == 2)
		s->now.live += elements > bucket ? bytes : 0;
	else if (p4d_transformers__zero_grows(
		     z->layout)) /* a gradient outside of the bucket stays allocated */
		s->now.gradients += elements > bucket ? bytes : 0;
	else
		s->now.gradients -= elements > bucket ? 0 : bytes;
	if (on_host(z) && elements > bucket) /* a gradient larger than the bucket gets a copy of its own */
		p4d_transformers__look(s, &s->backward, (p4d_tape_moment){bytes, 0});
	z->waiting += elements;
	z->reduced += elements;
	z->largest = P4D_MOST(z->largest, elements);
}

void p4d_transformers__reduce(p4d_transformers_step *s, p4d_zero_part part)
{
	p4d_zero *z = &s->zero;
	const bool last = part == P4D_ZERO_BEGIN;

	if (!z->now.list || (at_end(z->layout) && !last))
		return;
	if (last) {
		for (uint64_t n = next(z, &z->now); n; n = next(z, &z->now))
			reduce(s, n);
		flush(s, 0);
		return;
	}
	if (z->now.at == z->now.list->count && part == P4D_ZERO_FEED) {
		z->now.segment++;
		z->now.at = 0;
		z->now.list = segment(z, z->now);
	}
	const unsigned until = part == P4D_ZERO_FEED ? z->now.list->feed : z->now.list->count;
	while (z->now.at < until)
		reduce(s, z->now.list->elements[z->now.at++]);
}
