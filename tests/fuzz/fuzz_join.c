/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that a rank reads from connections that anybody can open: joins at rank 0, hellos and notices at
 * all ranks. The first byte has three bits. 1: a hello and then notices instead of a join. 2: the MAC is
 * right. 4: a join is the last one that is missing.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/events.h"
#include "comm/rendezvous.h"
#include "comm/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

/* Replaces the C library's function, so that an input always meets the same nonce. */
ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
	(void)flags;
	memset(to, 0x11, bytes);
	return (ssize_t)bytes;
}

/* Makes a listener without TCP and a closed connection to it, on which all data was already sent. */
static int listen_and_send(int *client, const void *data, size_t size)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t length = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	check(fd >= 0 && *client >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof(name.sun_family)) &&
	      !listen(fd, 1) && !getsockname(fd, (struct sockaddr *)&name, &length) &&
	      !connect(*client, (struct sockaddr *)&name, length));
	check(send(*client, data, size, MSG_NOSIGNAL) == (ssize_t)size);
	shutdown(*client, SHUT_WR);
	return fd;
}

static void join(const uint8_t *data, size_t size, bool sealed, bool last)
{
	p4d_ranks ranks;
	p4d_rendezvous m = {.local = -1, .keys = -1};
	union {
		p4d_join join;
		uint8_t bytes[sizeof(p4d_join) + 64];
	} sent = {.bytes = {0}};
	p4d_error err = {.code = P4D_OK};
	int client;

	check(p4d_ranks_local(&ranks, last ? 2 : 3, &err) == 0);
	size_t bytes = size < sizeof(sent) ? size : sizeof(sent);
	memcpy(sent.bytes, data, bytes);
	if (sealed) {
		sent.join.magic = P4D_JOIN;
		memset(&sent.join.challenge, 0x11, sizeof(sent.join.challenge));
		sent.join.mac = p4d_rendezvous__join_mac(p4d_rendezvous__join_key(&ranks), &sent.join);
		bytes = bytes < sizeof(p4d_join) ? sizeof(p4d_join) : bytes;
	}
	m.members = calloc(ranks.size, sizeof(*m.members));
	m.control = malloc(ranks.size * sizeof(*m.control));
	check(m.members && m.control);
	memset(m.control, 0xff, ranks.size * sizeof(*m.control));
	m.listener = listen_and_send(&client, &sent, bytes);
	if (p4d_rendezvous__serve(&m, &ranks, p4d_clock_seconds() + 0.002, &err) < 0) {
		check(err.code == P4D_E_RANK && err.text[0]);
	} else {
		check(last && sealed && m.control[1] >= 0 && m.members[1].rank == 1);
		check(memchr(m.members[1].name, '\0', sizeof(m.members[1].name)) != NULL);
	}
	p4d_rendezvous__close(&m, ranks.size);
	close(client);
}

static void hello(const uint8_t *data, size_t size, bool sealed)
{
	struct p4d_world w = {.rank = 1, .size = 3, .idle_seconds = 5, .key = {{1, 2}}};
	p4d_peer *peers = calloc(3, sizeof(*peers));
	uint8_t sent[sizeof(p4d_hello) + 2 * sizeof(p4d_notice)] = {0};
	p4d_hello first;
	int client;

	check(peers != NULL);
	w.peers = peers;
	for (int i = 0; i < P4D_HANDSHAKES; i++)
		w.handshakes[i].fd = -1;
	for (int r = 0; r < 3; r++) {
		peers[r].control = -1;
		for (int c = 0; c < P4D_ALL_CHANNELS; c++)
			peers[r].in[c].fd = peers[r].out[c].fd = -1;
	}
	size_t bytes = size < sizeof(sent) ? size : sizeof(sent);
	memcpy(sent, data, bytes);
	if (sealed) {
		memcpy(&first, sent, sizeof(first));
		first = p4d_events__hello(&w, first.from, 1, first.channel);
		memcpy(sent, &first, sizeof(first));
		bytes = bytes < sizeof(first) ? sizeof(first) : bytes;
	}
	w.events = epoll_create1(EPOLL_CLOEXEC);
	w.listener = listen_and_send(&client, sent, bytes);
	check(p4d_events__add(&w, w.listener, EPOLLIN, P4D_EVENT_LISTENER, 0, 0) == 0);
	for (int i = 0; i < 4; i++)
		p4d_events__take(&w, 0);
	check(!w.failed || w.why.text[0]);
	check(peers[1].control < 0); /* no connection may claim to be this rank itself */
	for (int r = 0; r < 3; r++) {
		if (peers[r].control >= 0)
			close(peers[r].control);
		for (int c = 0; c < P4D_ALL_CHANNELS; c++)
			if (peers[r].in[c].fd >= 0)
				close(peers[r].in[c].fd);
	}
	for (int i = 0; i < P4D_HANDSHAKES; i++)
		if (w.handshakes[i].fd >= 0)
			close(w.handshakes[i].fd);
	close(w.listener);
	close(w.events);
	close(client);
	free(peers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		hello(data + 1, size - 1, data[0] & 2);
	else
		join(data + 1, size - 1, data[0] & 2, data[0] & 4);
	return 0;
}
