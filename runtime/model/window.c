/* SPDX-License-Identifier: Apache-2.0 */
#include "model/window.h"

#include <stdlib.h>

#include "model/buffers.h"

enum { NONE = UINT32_MAX };

/* A place for a segment. next: the next use of the segment. */
typedef struct window_place {
	uint32_t segment, next;
	uint64_t ticket;
	char *at;
} window_place;

struct p4d_window {
	const p4d_window_source *source;
	p4d_window_list list[2]; /* the list for a step, and the list for an evaluation */
	const p4d_window_list *now;
	uint32_t at;            /* index of the next use */
	uint32_t stray;         /* a segment that a pass read while it was not in use; NONE: none */
	uint32_t layers, count; /* layers: number of places for layers; count: number of all places, of which
				   the last may be for a table */
	uint32_t *holder;       /* (segments) the place that the segment is in, or was in last */
	window_place *place;
};

static void fill_places(p4d_net *m, p4d_window *w)
{
	const p4d_tensor *row = m->row[B_LAYER_WINDOW];

	for (uint32_t i = 0; i < w->layers; i++)
		w->place[i].at = (char *)p4d_buffers_at(m, B_LAYER_WINDOW) + i * (row->bytes / w->layers);
	if (w->count > w->layers)
		w->place[w->layers].at = p4d_buffers_at(m, B_TABLE_WINDOW);
	for (uint32_t i = m->weights.in_chunks; i < m->weights.segments; i++)
		w->holder[i] = w->layers;
}

int p4d_window_open(p4d_net *m, const p4d_window_source *source, p4d_error *err)
{
	p4d_window *w;

	if (!m->row[B_LAYER_WINDOW])
		return 0;
	w = m->window = calloc(1, sizeof(*w));
	if (!w)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a window of layers");
	w->source = source;
	w->layers = (uint32_t)m->row[B_LAYER_WINDOW]->shape[0];
	w->count = w->layers + (m->row[B_TABLE_WINDOW] ? 1 : 0);
	w->place = calloc(w->count, sizeof(*w->place));
	w->holder = calloc(m->weights.segments, sizeof(*w->holder));
	if (!w->place || !w->holder)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a window of layers");
	fill_places(m, w);
	return 0;
}

void p4d_window_close(p4d_net *m)
{
	p4d_window *w = m->window;

	if (!w)
		return;
	free(w->list[0].need);
	free(w->list[1].need);
	free(w->place);
	free(w->holder);
	free(w);
	m->window = NULL;
}

void p4d_window_follow(p4d_net *m, bool evaluating, p4d_window_list uses)
{
	p4d_window *w = m->window;

	/* until a step begins, w->holder is free, so here it has each segment's next use */
	for (uint32_t i = 0; i < m->weights.segments; i++)
		w->holder[i] = NONE;
	for (uint32_t i = uses.count; i-- > 0;) {
		uses.need[i].next = w->holder[uses.need[i].segment];
		w->holder[uses.need[i].segment] = i;
	}
	for (uint32_t i = 0; i < m->weights.segments; i++)
		w->holder[i] = i < m->weights.in_chunks ? 0 : w->layers;
	free(w->list[evaluating].need);
	w->list[evaluating] = uses;
}

void p4d_window_begin(p4d_net *m)
{
	p4d_window *w = m->window;

	if (!w)
		return;
	w->now = &w->list[m->evaluating];
	w->at = 0;
	w->stray = NONE;
	for (uint32_t i = 0; i < w->count; i++)
		w->place[i].segment = NONE;
}

static bool is_here(const p4d_window *w, uint32_t segment)
{
	return w->place[w->holder[segment]].segment == segment;
}

/* Whether a use that has not ended needs the content of a place. */
static bool is_held(const p4d_window *w, const window_place *p)
{
	const p4d_window_need *need = &w->now->need[w->at];

	return p->segment == need->segment ||
	       (w->at > 0 && need->beside && p->segment == w->now->need[w->at - 1].segment);
}

/*
 * Finds a place for the segment of use k: the place whose content is needed latest, if that is later than use
 * k. NULL: there is none.
 */
static window_place *place_for(const p4d_net *m, const p4d_window *w, uint32_t k)
{
	const bool table = w->now->need[k].segment >= m->weights.in_chunks;
	const uint32_t from = table ? w->layers : 0, to = table ? w->count : w->layers;
	window_place *best = NULL;

	for (uint32_t i = from; i < to; i++) {
		window_place *p = &w->place[i];
		if (p->segment == NONE)
			return p;
		if (p->next > k && !is_held(w, p) && (!best || p->next > best->next))
			best = p;
	}
	return best;
}

/* How far ahead the window looks in the list: about as many uses as there are places. */
static uint32_t horizon(const p4d_window *w)
{
	const uint32_t most = w->now->count - w->at, ahead = w->count + 2;

	return w->at + (ahead < most ? ahead : most);
}

/* Starts to copy the current use's segment, and those of the next uses for which there is a place. */
static int bring_ahead(p4d_net *m, p4d_window *w, p4d_error *err)
{
	for (uint32_t k = w->at; k < horizon(w); k++) {
		const uint32_t segment = w->now->need[k].segment;
		if (is_here(w, segment))
			continue;
		window_place *p = place_for(m, w, k);
		if (!p)
			continue;
		p->segment = segment;
		p->next = k;
		w->holder[segment] = (uint32_t)(p - w->place);
		if (w->source->bring(m, segment, p->at, &p->ticket, err) < 0)
			return -1;
	}
	return 0;
}

static int check_stray(const p4d_window *w, p4d_error *err)
{
	if (w->stray == NONE)
		return 0;
	return p4d_fail(err, P4D_E_INSTRUCTIONS, "segment %u was read outside of its uses, before use %u",
			w->stray, w->at);
}

int p4d_window_end(p4d_net *m, p4d_error *err)
{
	p4d_window *w = m->window;

	if (!w)
		return 0;
	w->now = NULL;
	return check_stray(w, err);
}

int p4d_window_use(p4d_net *m, uint32_t segment, p4d_error *err)
{
	p4d_window *w = m->window;

	if (!w)
		return 0;
	if (check_stray(w, err) < 0)
		return -1;
	if (w->at >= w->now->count || w->now->need[w->at].segment != segment)
		return p4d_fail(err, P4D_E_INSTRUCTIONS,
				"the window of layers expects another segment than %u at use %u", segment,
				w->at);
	if (bring_ahead(m, w, err) < 0)
		return -1;
	window_place *p = &w->place[w->holder[segment]];
	if (p->segment != segment)
		return p4d_fail(err, P4D_E_INSTRUCTIONS, "no place for segment %u in the window", segment);
	p->next = w->now->need[w->at++].next;
	return w->source->await(m, p->ticket, err);
}

/* Whether a use of this segment has not ended yet. */
static bool is_used(const p4d_window *w, uint32_t segment)
{
	const p4d_window_need *need = w->now->need + w->at;

	return w->at > 0 &&
	       (need[-1].segment == segment || (w->at > 1 && need[-1].beside && need[-2].segment == segment));
}

void *p4d_window__at(const p4d_net *m, const p4d_weight *weight)
{
	const p4d_segment *s = &m->weights.segment[weight->segment];
	p4d_window *w = m->window;

	if (w->now && !is_used(w, weight->segment))
		w->stray = weight->segment;
	const uint64_t inside = weight->frozen ? weight->offset - s->frozen_offset
					       : s->frozen_padded + weight->offset - s->offset;

	return w->place[w->holder[weight->segment]].at + inside * m->element;
}
