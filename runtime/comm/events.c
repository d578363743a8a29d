/* SPDX-License-Identifier: Apache-2.0 */
/* Incoming events: new connections, notices and closed connections of other ranks, this rank's eventfd. */
#include "comm/events.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/world.h"

enum { P4D_HELLO = 0x70346410, P4D_NOTICE = 0x70346420, BATCH = 64 };
static const double HANDSHAKE_SECONDS = 5;

p4d_hello p4d_events__hello(const p4d_world *w, uint32_t from, uint32_t to, unsigned channel)
{
	p4d_hello hello = {.magic = P4D_HELLO, .from = from, .to = to, .channel = channel};

	hello.mac = p4d_wire__mac(w->key, &hello, offsetof(p4d_hello, mac));
	return hello;
}

int p4d_events__add(p4d_world *w, int fd, uint32_t events, unsigned kind, uint32_t rank, unsigned channel)
{
	struct epoll_event event = {.events = events,
				    .data.u64 = (uint64_t)kind << 48 | (uint64_t)channel << 32 | rank};

	return epoll_ctl(w->events, EPOLL_CTL_ADD, fd, &event);
}

int p4d_events__control(p4d_world *w, uint32_t rank, int fd, p4d_error *err)
{
	w->peers[rank].control = fd;
	w->connected++;
	p4d_wire__no_delay(fd);
	p4d_wire__keep_alive(fd, w->idle_seconds);
	if (p4d_events__add(w, fd, EPOLLIN | EPOLLRDHUP, P4D_EVENT_CONTROL, rank, 0) < 0)
		return p4d_fail(err, P4D_E_IO, "epoll: %s", strerror(errno));
	return 0;
}

static void tell(const p4d_world *w, p4d_notice_kind kind, const char *text)
{
	p4d_notice notice = {.magic = P4D_NOTICE, .kind = kind};

	snprintf(notice.text, sizeof(notice.text), "%s", text);
	/*
	 * This must not block. A rank gets at most three of these messages, which fit in any socket buffer.
	 */
	for (uint32_t r = 0; r < w->size; r++)
		if (w->peers[r].control >= 0)
			send(w->peers[r].control, &notice, sizeof(notice), MSG_DONTWAIT | MSG_NOSIGNAL);
}

int p4d_events__error(const p4d_world *w, p4d_error *err)
{
	if (err)
		*err = w->why;
	return -1;
}

int p4d_events__break(p4d_world *w, p4d_error *err, const char *format, ...)
{
	va_list args;

	if (!w->failed) {
		w->failed = true;
		w->why = (p4d_error){.code = P4D_E_RANK};
		va_start(args, format);
		vsnprintf(w->why.text, sizeof(w->why.text), format, args);
		va_end(args);
		tell(w, P4D_NOTICE_FAILED, w->why.text);
	}
	return p4d_events__error(w, err);
}

void p4d_events__leave(p4d_world *w)
{
	tell(w, P4D_NOTICE_LEAVES, "");
}

void p4d_events__live(p4d_world *w)
{
	tell(w, P4D_NOTICE_LIVES, "");
}

static void control_ended(p4d_world *w, p4d_peer *peer, int reason)
{
	char text[96];

	close(peer->control);
	peer->control = -1;
	if (peer->left)
		return;
	if (reason == ETIMEDOUT || reason == EHOSTUNREACH || reason == ENETUNREACH)
		p4d_events__break(w, NULL, "%s is unreachable: %s", p4d_world_peer_text(peer, text),
				  strerror(reason));
	else
		p4d_events__break(w, NULL, "%s ended unexpectedly: process %lld was killed or crashed",
				  p4d_world_peer_text(peer, text), (long long)peer->member.pid);
}

static void read_control(p4d_world *w, p4d_peer *peer)
{
	while (peer->control >= 0) {
		ssize_t n = recv(peer->control, (char *)&peer->notice + peer->notice_got,
				 sizeof(peer->notice) - peer->notice_got, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			control_ended(w, peer, n < 0 ? errno : 0);
			return;
		}
		peer->notice_got += (size_t)n;
		if (peer->notice_got < sizeof(peer->notice))
			continue;
		peer->notice_got = 0;
		peer->notice.text[sizeof(peer->notice.text) - 1] = '\0';
		if (peer->notice.magic != P4D_NOTICE) {
			p4d_events__break(w, NULL, "data from rank %u does not have the format of p4d",
					  peer->member.rank);
		} else if (peer->notice.kind == P4D_NOTICE_FAILED) {
			p4d_events__break(w, NULL, "%s", peer->notice.text);
		} else if (peer->notice.kind == P4D_NOTICE_LIVES) {
			peer->lives = true;
		} else {
			peer->left = true;
			peer->left_at = p4d_clock_seconds();
		}
	}
}

/* Takes a connection with a complete hello. False: close it. */
static bool accept_hello(p4d_world *w, const p4d_hello *hello, int fd)
{
	p4d_hello wanted = p4d_events__hello(w, hello->from, w->rank, hello->channel);

	if (memcmp(hello, &wanted, sizeof(wanted)) || hello->from >= w->size || hello->from == w->rank)
		return false;
	p4d_peer *peer = &w->peers[hello->from];
	epoll_ctl(w->events, EPOLL_CTL_DEL, fd, NULL);
	if (hello->channel == P4D_ALL_CHANNELS) {
		if (peer->control >= 0 || peer->left)
			return false;
		p4d_events__control(w, hello->from, fd, NULL);
		return true;
	}
	if (hello->channel >= P4D_ALL_CHANNELS || peer->in[hello->channel].fd >= 0)
		return false;
	peer->in[hello->channel].fd = fd;
	/*
	 * edge-triggered, because data that waits to be received must not wake a sleeping rank again and
	 * again
	 */
	p4d_events__add(w, fd, EPOLLIN | EPOLLET, P4D_EVENT_DATA, hello->from, hello->channel);
	return true;
}

static void read_hello(p4d_world *w, uint32_t i)
{
	p4d_handshake *g = &w->handshakes[i];

	if (g->fd < 0)
		return;
	ssize_t n = recv(g->fd, (char *)&g->hello + g->got, sizeof(g->hello) - g->got, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		g->got += (size_t)n;
	if (n > 0 && g->got < sizeof(g->hello))
		return;
	if (n <= 0 || !accept_hello(w, &g->hello, g->fd))
		close(g->fd);
	g->fd = -1;
}

static void accept_all(p4d_world *w)
{
	int fd;

	while ((fd = p4d_wire__accept(w->listener)) >= 0) {
		uint32_t at = 0;
		for (uint32_t i = 1; i < P4D_HANDSHAKES && w->handshakes[at].fd >= 0; i++)
			if (w->handshakes[i].fd < 0 || w->handshakes[i].since < w->handshakes[at].since)
				at = i;
		p4d_handshake *g = &w->handshakes[at];
		if (g->fd >= 0)
			close(g->fd);
		*g = (p4d_handshake){.fd = fd, .since = p4d_clock_seconds()};
		if (p4d_events__add(w, fd, EPOLLIN, P4D_EVENT_HANDSHAKE, at, 0) < 0) {
			close(fd);
			g->fd = -1;
			continue;
		}
		read_hello(w, at); /* usually the hello has arrived together with the connection */
	}
}

void p4d_events__take(p4d_world *w, int timeout)
{
	struct epoll_event events[BATCH];
	int n = epoll_wait(w->events, events, BATCH, timeout);
	uint64_t count;

	w->looked_at = p4d_clock_seconds();
	for (int i = 0; i < n; i++) {
		uint32_t rank = (uint32_t)events[i].data.u64;
		switch (events[i].data.u64 >> 48) {
		case P4D_EVENT_CONTROL:
			read_control(w, &w->peers[rank]);
			break;
		case P4D_EVENT_LISTENER:
			accept_all(w);
			break;
		case P4D_EVENT_HANDSHAKE:
			read_hello(w, rank);
			break;
		case P4D_EVENT_WAKEUP:
			if (read(w->node.eventfds[w->node.index], &count, sizeof(count)) < 0)
				break; /* already drained */
			break;
		default: /* data connections: a rank that waits for data reads them itself */
			break;
		}
	}
	for (int i = 0; n <= 0 && i < P4D_HANDSHAKES; i++)
		if (w->handshakes[i].fd >= 0 && w->looked_at - w->handshakes[i].since > HANDSHAKE_SECONDS) {
			close(w->handshakes[i].fd);
			w->handshakes[i].fd = -1;
		}
}
