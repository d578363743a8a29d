/* SPDX-License-Identifier: Apache-2.0 */
/* Groups on a device: dispatch to the transport, and what all transports share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/channel.h"
#include "comm/events.h"
#include "comm/transport.h"

static const double LOOK_SECONDS = 0.002;
/* Maximum seconds to wait, after an error of NCCL, for the notice that a rank has ended. */
static const double NEWS_SECONDS = 2;

int p4d_comm_device_reach(p4d_device *device, void *event, p4d_error *err)
{
	unsigned turn = 0;
	int reached;

	while ((reached = device->event_reached(device, event, err)) == 0)
		if (p4d_device_pause(device, &turn, err) < 0)
			return -1;
	return reached < 0 ? -1 : 0;
}

int p4d_comm_device_blame(p4d_world *w, p4d_error *err)
{
	const double until = p4d_clock_seconds() + NEWS_SECONDS;

	while (!w->failed && p4d_clock_seconds() < until)
		p4d_events__take(w, 50);
	return w->failed ? p4d_events__error(w, err) : -1;
}

int p4d_comm_transport_watch(void *context, p4d_error *err)
{
	p4d_transport *t = context;
	const double now = p4d_clock_seconds();

	if (t->world->active)
		p4d_channel_push_all(t->world);
	if (p4d_world_check(t->world, err) < 0)
		return -1;
	if (!t->ops->watch || now - t->looked_at < LOOK_SECONDS)
		return 0;
	t->looked_at = now;
	if (t->ops->watch(t, err) == 0)
		return 0;
	t->broken = true;
	return p4d_comm_device_blame(t->world, err);
}

void p4d_comm_transport_break(p4d_transport *t)
{
	if (t)
		t->broken = true;
}

bool p4d_comm_transport_broken(const p4d_transport *t)
{
	return t && (t->broken || t->world->failed);
}

void p4d_comm_transport_close(p4d_transport *t)
{
	if (!t)
		return;
	if (t->device->watch_context == t)
		t->device->watch = NULL;
	if (t->ops)
		t->ops->end(t);
	free(t);
}

const char *p4d_comm_transport_name(const p4d_transport *t)
{
	return t ? t->name : "host memory";
}

int p4d_comm_on_device(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	if (!t)
		return 0;
	if (g->size > 1 && t->ops->open(g, t, traffic, err) < 0) {
		t->broken = true;
		t->ops->close(g, t);
		return -1;
	}
	g->transport = t;
	return 0;
}

void p4d_comm_device__group_close(p4d_group *g)
{
	if (g->transport && g->size > 1)
		g->transport->ops->close(g, g->transport);
}

unsigned p4d_comm_message_blocks(const p4d_group *g)
{
	return g->transport && g->size > 1 ? g->transport->ops->message_blocks : 0;
}

bool p4d_comm_runs_async(const p4d_group *g)
{
	return g->transport && g->size > 1 && g->transport->ops->runs_async(g);
}

uint64_t p4d_comm_called(const p4d_group *g)
{
	return g->transport && g->size > 1 ? g->transport->ops->called(g) : 0;
}

void p4d_comm_follow(p4d_group *g, void *event)
{
	if (g->transport)
		g->transport->device->event_wait(g->transport->device,
						 p4d_comm_runs_async(g) ? g->transport->ops->stream(g) : NULL,
						 event);
}

int p4d_comm_await(p4d_group *g, uint64_t count, p4d_error *err)
{
	return g->transport && g->size > 1 && count ? g->transport->ops->await(g, count, err) : 0;
}

int p4d_comm_device__collective(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	p4d_device *d = g->transport->device;

	if (g->size > 1)
		return g->transport->ops->collective(g, c, err);
	if (c->to != c->from && c->from)
		d->copy(d, c->to, c->from, c->count * c->width);
	return 0;
}

int p4d_comm_device__take_own(p4d_group *g, unsigned channel, void *data, uint64_t bytes, p4d_error *err)
{
	p4d_device *d = g->transport->device;

	if (p4d_channel_take(g->world, g->world->rank, channel, 0, bytes, err) < 0)
		return -1;
	d->copy(d, data, p4d_channel__take_own(g->world, channel), bytes);
	return 0;
}

/* Like p4d_transport_ops.sent, also for messages to this rank itself. */
static int sent(p4d_group *g, const p4d_pending *p, p4d_error *err)
{
	if (p->to != g->index)
		return g->transport->ops->sent(g, p->to, p->channel, p->ticket, err);
	return g->world->peers[g->world->rank].out[p->channel].done > p->ticket;
}

int p4d_comm_device__send_wait_any(p4d_group *g, const p4d_pending *pending, unsigned count, unsigned *which,
				   p4d_error *err)
{
	bool others = false;
	unsigned turn = 0;
	int done;

	for (;;) {
		for (*which = 0; *which < count; ++*which) {
			if ((done = sent(g, &pending[*which], err)) != 0)
				return done < 0 ? -1 : 0;
			others |= pending[*which].to != g->index;
		}
		if (!others)
			return p4d_fail(err, P4D_E_VALUE,
					"rank %u would wait for a receive that it has not started",
					g->world->rank);
		if (p4d_device_pause(g->transport->device, &turn, err) < 0)
			return -1;
	}
}
