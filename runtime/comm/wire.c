/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

int p4d_wire__random(void *data, size_t bytes)
{
	return getrandom(data, bytes, 0) == (ssize_t)bytes ? 0 : -1;
}

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_rounds(uint64_t v[4], int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static void absorb(uint64_t v[4], p4d_comm_key key, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t word;
	size_t left = bytes;

	v[0] = key.word[0] ^ 0x736f6d6570736575;
	v[1] ^= key.word[1] ^ 0x646f72616e646f6d;
	v[2] = key.word[0] ^ 0x6c7967656e657261;
	v[3] = key.word[1] ^ 0x7465646279746573;
	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	word = (uint64_t)bytes << 56;
	for (size_t i = 0; i < left; i++)
		word |= (uint64_t)at[i] << 8 * i;
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

uint64_t p4d_wire__mac(p4d_comm_key key, const void *data, size_t bytes)
{
	uint64_t v[4] = {0};

	absorb(v, key, data, bytes);
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

p4d_comm_key p4d_wire__derive(p4d_comm_key key, const void *data, size_t bytes)
{
	uint64_t v[4] = {0, 0xee, 0, 0};
	p4d_comm_key derived;

	absorb(v, key, data, bytes);
	v[2] ^= 0xee;
	sip_rounds(v, 4);
	derived.word[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
	v[1] ^= 0xdd;
	sip_rounds(v, 4);
	derived.word[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
	return derived;
}

uint64_t p4d_wire__hash(uint64_t seed, const void *data, size_t bytes)
{
	return p4d_wire__mac((p4d_comm_key){{seed, 0}}, data, bytes);
}

static bool address_from(p4d_wire_address *address, const struct sockaddr_storage *from)
{
	memset(address, 0, sizeof(*address));
	address->family = from->ss_family;
	if (from->ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
		memcpy(address->bytes, &v4->sin_addr, sizeof(v4->sin_addr));
		address->port = ntohs(v4->sin_port);
		return true;
	}
	if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
		memcpy(address->bytes, &v6->sin6_addr, sizeof(v6->sin6_addr));
		address->port = ntohs(v6->sin6_port);
		address->scope = v6->sin6_scope_id;
		return true;
	}
	return false;
}

static socklen_t to_sockaddr(struct sockaddr_storage *to, const p4d_wire_address *address)
{
	memset(to, 0, sizeof(*to));
	if (address->family == AF_INET) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)to;
		v4->sin_family = AF_INET;
		v4->sin_port = htons(address->port);
		memcpy(&v4->sin_addr, address->bytes, sizeof(v4->sin_addr));
		return sizeof(*v4);
	}
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(address->port);
	v6->sin6_scope_id = address->scope;
	memcpy(&v6->sin6_addr, address->bytes, sizeof(v6->sin6_addr));
	return sizeof(*v6);
}

bool p4d_wire__address_is_loopback(const p4d_wire_address *address)
{
	struct in6_addr v6;

	if (address->family == AF_INET)
		return address->bytes[0] == 127;
	memcpy(&v6, address->bytes, sizeof(v6));
	return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && address->bytes[12] == 127);
}

const char *p4d_wire__address_text(const p4d_wire_address *address, char text[P4D_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "?";

	inet_ntop(address->family, address->bytes, host, sizeof(host));
	snprintf(text, P4D_ADDRESS_TEXT, address->family == AF_INET ? "%s:%u" : "[%s]:%u", host,
		 address->port);
	return text;
}

bool p4d_wire__address_local(p4d_wire_address *address, int fd)
{
	struct sockaddr_storage storage;
	socklen_t length = sizeof(storage);

	return getsockname(fd, (struct sockaddr *)&storage, &length) == 0 && address_from(address, &storage);
}

bool p4d_wire__address_remote(p4d_wire_address *address, int fd)
{
	struct sockaddr_storage storage;
	socklen_t length = sizeof(storage);

	return getpeername(fd, (struct sockaddr *)&storage, &length) == 0 && address_from(address, &storage);
}

int p4d_wire__address_resolve(p4d_wire_address *addresses, int most, const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *at;
	int count = 0;

	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return 0;
	for (at = found; at && count < most; at = at->ai_next) {
		struct sockaddr_storage storage = {0};
		memcpy(&storage, at->ai_addr, at->ai_addrlen);
		if (address_from(&addresses[count], &storage))
			count++;
	}
	freeaddrinfo(found);
	return count;
}

bool p4d_wire__address_toward(p4d_wire_address *address, const char *host)
{
	p4d_wire_address to, from;
	struct sockaddr_storage storage;

	if (p4d_wire__address_resolve(&to, 1, host) < 1)
		return false;
	to.port = 9; /* connecting a datagram socket only chooses a route, so any port will do */
	socklen_t length = to_sockaddr(&storage, &to);
	int fd = socket(to.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && connect(fd, (struct sockaddr *)&storage, length) == 0 &&
		     p4d_wire__address_local(&from, fd) && !p4d_wire__address_is_loopback(&from);
	if (fd >= 0)
		close(fd);
	if (found) {
		*address = from;
		address->port = 0;
	}
	return found;
}

int p4d_wire__listen(const p4d_wire_address *address)
{
	struct sockaddr_storage storage;
	socklen_t length = to_sockaddr(&storage, address);
	int fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		return -1;
	/* allow the port although connections of an earlier process are in TIME_WAIT */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&storage, length) == 0 && listen(fd, 4096) == 0)
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

int p4d_wire__dial(const p4d_wire_address *address)
{
	struct sockaddr_storage storage;
	socklen_t length = to_sockaddr(&storage, address);
	int fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&storage, length) == 0 || errno == EINPROGRESS)
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

int p4d_wire__accept(int listener)
{
	return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

bool p4d_wire__same_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid())
		return true;
	errno = EACCES;
	return false;
}

void p4d_wire__no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void p4d_wire__keep_alive(int fd, double idle_seconds)
{
	int on = 1, probes = 3;
	int interval = (int)fmax(1, idle_seconds / 5);
	int idle = (int)fmax(1, idle_seconds - probes * interval);

	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

int p4d_wire__poll_by(int fd, short events, double deadline)
{
	for (;;) {
		double left = deadline - p4d_clock_seconds();
		struct pollfd wanted = {.fd = fd, .events = events};
		int n = poll(&wanted, 1, left > 0 ? (int)fmin(ceil(1e3 * left), 1e6) : 0);

		if (n > 0)
			return 1;
		if (left <= 0 || (n < 0 && errno != EINTR))
			return 0;
	}
}

static bool again(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

int p4d_wire__read_by(int fd, void *data, size_t bytes, double deadline)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t n = recv(fd, (char *)data + got, bytes - got, MSG_DONTWAIT);

		if (n > 0) {
			got += (size_t)n;
		} else if (n == 0) {
			errno = ECONNRESET;
			return -1;
		} else if (!again(n)) {
			return -1;
		} else if (!p4d_wire__poll_by(fd, POLLIN, deadline)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
	return 0;
}

int p4d_wire__write_by(int fd, const void *data, size_t bytes, double deadline)
{
	for (size_t put = 0; put < bytes;) {
		ssize_t n = send(fd, (const char *)data + put, bytes - put, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			put += (size_t)n;
		} else if (!again(n)) {
			return -1;
		} else if (!p4d_wire__poll_by(fd, POLLOUT, deadline)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
	return 0;
}
