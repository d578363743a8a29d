/* SPDX-License-Identifier: Apache-2.0 */
/* Groups on a device: which way their data go, and what all ways share. */
#include "comm/transport.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl/nccl_library.h"

static const double LOOK_SECONDS = 0.002;
/* How long the news of a rank's end may take after what NCCL noticed of it. */
static const double NEWS_SECONDS = 2;

int p4d_device_reach(p4d_device *device, void *mark, p4d_error *err)
{
	unsigned turn = 0;
	int reached;

	while ((reached = device->marked(device, mark, err)) == 0)
		if (p4d_device_pause(device, &turn, err) < 0)
			return -1;
	return reached < 0 ? -1 : 0;
}

int p4d_device_blame(p4d_world *w, p4d_error *err)
{
	const double until = p4d_seconds() + NEWS_SECONDS;

	while (!w->failed && p4d_seconds() < until)
		p4d_events_take(w, 50);
	return w->failed ? p4d_world_error(w, err) : -1;
}

static int watch(void *context, p4d_error *err)
{
	p4d_transport *t = context;
	const double now = p4d_seconds();

	if (t->world->active)
		p4d_push_all(t->world);
	if (p4d_world_check(t->world, err) < 0)
		return -1;
	if (!t->carrier->watch || now - t->looked_at < LOOK_SECONDS)
		return 0;
	t->looked_at = now;
	if (t->carrier->watch(t, err) == 0)
		return 0;
	t->broken = true;
	return p4d_device_blame(t->world, err);
}

void p4d_transport_break(p4d_transport *t)
{
	if (t)
		t->broken = true;
}

bool p4d_transport_broken(const p4d_transport *t)
{
	return t && (t->broken || t->world->failed);
}

/* What each rank tells all others, so that all decide alike. */
typedef struct p4d_card {
	char identity[sizeof(((p4d_device *)0)->identity)];
	int32_t version; /* of its NCCL; 0: none */
	char why[140];   /* there is none */
} p4d_card;

/* Why NCCL is not possible; "": it is. */
static void find_obstacle(const p4d_world *w, const p4d_card *cards, char *why, size_t size)
{
	char text[96];

	why[0] = '\0';
	for (uint32_t i = 0; i < w->size; i++) {
		const p4d_card *card = &cards[i];
		p4d_peer_text(&w->peers[i], text);
		if (!card->version)
			snprintf(why, size, "%s has no NCCL: %s", text, card->why);
		else if (card->version < P4D_NCCL_LEAST)
			snprintf(why, size, "%s has NCCL %d.%d, at least 2.18 is needed", text,
				 card->version / 10000, card->version / 100 % 100);
		else if (card->version != cards[0].version)
			snprintf(why, size, "rank 0 has NCCL of version %d, %s %d", cards[0].version, text,
				 card->version);
		for (uint32_t j = 0; j < i && !why[0]; j++)
			if (!strcmp(cards[j].identity, card->identity))
				snprintf(why, size, "ranks %u and %u share a GPU", j, i);
		if (why[0])
			return;
	}
}

static int begin_staged(p4d_transport *t, const char *why, p4d_error *err)
{
	snprintf(t->name, sizeof(t->name), "staged through the host%s%s", *why ? ": " : "", why);
	for (char *c = t->name; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '\'';
	t->carrier = &p4d_staged_carrier;
	return p4d_staged_begin(t, err);
}

static int begin(p4d_transport *t, const p4d_card *cards, p4d_transport_kind kind, p4d_nccl **nccl,
		 p4d_error *err)
{
	const p4d_world *w = t->world;
	char why[256];

	if (w->size == 1) {
		snprintf(t->name, sizeof(t->name), "one rank");
		t->carrier = &p4d_staged_carrier;
		return 0;
	}
	if (kind == P4D_TRANSPORT_STAGED)
		return begin_staged(t, "", err);
	find_obstacle(w, cards, why, sizeof(why));
	if (why[0] && kind == P4D_TRANSPORT_AUTO)
		return begin_staged(t, why, err);
	if (why[0]) {
		p4d_fail(err, P4D_E_VALUE, "NCCL cannot be used: %s", why);
		return p4d_fix(err, "--comm staged");
	}
	snprintf(t->name, sizeof(t->name), "NCCL %d.%d.%d", cards[0].version / 10000,
		 cards[0].version / 100 % 100, cards[0].version % 100);
	t->carrier = &p4d_nccl_carrier;
	t->state = *nccl;
	*nccl = NULL;
	return 0;
}

static int open_transport(p4d_transport *t, p4d_group *all, p4d_transport_kind kind, const char *library,
			  p4d_error *err)
{
	p4d_card own = {.version = 0}, *cards = calloc(all->size, sizeof(*cards));
	p4d_nccl *nccl = NULL;
	p4d_error why;
	int rc = -1;

	if (!cards)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the devices of %u ranks", all->size);
	memcpy(own.identity, t->device->identity, sizeof(own.identity));
	if (kind != P4D_TRANSPORT_STAGED && all->size > 1) {
		if (p4d_nccl_open(&nccl, library, &why) == 0)
			own.version = nccl->version;
		else
			snprintf(own.why, sizeof(own.why), "%.*s", (int)sizeof(own.why) - 1, why.text);
	}
	if (p4d_all_gather(all, cards, &own, sizeof(own), err) == 0)
		rc = begin(t, cards, kind, &nccl, err);
	p4d_nccl_close(nccl);
	free(cards);
	return rc;
}

int p4d_transport_open(p4d_transport **transport, p4d_group *all, p4d_device *device, p4d_transport_kind kind,
		       const char *library, p4d_error *err)
{
	*transport = NULL;
	if (!device->identity[0] && kind == P4D_TRANSPORT_AUTO)
		return 0;
	if (!device->identity[0] && kind == P4D_TRANSPORT_NCCL) {
		p4d_fail(err, P4D_E_VALUE, "NCCL cannot be used: the %s device is no GPU", device->name);
		return p4d_fix(err, "--comm auto");
	}
	p4d_transport *t = calloc(1, sizeof(*t));
	if (!t)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the communication of a device");
	t->world = all->world;
	t->device = device;
	if (open_transport(t, all, kind, library, err) < 0) {
		p4d_transport_close(t);
		return -1;
	}
	device->watch = watch;
	device->watch_context = t;
	*transport = t;
	return 0;
}

void p4d_transport_close(p4d_transport *t)
{
	if (!t)
		return;
	if (t->device->watch_context == t)
		t->device->watch = NULL;
	if (t->carrier)
		t->carrier->end(t);
	free(t);
}

const char *p4d_transport_name(const p4d_transport *t)
{
	return t ? t->name : "host memory";
}

int p4d_group_on_device(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	if (!t)
		return 0;
	if (g->size > 1 && t->carrier->open(g, t, traffic, err) < 0) {
		t->broken = true;
		t->carrier->close(g, t);
		return -1;
	}
	g->transport = t;
	return 0;
}

void p4d_device_group_close(p4d_group *g)
{
	if (g->transport && g->size > 1)
		g->transport->carrier->close(g, g->transport);
}

bool p4d_group_runs_aside(const p4d_group *g)
{
	return g->transport && g->size > 1 && g->transport->carrier->runs_aside(g);
}

uint64_t p4d_group_called(const p4d_group *g)
{
	return g->transport && g->size > 1 ? g->transport->carrier->called(g) : 0;
}

int p4d_group_await(p4d_group *g, uint64_t count, p4d_error *err)
{
	return g->transport && g->size > 1 && count ? g->transport->carrier->await(g, count, err) : 0;
}

int p4d_device_collective(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	p4d_device *d = g->transport->device;

	if (g->size > 1)
		return g->transport->carrier->collective(g, c, err);
	if (c->to != c->from && c->from)
		d->copy(d, c->to, c->from, c->count * c->width);
	return 0;
}

int p4d_device_take_own(p4d_group *g, unsigned channel, void *data, uint64_t bytes, p4d_error *err)
{
	p4d_device *d = g->transport->device;

	if (p4d_take(g->world, g->world->rank, channel, 0, bytes, err) < 0)
		return -1;
	d->copy(d, data, p4d_take_own(g->world, channel), bytes);
	return 0;
}

/* As p4d_carrier.sent, for all. */
static int sent(p4d_group *g, const p4d_pending *p, p4d_error *err)
{
	if (p->to != g->index)
		return g->transport->carrier->sent(g, p->to, p->channel, p->ticket, err);
	return g->world->peers[g->world->rank].out[p->channel].done > p->ticket;
}

int p4d_device_send_wait_any(p4d_group *g, const p4d_pending *pending, unsigned count, unsigned *which,
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
			return p4d_fail(err, P4D_E_VALUE, "rank %u waits for itself to receive",
					g->world->rank);
		if (p4d_device_pause(g->transport->device, &turn, err) < 0)
			return -1;
	}
}
