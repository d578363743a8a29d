/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives among ranks of several nodes, by messages. A sum must add its members in group order and round
 * once. A ring, or a sum per node, would add in another order. So every member sends each other member that
 * member's share, and the owner of a share adds the arriving messages. A rank sends and receives no more
 * bytes than in a ring.
 */
#include <string.h>

#include "comm/channel.h"
#include "comm/group.h"
#include "comm/sum.h"

typedef struct p4d_wire {
	p4d_group *group;
	const p4d_collective *call;
	uint32_t tag;
	p4d_error *err;
} p4d_wire;

static int post(const p4d_wire *x, uint32_t member, const void *data, uint64_t bytes, uint64_t *ticket)
{
	return p4d_channel_post(x->group->world, x->group->ranks[member], P4D_CHANNEL_COLLECTIVE, x->tag,
				data, bytes, ticket, x->err);
}

/* Waits until all messages to that member were sent. */
static int flush(const p4d_wire *x, uint32_t member)
{
	p4d_world *w = x->group->world;
	const p4d_out *out = &w->peers[x->group->ranks[member]].out[P4D_CHANNEL_COLLECTIVE];

	return out->done == out->next ? 0
				      : p4d_channel_post_wait(w, x->group->ranks[member],
							      P4D_CHANNEL_COLLECTIVE, out->next - 1, x->err);
}

static int flush_all(const p4d_wire *x)
{
	for (uint32_t i = 0; i < x->group->size; i++)
		if (i != x->group->index && flush(x, i) < 0)
			return -1;
	return 0;
}

static int take(const p4d_wire *x, uint32_t member, uint64_t bytes)
{
	return p4d_channel_take(x->group->world, x->group->ranks[member], P4D_CHANNEL_COLLECTIVE, x->tag,
				bytes, x->err);
}

static int take_data(const p4d_wire *x, uint32_t member, void *data, uint64_t bytes)
{
	return p4d_channel_take_data(x->group->world, x->group->ranks[member], P4D_CHANNEL_COLLECTIVE, data,
				     bytes, x->err);
}

static int take_whole(const p4d_wire *x, uint32_t member, void *data, uint64_t bytes)
{
	return take(x, member, bytes) < 0 ? -1 : take_data(x, member, data, bytes);
}

/* to (count) = `own` plus a message of count elements from each other member; `to` may be `own` */
static int sum_messages(const p4d_wire *x, void *to, const void *own, uint64_t count)
{
	p4d_group *g = x->group;
	p4d_world *w = g->world;
	const p4d_collective *c = x->call;
	uint64_t most = P4D_SCRATCH_BYTES / c->width;

	if (!count)
		return 0;
	for (uint32_t i = 0; i < g->size; i++)
		if (i != g->index && take(x, i, count * c->width) < 0)
			return -1;
	for (uint64_t at = 0; at < count; at += most) {
		uint64_t n = count - at < most ? count - at : most;
		for (uint32_t i = 0; i < g->size; i++) {
			const void *term = (const uint8_t *)own + at * c->width;
			if (i != g->index) {
				term = w->scratch;
				if (take_data(x, i, w->scratch, n * c->width) < 0)
					return -1;
			}
			if (i)
				p4d_sum__add(w->sum, term, n, c->type, c->how);
			else
				p4d_sum__load(w->sum, term, n, c->type);
		}
		p4d_sum__store((uint8_t *)to + at * c->width, w->sum, n, c->type);
	}
	return 0;
}

static int all_reduce(const p4d_wire *x)
{
	p4d_group *g = x->group;
	const p4d_collective *c = x->call;
	uint8_t *data = c->to;
	uint64_t ticket, first, end;

	for (uint32_t k = 1; k < g->size; k++) {
		uint32_t i = (g->index + k) % g->size;
		first = p4d_group__share(c->count, g->size, i, c->width) * c->width;
		end = p4d_group__share(c->count, g->size, i + 1, c->width) * c->width;
		if (end > first && post(x, i, data + first, end - first, &ticket) < 0)
			return -1;
	}
	first = p4d_group__share(c->count, g->size, g->index, c->width);
	end = p4d_group__share(c->count, g->size, g->index + 1, c->width);
	uint8_t *own = data + first * c->width;
	uint64_t own_bytes = (end - first) * c->width;
	/* after the sums, the send buffer holds the results */
	if (sum_messages(x, own, own, end - first) < 0 || flush_all(x) < 0)
		return -1;
	for (uint32_t k = 1; own_bytes && k < g->size; k++)
		if (post(x, (g->index + k) % g->size, own, own_bytes, &ticket) < 0)
			return -1;
	for (uint32_t k = 1; k < g->size; k++) {
		uint32_t i = (g->index + g->size - k) % g->size;
		first = p4d_group__share(c->count, g->size, i, c->width) * c->width;
		end = p4d_group__share(c->count, g->size, i + 1, c->width) * c->width;
		if (end > first && take_whole(x, i, data + first, end - first) < 0)
			return -1;
	}
	return flush_all(x);
}

static int reduce_scatter(const p4d_wire *x)
{
	p4d_group *g = x->group;
	const p4d_collective *c = x->call;
	const uint8_t *from = c->from;
	uint64_t bytes = c->count * c->width, ticket;

	for (uint32_t k = 1; k < g->size; k++) {
		uint32_t i = (g->index + k) % g->size;
		if (post(x, i, from + i * bytes, bytes, &ticket) < 0)
			return -1;
	}
	if (sum_messages(x, c->to, from + g->index * bytes, c->count) < 0)
		return -1;
	return flush_all(x);
}

static int all_gather(const p4d_wire *x)
{
	p4d_group *g = x->group;
	const p4d_collective *c = x->call;
	uint8_t *to = c->to, *own = to + g->index * c->count;
	uint64_t ticket;

	if (own != c->from)
		memmove(own, c->from, c->count);
	for (uint32_t k = 1; k < g->size; k++)
		if (post(x, (g->index + k) % g->size, own, c->count, &ticket) < 0)
			return -1;
	for (uint32_t k = 1; k < g->size; k++) {
		uint32_t i = (g->index + g->size - k) % g->size;
		if (take_whole(x, i, to + i * c->count, c->count) < 0)
			return -1;
	}
	return flush_all(x);
}

/* Binomial tree: member i, counted from the root, receives from i without its lowest set bit. */
static int broadcast(const p4d_wire *x)
{
	p4d_group *g = x->group;
	const p4d_collective *c = x->call;
	uint32_t place = (g->index + g->size - c->root) % g->size, bit = 1;
	uint64_t ticket;

	while (bit < g->size && !(place & bit))
		bit <<= 1;
	if (place && take_whole(x, (place - bit + c->root) % g->size, c->to, c->count) < 0)
		return -1;
	while (bit >>= 1)
		if (place + bit < g->size &&
		    post(x, (place + bit + c->root) % g->size, c->to, c->count, &ticket) < 0)
			return -1;
	return flush_all(x);
}

static int reduce(const p4d_wire *x)
{
	const p4d_collective *c = x->call;
	uint64_t ticket;

	if (x->group->index == c->root)
		return sum_messages(x, c->to, c->to, c->count);
	return post(x, c->root, c->from, c->count * c->width, &ticket) < 0 ? -1 : flush(x, c->root);
}

/* Dissemination barrier: after round r a member has heard of 2^(r+1)-1 others. */
static int barrier(const p4d_wire *x)
{
	p4d_group *g = x->group;
	static const uint8_t nothing = 0;
	uint64_t ticket;

	for (uint32_t away = 1; away < g->size; away *= 2)
		if (post(x, (g->index + away) % g->size, &nothing, 1, &ticket) < 0 ||
		    take_whole(x, (g->index + g->size - away) % g->size, &(uint8_t){0}, 1) < 0)
			return -1;
	return flush_all(x);
}

int p4d_wire__collective(p4d_group *group, const p4d_collective *c, p4d_error *err)
{
	p4d_wire x = {.group = group, .call = c, .tag = group->id | c->call, .err = err};

	switch (c->call) {
	case P4D_CALL_ALL_REDUCE:
		return all_reduce(&x);
	case P4D_CALL_REDUCE_SCATTER:
		return reduce_scatter(&x);
	case P4D_CALL_ALL_GATHER:
		return all_gather(&x);
	case P4D_CALL_BROADCAST:
		return broadcast(&x);
	case P4D_CALL_REDUCE:
		return reduce(&x);
	case P4D_CALL_BARRIER:
		break;
	}
	return barrier(&x);
}
