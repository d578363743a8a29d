/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the transport of groups on devices. All ranks make the same choice, once. */
#include "comm/transport/transport_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"
#include "comm/transport/nccl.h"
#include "comm/transport/staged.h"

/* What each rank tells all others about its device and NCCL, so that all choose the same transport. */
typedef struct p4d_card {
	char identity[sizeof(((p4d_device *)0)->identity)];
	int32_t version; /* version of the rank's NCCL; 0: it has none */
	char why[140];   /* why the rank has no NCCL */
} p4d_card;

/* Writes the reason why NCCL cannot be used; "": it can. */
static void find_obstacle(const p4d_world *w, const p4d_card *cards, char *why, size_t size)
{
	char text[96];

	why[0] = '\0';
	for (uint32_t i = 0; i < w->size; i++) {
		const p4d_card *card = &cards[i];
		p4d_world_peer_text(&w->peers[i], text);
		if (!card->version)
			snprintf(why, size, "%s has no NCCL: %s", text, card->why);
		else if (card->version < P4D_NCCL_LEAST)
			snprintf(why, size, "%s has NCCL %d.%d, expected 2.18 or later", text,
				 card->version / 10000, card->version / 100 % 100);
		else if (card->version != cards[0].version)
			snprintf(why, size, "rank 0 has NCCL version %d, but %s has version %d",
				 cards[0].version, text, card->version);
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
	t->ops = &p4d_staged__transport;
	return p4d_staged__begin(t, err);
}

static int begin(p4d_transport *t, const p4d_card *cards, p4d_transport_kind kind, p4d_nccl **nccl,
		 p4d_error *err)
{
	const p4d_world *w = t->world;
	char why[256];

	if (w->size == 1) {
		snprintf(t->name, sizeof(t->name), "one rank");
		t->ops = &p4d_staged__transport;
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
	t->ops = &p4d_nccl__transport;
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
		if (p4d_nccl__open(&nccl, library, &why) == 0)
			own.version = nccl->version;
		else
			snprintf(own.why, sizeof(own.why), "%.*s", (int)sizeof(own.why) - 1, why.text);
	}
	if (p4d_comm_all_gather(all, cards, &own, sizeof(own), err) == 0)
		rc = begin(t, cards, kind, &nccl, err);
	p4d_nccl__close(nccl);
	free(cards);
	return rc;
}

int p4d_comm_transport_open(p4d_transport **transport, p4d_group *all, p4d_device *device,
			    p4d_transport_kind kind, const char *library, p4d_error *err)
{
	*transport = NULL;
	if (!device->identity[0] && kind == P4D_TRANSPORT_AUTO)
		return 0;
	if (!device->identity[0] && kind == P4D_TRANSPORT_NCCL) {
		p4d_fail(err, P4D_E_VALUE, "NCCL cannot be used: the %s device is not a GPU", device->name);
		return p4d_fix(err, "--comm auto");
	}
	p4d_transport *t = calloc(1, sizeof(*t));
	if (!t)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a transport");
	t->world = all->world;
	t->device = device;
	if (open_transport(t, all, kind, library, err) < 0) {
		p4d_comm_transport_close(t);
		return -1;
	}
	device->watch = p4d_comm_transport_watch;
	device->watch_context = t;
	*transport = t;
	return 0;
}
