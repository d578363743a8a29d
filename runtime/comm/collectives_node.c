/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives among ranks of one node. Data passes through slots, one chunk at a time. Every member has a
 * line in shared memory, which only it writes. The line has the member's step, which only grows. Step 3k+1:
 * the member's data of chunk k is in its slot. Step 3k+2: the member's share of the result is in its slot.
 * Step 3k+3: the member no longer reads any slot of chunk k. Members wait only for each other's steps. A rank
 * alternates between two slots for all groups, so that it can fill one while others still read the other.
 * Before it reuses a slot, it waits for the readers of that slot's last use.
 */
#include <string.h>

#include "comm/channel_shm.h"
#include "comm/events.h"
#include "comm/group.h"
#include "comm/sum.h"

enum { STEPS = 3, IN_SLOT = 1, REDUCED = 2, DONE = 3 };
/*
 * Up to this size every member sums all elements by itself. This needs one synchronization; summing in shares
 * needs two.
 */
enum { SMALL_BYTES = 4096 };

typedef struct p4d_slice {
	p4d_group *group;
	const p4d_collective *call;
	uint64_t number, signature;
	uint8_t *slot; /* this rank's slot; NULL: it has not taken one */
	unsigned which;
} p4d_slice;

typedef struct p4d_awaited {
	const p4d_cache_line *line;
	uint64_t step;
} p4d_awaited;

static bool reached(void *context)
{
	const p4d_awaited *a = context;

	return atomic_load_explicit(&a->line->step, memory_order_acquire) >= a->step;
}

static int await(p4d_world *w, uint32_t rank, const p4d_cache_line *line, uint64_t step, p4d_error *err)
{
	p4d_awaited a = {.line = line, .step = step};

	return reached(&a) ? 0 : p4d_world__wait(w, reached, &a, &w->peers[rank], err);
}

static p4d_slice begin(p4d_group *g, const p4d_collective *c)
{
	p4d_slice p = {.group = g, .call = c, .number = g->chunks++};
	uint64_t about[] = {c->call, c->type, c->how, c->root, c->count};

	p.signature = p4d_wire__hash(1, about, sizeof(about));
	return p;
}

static int take_slot(p4d_slice *p, p4d_error *err)
{
	p4d_group *g = p->group;
	p4d_world *w = g->world;
	p4d_use *use = &w->node.uses[w->node.slot];

	for (uint32_t i = 0; use->lines && i < use->count; i++)
		if (use->ranks[i] != w->rank && await(w, use->ranks[i], &use->lines[i], use->step, err) < 0)
			return -1;
	use->lines = g->lines;
	use->step = STEPS * p->number + DONE;
	use->count = g->size;
	memcpy(use->ranks, g->ranks, g->size * sizeof(*g->ranks));
	p->which = w->node.slot;
	p->slot = p4d_shm__slot(&w->node, w->node.index, p->which);
	w->node.slot = (w->node.slot + 1) % P4D_SLOTS;
	return 0;
}

static void advance(const p4d_slice *p, unsigned step)
{
	p4d_group *g = p->group;

	atomic_store_explicit(&g->lines[g->index].step, STEPS * p->number + step, memory_order_release);
	for (uint32_t i = 0; i < g->size; i++)
		if (i != g->index)
			p4d_shm__wake(&g->world->node, (uint32_t)g->world->peers[g->ranks[i]].local_rank);
}

/* Announces that this rank's data is in its slot. */
static void publish_slot(const p4d_slice *p)
{
	p4d_cache_line *line = &p->group->lines[p->group->index];

	atomic_store_explicit(&line->slots[p->which].signature, p->signature, memory_order_relaxed);
	atomic_store_explicit(&line->slots[p->which].chunk, p->number + 1, memory_order_relaxed);
	advance(p, IN_SLOT);
}

/* Waits until a member reaches a step. *slot: that member's slot. */
static int wait_for_step(const p4d_slice *p, uint32_t member, unsigned step, const uint8_t **slot,
			 p4d_error *err)
{
	p4d_group *g = p->group;
	p4d_world *w = g->world;
	const p4d_peer *peer = &w->peers[g->ranks[member]];
	const p4d_cache_line *line = &g->lines[member];
	bool holds = false, same = p->call->call == P4D_CALL_BARRIER;
	char text[96];

	if (await(w, g->ranks[member], line, STEPS * p->number + step, err) < 0)
		return -1;
	for (unsigned i = 0; i < P4D_SLOTS && !holds; i++) {
		holds = atomic_load_explicit(&line->slots[i].chunk, memory_order_relaxed) == p->number + 1;
		if (!holds)
			continue;
		same = atomic_load_explicit(&line->slots[i].signature, memory_order_relaxed) == p->signature;
		*slot = p4d_shm__slot(&w->node, (uint32_t)peer->local_rank, i);
	}
	if (same)
		return 0;
	return p4d_events__break(w, err, "rank %u and %s called different collectives on a group of %u",
				 w->rank, p4d_world_peer_text(peer, text), g->size);
}

/* Sums elements first .. first+count-1 of the chunk over all members. own: this rank's data of the chunk. */
static int sum(const p4d_slice *p, void *to, const uint8_t *own, uint64_t first, uint64_t count,
	       p4d_error *err)
{
	p4d_group *g = p->group;
	const p4d_collective *c = p->call;

	for (uint32_t i = 0; i < g->size; i++) {
		const uint8_t *slot = own;
		if (i != g->index && wait_for_step(p, i, IN_SLOT, &slot, err) < 0)
			return -1;
		g->operands[i] = slot + first * c->width;
	}
	p4d_sum__combine(to, g->operands, g->size, count, c->type, c->how);
	return 0;
}

/* Reduces one chunk: `count` elements at data. wanted: this rank gets the result. */
static int reduce_small(p4d_slice *p, uint8_t *data, uint64_t count, bool wanted, p4d_error *err)
{
	memcpy(p->slot, data, count * p->call->width);
	publish_slot(p);
	return wanted ? sum(p, data, data, 0, count, err) : 0;
}

static int reduce_large(p4d_slice *p, uint8_t *data, uint64_t count, bool wanted, p4d_error *err)
{
	p4d_group *g = p->group;
	size_t width = p->call->width;
	uint64_t first = p4d_group__share(count, g->size, g->index, width);
	uint64_t end = p4d_group__share(count, g->size, g->index + 1, width);
	const uint8_t *slot = NULL;

	memcpy(p->slot, data, first * width);
	memcpy(p->slot + end * width, data + end * width, (count - end) * width);
	publish_slot(p);
	if (sum(p, p->slot + first * width, data, first, end - first, err) < 0)
		return -1;
	if (wanted)
		memcpy(data + first * width, p->slot + first * width, (end - first) * width);
	advance(p, REDUCED);
	/* each member starts at its next one, so that members read different slots at a time */
	for (uint32_t k = 1; wanted && k < g->size; k++) {
		uint32_t i = (g->index + k) % g->size;
		first = p4d_group__share(count, g->size, i, width);
		end = p4d_group__share(count, g->size, i + 1, width);
		if (wait_for_step(p, i, REDUCED, &slot, err) < 0)
			return -1;
		memcpy(data + first * width, slot + first * width, (end - first) * width);
	}
	return 0;
}

static int reduce(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	bool wanted = c->call == P4D_CALL_ALL_REDUCE || c->root == g->index;
	uint64_t most = P4D_SLOT_BYTES / c->width;

	for (uint64_t at = 0; at < c->count; at += most) {
		uint64_t n = c->count - at < most ? c->count - at : most;
		uint8_t *data = (uint8_t *)c->to + at * c->width;
		p4d_slice p = begin(g, c);
		if (take_slot(&p, err) < 0)
			return -1;
		if ((n * c->width <= SMALL_BYTES ? reduce_small(&p, data, n, wanted, err)
						 : reduce_large(&p, data, n, wanted, err)) < 0)
			return -1;
		advance(&p, DONE);
	}
	return 0;
}

static int reduce_scatter(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	const uint8_t *from = c->from;
	/* a slot has a part for every member */
	uint64_t part = P4D_SLOT_BYTES / g->size / 64 * 64, most = part / c->width;

	for (uint64_t at = 0; at < c->count; at += most) {
		uint64_t n = c->count - at < most ? c->count - at : most;
		const uint8_t *own = from + (g->index * c->count + at) * c->width;
		p4d_slice p = begin(g, c);
		if (take_slot(&p, err) < 0)
			return -1;
		for (uint32_t i = 0; i < g->size; i++)
			if (i != g->index)
				memcpy(p.slot + i * part, from + (i * c->count + at) * c->width,
				       n * c->width);
		publish_slot(&p);
		for (uint32_t i = 0; i < g->size; i++) {
			const uint8_t *slot = own;
			if (i != g->index && wait_for_step(&p, i, IN_SLOT, &slot, err) < 0)
				return -1;
			g->operands[i] = i == g->index ? slot : slot + g->index * part;
		}
		p4d_sum__combine((uint8_t *)c->to + at * c->width, g->operands, g->size, n, c->type, P4D_SUM);
		advance(&p, DONE);
	}
	return 0;
}

static int all_gather(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	uint8_t *to = c->to, *own = to + g->index * c->count;

	if (own != c->from)
		memmove(own, c->from, c->count);
	for (uint64_t at = 0; at < c->count; at += P4D_SLOT_BYTES) {
		uint64_t n = c->count - at < P4D_SLOT_BYTES ? c->count - at : P4D_SLOT_BYTES;
		p4d_slice p = begin(g, c);
		if (take_slot(&p, err) < 0)
			return -1;
		memcpy(p.slot, own + at, n);
		publish_slot(&p);
		for (uint32_t k = 1; k < g->size; k++) {
			uint32_t i = (g->index + k) % g->size;
			const uint8_t *slot = NULL;
			if (wait_for_step(&p, i, IN_SLOT, &slot, err) < 0)
				return -1;
			memcpy(to + i * c->count + at, slot, n);
		}
		advance(&p, DONE);
	}
	return 0;
}

static int broadcast(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	for (uint64_t at = 0; at < c->count; at += P4D_SLOT_BYTES) {
		uint64_t n = c->count - at < P4D_SLOT_BYTES ? c->count - at : P4D_SLOT_BYTES;
		uint8_t *data = (uint8_t *)c->to + at;
		p4d_slice p = begin(g, c);
		if (c->root == g->index) {
			if (take_slot(&p, err) < 0)
				return -1;
			memcpy(p.slot, data, n);
			publish_slot(&p);
		} else {
			const uint8_t *slot = NULL;
			if (wait_for_step(&p, c->root, IN_SLOT, &slot, err) < 0)
				return -1;
			memcpy(data, slot, n);
		}
		advance(&p, DONE);
	}
	return 0;
}

static int barrier(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	p4d_slice p = begin(g, c);
	const uint8_t *slot = NULL;

	advance(&p, IN_SLOT);
	for (uint32_t i = 0; i < g->size; i++)
		if (i != g->index && wait_for_step(&p, i, IN_SLOT, &slot, err) < 0)
			return -1;
	advance(&p, DONE);
	return 0;
}

int p4d_node__collective(p4d_group *group, const p4d_collective *c, p4d_error *err)
{
	switch (c->call) {
	case P4D_CALL_ALL_REDUCE:
	case P4D_CALL_REDUCE:
		return reduce(group, c, err);
	case P4D_CALL_REDUCE_SCATTER:
		return reduce_scatter(group, c, err);
	case P4D_CALL_ALL_GATHER:
		return all_gather(group, c, err);
	case P4D_CALL_BROADCAST:
		return broadcast(group, c, err);
	case P4D_CALL_BARRIER:
		break;
	}
	return barrier(group, c, err);
}
