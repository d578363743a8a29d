/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams to ranks on other nodes. Each direction of each channel has its own connection, which the
 * sender opens with its first message. TCP's flow control therefore works per channel: a message that is not
 * received yet delays no other channel.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "comm/channel.h"
#include "comm/events.h"
#include "comm/world.h"

/*
 * Breaks the world after a failed connection. First waits up to 0.2 s, because the peer's control connection
 * often shows a better reason.
 */
static void lost(p4d_world *w, const p4d_peer *peer, int reason)
{
	char text[96];

	for (int i = 0; i < 20 && !w->failed && !peer->left; i++)
		p4d_events__take(w, i ? 10 : 0);
	p4d_events__break(w, NULL, "connection to %s lost: %s", p4d_world_peer_text(peer, text),
			  strerror(reason));
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINTR || errno == EALREADY || errno == EINPROGRESS;
}

static int connect_out(p4d_world *w, p4d_out *out)
{
	out->fd = p4d_wire__dial(&w->peers[out->rank].member.address);
	if (out->fd < 0)
		return -1;
	p4d_wire__no_delay(out->fd);
	out->hello = p4d_events__hello(w, w->rank, out->rank, out->channel);
	return p4d_events__add(w, out->fd, EPOLLOUT | EPOLLET, P4D_EVENT_DATA, out->rank, out->channel);
}

size_t p4d_tcp__send(p4d_world *w, p4d_out *out, const void *data, size_t bytes)
{
	const p4d_peer *peer = &w->peers[out->rank];

	if (out->fd < 0 && connect_out(w, out) < 0) {
		lost(w, peer, errno);
		return 0;
	}
	while (out->hello_sent < sizeof(out->hello)) {
		ssize_t n = send(out->fd, (const char *)&out->hello + out->hello_sent,
				 sizeof(out->hello) - out->hello_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			if (!would_block())
				lost(w, peer, errno);
			return 0;
		}
		out->hello_sent += (size_t)n;
	}
	ssize_t n = send(out->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0)
		return (size_t)n;
	if (!would_block())
		lost(w, peer, errno);
	return 0;
}

size_t p4d_tcp__receive(p4d_world *w, const p4d_peer *peer, p4d_in *in, void *data, size_t bytes)
{
	if (in->fd < 0)
		return 0;
	ssize_t n = recv(in->fd, data, bytes, MSG_DONTWAIT);
	if (n > 0)
		return (size_t)n;
	if (n == 0) /* the peer's control connection shows whether the peer left or died */
		p4d_events__take(w, 0);
	else if (!would_block())
		lost(w, peer, errno);
	return 0;
}
