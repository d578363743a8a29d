/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staged transport copies data to host memory, sends or sums it there as comm.h says, and copies the
 * result back. It uses only the devices' copies, so several ranks may share a device.
 */
#include "comm/transport/staged.h"

#include <stdlib.h>

#include "comm/channel.h"

/* Bytes that collectives and receives copy at a time. */
enum { CHUNK_BYTES = 8 << 20 };

/* A message in flight; its data must stay valid until it is sent. */
typedef struct p4d_staged_message {
	uint8_t *data;
	p4d_pending pending;
	bool used;
} p4d_staged_message;

/* p4d_group.transport_state */
typedef struct p4d_staged_group {
	uint64_t bytes; /* size of the largest message */
	unsigned count;
	p4d_staged_message *messages;
	p4d_pending *pending; /* the `pending` members of all messages, in one array */
} p4d_staged_group;

int p4d_staged__begin(p4d_transport *t, p4d_error *err)
{
	t->state = malloc(CHUNK_BYTES);
	return t->state ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory to stage device data");
}

static void staged_end(p4d_transport *t)
{
	free(t->state);
}

/* The number of elements that a chunk takes from each of `shards` shards. */
static uint64_t most_of(const p4d_collective *c, uint32_t shards)
{
	const uint64_t most = CHUNK_BYTES / c->width / shards;

	return most ? most : 1;
}

/* all-reduce, reduce or broadcast of elements at .. at+count-1 */
static int whole(p4d_group *g, const p4d_collective *c, uint64_t at, uint64_t count, p4d_error *err)
{
	p4d_device *d = g->transport->device;
	const bool is_root = c->root == g->index, gives = c->call != P4D_CALL_BROADCAST || is_root;
	const bool takes = c->call == P4D_CALL_ALL_REDUCE || (c->call == P4D_CALL_REDUCE) == is_root;
	uint8_t *chunk = g->transport->state;
	p4d_collective part = *c;

	part.to = chunk;
	part.from = chunk;
	part.count = count;
	if (gives)
		d->download(d, chunk, (const uint8_t *)c->from + at * c->width, count * c->width);
	if (p4d_comm_host_collective(g, &part, err) < 0)
		return -1;
	if (takes)
		d->upload(d, (uint8_t *)c->to + at * c->width, chunk, count * c->width);
	return 0;
}

/* reduce-scatter or all-gather of elements at .. at+count-1 of each member's shard */
static int sharded(p4d_group *g, const p4d_collective *c, uint64_t at, uint64_t count, p4d_error *err)
{
	p4d_device *d = g->transport->device;
	const bool scatters = c->call == P4D_CALL_REDUCE_SCATTER;
	const uint64_t bytes = count * c->width;
	uint8_t *chunk = g->transport->state, *own = chunk + g->index * bytes;
	const uint8_t *from = (const uint8_t *)c->from + at * c->width;
	uint8_t *to = (uint8_t *)c->to + at * c->width;
	p4d_collective part = *c;

	part.to = scatters ? own : chunk;
	part.from = scatters ? chunk : own;
	part.count = count;
	for (uint32_t i = 0; scatters && i < g->size; i++)
		d->download(d, chunk + i * bytes, from + i * c->count * c->width, bytes);
	if (!scatters)
		d->download(d, own, from, bytes);
	if (p4d_comm_host_collective(g, &part, err) < 0)
		return -1;
	for (uint32_t i = 0; !scatters && i < g->size; i++)
		d->upload(d, to + i * c->count * c->width, chunk + i * bytes, bytes);
	if (scatters)
		d->upload(d, to, own, bytes);
	return 0;
}

static int staged_collective(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	const bool by_shard = c->call == P4D_CALL_REDUCE_SCATTER || c->call == P4D_CALL_ALL_GATHER;
	const uint64_t most = most_of(c, by_shard ? g->size : 1);

	for (uint64_t at = 0; at < c->count; at += most) {
		const uint64_t count = c->count - at < most ? c->count - at : most;
		if ((by_shard ? sharded(g, c, at, count, err) : whole(g, c, at, count, err)) < 0)
			return -1;
	}
	return 0;
}

static bool staged_runs_async(const p4d_group *g)
{
	(void)g;
	return false;
}

static uint64_t staged_called(const p4d_group *g)
{
	(void)g;
	return 0;
}

static int staged_await(p4d_group *g, uint64_t count, p4d_error *err)
{
	(void)g, (void)count, (void)err;
	return 0;
}

static int staged_sent(p4d_group *g, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err)
{
	(void)err;
	return g->world->peers[g->ranks[to]].out[channel].done > ticket;
}

/* Waits until a buffer is free, and returns its index. */
static int take_buffer(p4d_group *g, unsigned *index, p4d_error *err)
{
	p4d_staged_group *own = g->transport_state;
	const p4d_staged_message *m = own->messages;

	for (*index = 0; *index < own->count; ++*index) {
		const p4d_pending *p = &m[*index].pending;
		if (!m[*index].used || staged_sent(g, p->to, p->channel, p->ticket, err))
			return 0;
	}
	for (unsigned i = 0; i < own->count; i++)
		own->pending[i] = m[i].pending;
	return p4d_channel_post_wait_any(g->world, g->ranks, own->pending, own->count, index, err);
}

static int staged_send(p4d_group *g, uint32_t to, unsigned channel, const void *data, uint64_t bytes,
		       uint64_t *ticket, p4d_error *err)
{
	p4d_device *d = g->transport->device;
	p4d_staged_group *own = g->transport_state;
	unsigned index;

	if (bytes > own->bytes || !own->count)
		return p4d_fail(err, P4D_E_VALUE,
				"message of %llu bytes in a group that was opened for %u of up to %llu",
				(unsigned long long)bytes, own->count, (unsigned long long)own->bytes);
	if (take_buffer(g, &index, err) < 0)
		return -1;
	p4d_staged_message *m = &own->messages[index];
	d->download(d, m->data, data, bytes);
	m->used = false;
	if (p4d_channel_post(g->world, g->ranks[to], channel, 0, m->data, bytes, ticket, err) < 0)
		return -1;
	m->used = true;
	m->pending = (p4d_pending){.to = to, .channel = channel, .ticket = *ticket};
	return 0;
}

static int staged_send_wait(p4d_group *g, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err)
{
	return p4d_channel_post_wait(g->world, g->ranks[to], channel, ticket, err);
}

static int staged_recv_begin(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			     p4d_error *err)
{
	(void)g, (void)from, (void)channel, (void)data, (void)bytes, (void)err;
	return 0;
}

static int staged_recv_end(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			   p4d_error *err)
{
	p4d_device *d = g->transport->device;
	uint8_t *chunk = g->transport->state;

	if (p4d_channel_take(g->world, g->ranks[from], channel, 0, bytes, err) < 0)
		return -1;
	for (uint64_t at = 0; at < bytes; at += CHUNK_BYTES) {
		const uint64_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
		if (p4d_channel_take_data(g->world, g->ranks[from], channel, chunk, n, err) < 0)
			return -1;
		d->upload(d, (uint8_t *)data + at, chunk, n);
	}
	return 0;
}

static int staged_open(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	p4d_staged_group *own = calloc(1, sizeof(*own));

	(void)t;
	g->transport_state = own;
	if (own && traffic->sends) {
		own->bytes = traffic->message_bytes;
		own->messages = calloc(traffic->messages, sizeof(*own->messages));
		own->pending = calloc(traffic->messages, sizeof(*own->pending));
		while (own->messages && own->pending && own->count < traffic->messages &&
		       (own->messages[own->count].data = malloc(own->bytes ? own->bytes : 1)))
			own->count++;
	}
	if (own && (!traffic->sends || own->count == traffic->messages))
		return 0;
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u messages of %llu bytes", traffic->messages,
			(unsigned long long)traffic->message_bytes);
}

static void staged_close(p4d_group *g, p4d_transport *t)
{
	p4d_staged_group *own = g->transport_state;

	(void)t;
	if (!own)
		return;
	for (unsigned i = 0; i < own->count; i++)
		free(own->messages[i].data);
	free(own->messages);
	free(own->pending);
	free(own);
	g->transport_state = NULL;
}

const p4d_transport_ops p4d_staged__transport = {
    .open = staged_open,
    .close = staged_close,
    .collective = staged_collective,
    .runs_async = staged_runs_async,
    .called = staged_called,
    .await = staged_await,
    .send = staged_send,
    .send_wait = staged_send_wait,
    .sent = staged_sent,
    .recv_begin = staged_recv_begin,
    .recv_end = staged_recv_end,
    .end = staged_end,
};
