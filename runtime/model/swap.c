/* SPDX-License-Identifier: Apache-2.0 */
#include "model/swap.h"

#include <stdlib.h>

#include "model/buffers.h"
#include "plan/offload.h"

/*
 * A place for one layer's activations. left: ticket of the copy to the host, which may still run while
 * `leaves`. came: ticket of the copy back, which may still run while `comes`.
 */
typedef struct swap_place {
	uint32_t slot, layer; /* slot UINT32_MAX: the place is empty */
	bool leaves, comes;
	uint64_t left, came;
	char *at;
} swap_place;

struct p4d_swap {
	p4d_host_link down, up;
	uint64_t bytes;   /* bytes of a layer's activations */
	uint32_t swapped; /* number of a chunk's layers that are copied to the host; 0: none */
	uint32_t turn;    /* number of places used so far; forward passes use places in turn */
	uint32_t *holder; /* for each slot and layer: the place that the layer is in, or was in last */
	uint64_t *left;   /* for each slot and layer: the ticket of its copy to the host */
	swap_place place[P4D_SWAP_PLACES];
};

static uint64_t index_of(const p4d_net *m, uint32_t slot, uint32_t layer)
{
	return slot * m->layers + layer;
}

/* Finds the places. Their rows are adjacent in the arena (plan.c), so one transfer copies a whole place. */
static void fill_places(p4d_net *m, p4d_swap *w)
{
	const p4d_tensor *first = m->row[B_ACTIVATION + ACT_QKV];

	for (int i = 0; i < ACT_COUNT; i++) {
		const p4d_tensor *row = m->row[B_ACTIVATION + i];
		if (row && row->lifetime == P4D_LIVES_ALWAYS && row->offset < first->offset)
			first = row;
	}
	w->bytes = first->layer_stride;
	for (uint32_t i = 0; i < P4D_SWAP_PLACES; i++) {
		w->place[i].slot = UINT32_MAX;
		w->place[i].at = m->arena + first->offset + i * first->layer_stride;
	}
	w->swapped = m->row[B_HOST_ACTIVATIONS] ? m->row[B_HOST_ACTIVATIONS]->layers : 0;
}

int p4d_swap_open(p4d_net *m, p4d_error *err)
{
	const uint64_t most = m->plan.slots.activation * m->layers;
	p4d_swap *w;

	if (!p4d_swaps_activations(m->l))
		return 0;
	w = m->swap = calloc(1, sizeof(*w));
	if (!w)
		return p4d_fail(err, P4D_E_NO_MEMORY,
				"no host memory for the table of activations that are copied to the host");
	w->holder = calloc(most, sizeof(*w->holder));
	w->left = calloc(most, sizeof(*w->left));
	if (!w->holder || !w->left)
		return p4d_fail(err, P4D_E_NO_MEMORY,
				"no host memory for the table of activations that are copied to the host");
	fill_places(m, w);
	return p4d_host_link__open(&w->down, m->d, err) < 0 ? -1 : p4d_host_link__open(&w->up, m->d, err);
}

void p4d_swap_close(p4d_net *m)
{
	if (!m->swap)
		return;
	free(m->swap->holder);
	free(m->swap->left);
	free(m->swap);
	m->swap = NULL;
}

uint32_t p4d_swap__place(const p4d_net *m, uint32_t slot, uint32_t layer)
{
	return m->swap->holder[index_of(m, slot, layer)];
}

static swap_place *find(const p4d_net *m, uint32_t slot, uint32_t layer)
{
	swap_place *p = &m->swap->place[p4d_swap__place(m, slot, layer)];

	return p->slot == slot && p->layer == layer ? p : NULL;
}

static bool is_swapped(const p4d_net *m, uint32_t layer)
{
	return p4d_offload_is_swapped(m->swap->swapped, (uint32_t)m->layers, layer);
}

static void *on_host(const p4d_net *m, uint32_t slot, uint32_t layer)
{
	const uint32_t number = p4d_offload_swapped_before(m->swap->swapped, (uint32_t)m->layers, layer);

	return p4d_buffers_at_slot(m, B_HOST_ACTIVATIONS, slot, number);
}

static void give(p4d_net *m, swap_place *p, uint32_t slot, uint32_t layer)
{
	p->slot = slot;
	p->layer = layer;
	p->comes = false;
	m->swap->holder[index_of(m, slot, layer)] = (uint32_t)(p - m->swap->place);
}

/* Reserves a place for a layer. Operations that are queued from now on may write to it. */
static void take(p4d_net *m, swap_place *p, uint32_t slot, uint32_t layer)
{
	if (p->leaves)
		p4d_host_link__await(&m->swap->down, p->left);
	if (p->comes) /* the copy back was for a pass that did not run */
		p4d_host_link__await(&m->swap->up, p->came);
	p->leaves = false;
	give(m, p, slot, layer);
}

void p4d_swap_begin(p4d_net *m, uint32_t slot, uint32_t layer)
{
	swap_place *stale;

	if (!m->swap)
		return;
	stale = find(m, slot, layer); /* the slot's previous micro-batch may still have a place */
	if (stale)
		stale->slot = UINT32_MAX;
	take(m, &m->swap->place[m->swap->turn++ % P4D_SWAP_PLACES], slot, layer);
}

void p4d_swap_end(p4d_net *m, uint32_t slot, uint32_t layer)
{
	p4d_swap *w = m->swap;

	if (!w || m->evaluating || !is_swapped(m, layer))
		return;
	swap_place *p = find(m, slot, layer);
	p4d_host_link__follow(&w->down);
	p4d_host_link__move(&w->down, on_host(m, slot, layer), p->at, w->bytes);
	p->left = w->left[index_of(m, slot, layer)] = p4d_host_link__ticket(&w->down);
	p->leaves = true;
}

/*
 * Finds a place that has none of the P4D_SWAP_PLACES layers that a backward pass uses next. The current layer
 * is the first of these.
 */
static swap_place *free_place(const p4d_net *m, uint32_t slot, uint32_t layer)
{
	swap_place *p = m->swap->place;

	while (p->slot == slot && p->layer <= layer && p->layer + P4D_SWAP_PLACES > layer)
		p++;
	return p;
}

/*
 * Copies a layer's activations back to the device. The copy starts after all operations queued so far. It
 * also starts after two copies to the host: the one that empties this place, and the one of this layer.
 */
static void bring(p4d_net *m, swap_place *p, uint32_t slot, uint32_t layer)
{
	p4d_swap *w = m->swap;
	p4d_device *d = m->d;

	p4d_host_link__follow(&w->up);
	if (p->leaves)
		d->event_wait(d, w->up.stream, p4d_host_link__event(&w->down, p->left));
	d->event_wait(d, w->up.stream, p4d_host_link__event(&w->down, w->left[index_of(m, slot, layer)]));
	p->leaves = false;
	p4d_host_link__move(&w->up, p->at, on_host(m, slot, layer), w->bytes);
	give(m, p, slot, layer);
	p->comes = true;
	p->came = p4d_host_link__ticket(&w->up);
}

/*
 * Copies back the layers that come after the pass's current layer in a backward pass, as far as there are
 * places.
 */
static void bring_ahead(p4d_net *m, uint32_t slot, uint32_t layer)
{
	for (uint32_t i = 1; i < P4D_SWAP_PLACES && i <= layer; i++)
		if (is_swapped(m, layer - i) && !find(m, slot, layer - i))
			bring(m, free_place(m, slot, layer), slot, layer - i);
}

bool p4d_swap_use(p4d_net *m, uint32_t slot, uint32_t layer)
{
	bool lost = false;

	if (!m->swap)
		return false;
	swap_place *p = find(m, slot, layer);
	if (!p) {
		p = free_place(m, slot, layer);
		lost = !is_swapped(m, layer);
		if (lost)
			take(m, p, slot, layer);
		else
			bring(m, p, slot, layer);
	}
	bring_ahead(m, slot, layer);
	if (p->comes)
		p4d_host_link__await(&m->swap->up, p->came);
	p->comes = false;
	return lost;
}
