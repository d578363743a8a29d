/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "comm/channel.h"
#include "comm/channel_shm.h"
#include "comm/transport.h"

/* Counts how often this rank has opened a group with this list of ranks. */
static int count_opened(p4d_world *w, uint64_t list, uint64_t *times, p4d_error *err)
{
	*times = 0;
	for (size_t i = 0; i < w->opened_count; i++)
		*times += w->opened[i] == list;
	uint64_t *longer = realloc(w->opened, (w->opened_count + 1) * sizeof(*longer));
	if (!longer)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group");
	w->opened = longer;
	w->opened[w->opened_count++] = list;
	return 0;
}

static int check_list(const p4d_world *w, const uint32_t *ranks, uint32_t count, p4d_error *err)
{
	bool included = false;

	if (!count || count > w->size)
		return p4d_fail(err, P4D_E_VALUE, "a group of %u ranks, expected 1 to %u", count, w->size);
	for (uint32_t i = 0; i < count; i++) {
		if (ranks[i] >= w->size)
			return p4d_fail(err, P4D_E_VALUE, "a group with rank %u, expected ranks below %u",
					ranks[i], w->size);
		for (uint32_t j = 0; j < i; j++)
			if (ranks[j] == ranks[i])
				return p4d_fail(err, P4D_E_VALUE, "a group with rank %u twice", ranks[i]);
		included |= ranks[i] == w->rank;
	}
	if (!included)
		return p4d_fail(err, P4D_E_VALUE, "rank %u is not in the group that it opens", w->rank);
	return 0;
}

int p4d_group_open(p4d_group **group, p4d_world *w, const uint32_t *ranks, uint32_t count, p4d_error *err)
{
	uint64_t times, signature;
	bool on_node = w->node.base != NULL;

	if (check_list(w, ranks, count, err) < 0 || p4d_world_check(w, err) < 0)
		return -1;
	p4d_group *g = calloc(1, sizeof(*g));
	if (g) {
		g->ranks = malloc(count * sizeof(*g->ranks));
		g->operands = malloc(count * sizeof(*g->operands));
	}
	if (!g || !g->ranks || !g->operands) {
		p4d_group_close(g);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group of %u ranks", count);
	}
	memcpy(g->ranks, ranks, count * sizeof(*ranks));
	g->world = w;
	g->size = count;
	for (uint32_t i = 0; i < count; i++) {
		on_node &= w->peers[ranks[i]].local_rank >= 0;
		if (ranks[i] == w->rank)
			g->index = i;
	}
	signature = p4d_wire__hash(0, ranks, count * sizeof(*ranks));
	if (count_opened(w, signature, &times, err) < 0) {
		p4d_group_close(g);
		return -1;
	}
	/* all members compute the same signature without communication */
	signature = p4d_wire__hash(signature, &times, sizeof(times)) | 1;
	g->id = (uint32_t)(signature >> 32) << 8;
	if (on_node && count > 1) {
		g->lines = p4d_shm__group(&w->node, signature);
		if (!g->lines) {
			p4d_group_close(g);
			return p4d_fail(err, P4D_E_VALUE, "more than %d groups on a node", P4D_NODE_GROUPS);
		}
	}
	*group = g;
	return 0;
}

void p4d_group_close(p4d_group *g)
{
	if (!g)
		return;
	p4d_comm_device__group_close(g);
	free(g->ranks);
	free(g->operands);
	free(g);
}

uint32_t p4d_group_size(const p4d_group *group)
{
	return group->size;
}

uint32_t p4d_group_index(const p4d_group *group)
{
	return group->index;
}

static int check_channel(p4d_group *g, uint32_t member, unsigned channel, p4d_error *err)
{
	if (member >= g->size || channel >= P4D_CHANNELS)
		return p4d_fail(err, P4D_E_VALUE, "member %u of %u, channel %u of %d: out of range", member,
				g->size, channel, P4D_CHANNELS);
	return p4d_world_check(g->world, err);
}

/*
 * Whether messages to or from this member are in device memory. A message to this rank itself is not sent by
 * the transport.
 */
static bool on_device(const p4d_group *g, uint32_t member)
{
	return g->transport && member != g->index;
}

int p4d_comm_send(p4d_group *g, uint32_t to, unsigned channel, const void *data, uint64_t bytes,
		  uint64_t *ticket, p4d_error *err)
{
	if (check_channel(g, to, channel, err) < 0)
		return -1;
	if (on_device(g, to))
		return g->transport->ops->send(g, to, channel, data, bytes, ticket, err);
	return p4d_channel_post(g->world, g->ranks[to], channel, 0, data, bytes, ticket, err);
}

int p4d_comm_send_wait(p4d_group *g, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err)
{
	if (check_channel(g, to, channel, err) < 0)
		return -1;
	if (on_device(g, to))
		return g->transport->ops->send_wait(g, to, channel, ticket, err);
	return p4d_channel_post_wait(g->world, g->ranks[to], channel, ticket, err);
}

int p4d_comm_send_wait_any(p4d_group *g, const p4d_pending *pending, unsigned count, unsigned *which,
			   p4d_error *err)
{
	for (unsigned i = 0; i < count; i++)
		if (check_channel(g, pending[i].to, pending[i].channel, err) < 0)
			return -1;
	if (g->transport)
		return p4d_comm_device__send_wait_any(g, pending, count, which, err);
	return p4d_channel_post_wait_any(g->world, g->ranks, pending, count, which, err);
}

int p4d_comm_recv_begin(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			p4d_error *err)
{
	if (check_channel(g, from, channel, err) < 0)
		return -1;
	return on_device(g, from) ? g->transport->ops->recv_begin(g, from, channel, data, bytes, err) : 0;
}

int p4d_comm_recv_end(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes,
		      p4d_error *err)
{
	if (check_channel(g, from, channel, err) < 0)
		return -1;
	if (on_device(g, from))
		return g->transport->ops->recv_end(g, from, channel, data, bytes, err);
	if (g->transport)
		return p4d_comm_device__take_own(g, channel, data, bytes, err);
	return p4d_channel_take(g->world, g->ranks[from], channel, 0, bytes, err) < 0
		   ? -1
		   : p4d_channel_take_data(g->world, g->ranks[from], channel, data, bytes, err);
}

int p4d_comm_recv(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes, p4d_error *err)
{
	return p4d_comm_recv_begin(g, from, channel, data, bytes, err) < 0
		   ? -1
		   : p4d_comm_recv_end(g, from, channel, data, bytes, err);
}
