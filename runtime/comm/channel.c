/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks: a header and data, over shared memory or TCP. */
#include "comm/channel.h"

#include <string.h>

#include "comm/channel_shm.h"
#include "comm/events.h"
#include "comm/world.h"

enum { P4D_MESSAGE = 0x70346430 };

/* Writes up to `bytes` bytes to a peer. Returns the number written; 0: the write would block. */
static size_t stream_write(p4d_world *w, p4d_out *out, const void *data, size_t bytes)
{
	const p4d_peer *peer = &w->peers[out->rank];

	if (peer->local_rank >= 0)
		return p4d_shm__ring_write(&w->node, (uint32_t)peer->local_rank, out->channel, data, bytes);
	return p4d_tcp__send(w, out, data, bytes);
}

static size_t stream_read(p4d_world *w, p4d_peer *peer, unsigned channel, void *data, size_t bytes)
{
	if (peer->local_rank >= 0)
		return p4d_shm__ring_read(&w->node, (uint32_t)peer->local_rank, channel, data, bytes);
	return p4d_tcp__receive(w, peer, &peer->in[channel], data, bytes);
}

/* Sends as much as fits without blocking. Returns whether all messages of this channel were sent. */
static bool push(p4d_world *w, p4d_out *out)
{
	while (out->done < out->next) {
		p4d_sending *s = &out->queue[out->done % P4D_SENDS];
		while (s->sent < sizeof(s->head) + s->head.bytes) {
			bool in_head = s->sent < sizeof(s->head);
			const uint8_t *from = in_head ? (const uint8_t *)&s->head + s->sent
						      : s->data + (s->sent - sizeof(s->head));
			uint64_t left =
			    in_head ? sizeof(s->head) - s->sent : sizeof(s->head) + s->head.bytes - s->sent;
			size_t n = w->failed ? 0 : stream_write(w, out, from, left);
			if (!n)
				return false;
			s->sent += n;
		}
		out->done++;
	}
	return true;
}

void p4d_channel_push_all(p4d_world *w)
{
	for (p4d_out **at = &w->active; *at;) {
		p4d_out *out = *at;
		if (push(w, out)) {
			out->active = false;
			*at = out->next_active;
		} else {
			at = &out->next_active;
		}
	}
}

typedef struct p4d_sent {
	const p4d_out *out;
	uint64_t ticket;
} p4d_sent;

static bool is_sent(void *context)
{
	const p4d_sent *sent = context;

	return sent->out->done > sent->ticket;
}

int p4d_channel_post_wait(p4d_world *w, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err)
{
	p4d_peer *peer = &w->peers[to];
	p4d_sent sent = {.out = &peer->out[channel], .ticket = ticket};

	if (ticket >= sent.out->next)
		return p4d_fail(err, P4D_E_VALUE, "no message with ticket %llu was sent on channel %u",
				(unsigned long long)ticket, channel);
	if (is_sent(&sent))
		return 0;
	if (to == w->rank)
		return p4d_fail(err, P4D_E_VALUE,
				"rank %u would wait for a receive that it has not started on channel %u", to,
				channel);
	return p4d_world__wait(w, is_sent, &sent, peer, err);
}

typedef struct p4d_any_sent {
	p4d_world *world;
	const uint32_t *ranks;
	const p4d_pending *pending;
	unsigned count, which;
} p4d_any_sent;

static bool any_is_sent(void *context)
{
	p4d_any_sent *any = context;

	for (any->which = 0; any->which < any->count; any->which++) {
		const p4d_pending *p = &any->pending[any->which];
		if (any->world->peers[any->ranks[p->to]].out[p->channel].done > p->ticket)
			return true;
	}
	return false;
}

int p4d_channel_post_wait_any(p4d_world *w, const uint32_t *ranks, const p4d_pending *pending, unsigned count,
			      unsigned *which, p4d_error *err)
{
	p4d_any_sent any = {.world = w, .ranks = ranks, .pending = pending, .count = count};
	const p4d_peer *peer = NULL;

	for (unsigned i = 0; i < count; i++)
		if (ranks[pending[i].to] != w->rank)
			peer = &w->peers[ranks[pending[i].to]];
	if (!any_is_sent(&any)) {
		if (!peer)
			return p4d_fail(err, P4D_E_VALUE,
					"rank %u would wait for a receive that it has not started", w->rank);
		if (p4d_world__wait(w, any_is_sent, &any, peer, err) < 0)
			return -1;
	}
	*which = any.which;
	return 0;
}

int p4d_channel_post(p4d_world *w, uint32_t to, unsigned channel, uint32_t tag, const void *data,
		     uint64_t bytes, uint64_t *ticket, p4d_error *err)
{
	p4d_out *out = &w->peers[to].out[channel];

	if (out->next - out->done == P4D_SENDS && p4d_channel_post_wait(w, to, channel, out->done, err) < 0)
		return -1;
	*ticket = out->next++;
	out->queue[*ticket % P4D_SENDS] = (p4d_sending){
	    .head = {.bytes = bytes, .tag = tag, .magic = P4D_MESSAGE},
	    .data = data,
	};
	if (to == w->rank || out->active || push(w, out))
		/* a message to this rank itself stays in the queue, and the receive copies it from there */
		return 0;
	out->active = true;
	out->next_active = w->active;
	w->active = out;
	return 0;
}

typedef struct p4d_taking {
	p4d_world *world;
	p4d_peer *peer;
	unsigned channel;
	uint8_t *to;
	uint64_t left;
} p4d_taking;

static bool taken(void *context)
{
	p4d_taking *t = context;

	while (t->left) {
		size_t n = stream_read(t->world, t->peer, t->channel, t->to, t->left);
		if (!n)
			return false;
		t->to += n;
		t->left -= n;
	}
	return true;
}

static int read_all(p4d_world *w, uint32_t from, unsigned channel, void *data, uint64_t bytes, p4d_error *err)
{
	p4d_taking t = {.world = w, .peer = &w->peers[from], .channel = channel, .to = data, .left = bytes};

	return taken(&t) ? 0 : p4d_world__wait(w, taken, &t, t.peer, err);
}

int p4d_channel_take(p4d_world *w, uint32_t from, unsigned channel, uint32_t tag, uint64_t bytes,
		     p4d_error *err)
{
	p4d_peer *peer = &w->peers[from];
	p4d_in *in = &peer->in[channel];
	const p4d_out *own = &peer->out[channel];
	char text[96];

	if (from == w->rank) {
		if (own->done == own->next)
			return p4d_fail(
			    err, P4D_E_VALUE,
			    "rank %u receives from itself on channel %u, but has not sent anything", from,
			    channel);
		in->head = own->queue[own->done % P4D_SENDS].head;
	} else if (read_all(w, from, channel, &in->head, sizeof(in->head), err) < 0) {
		return -1;
	}
	if (in->head.magic != P4D_MESSAGE || in->head.tag != tag || in->head.bytes != bytes)
		return p4d_events__break(
		    w, err, "%s sent %llu bytes for call %08x, rank %u expects %llu bytes for call %08x",
		    p4d_world_peer_text(peer, text), (unsigned long long)in->head.bytes, in->head.tag,
		    w->rank, (unsigned long long)bytes, tag);
	in->left = bytes;
	return 0;
}

int p4d_channel_take_data(p4d_world *w, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			  p4d_error *err)
{
	p4d_in *in = &w->peers[from].in[channel];

	if (from == w->rank) {
		p4d_out *own = &w->peers[from].out[channel];
		if (bytes)
			memcpy(data, own->queue[own->done % P4D_SENDS].data + (in->head.bytes - in->left),
			       bytes);
		in->left -= bytes;
		own->done += in->left == 0;
		return 0;
	}
	in->left -= bytes;
	return read_all(w, from, channel, data, bytes, err);
}

const void *p4d_channel__take_own(p4d_world *w, unsigned channel)
{
	p4d_out *own = &w->peers[w->rank].out[channel];

	return own->queue[own->done++ % P4D_SENDS].data;
}
