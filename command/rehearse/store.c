/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rehearse/store_keys.h"

enum {
	CLIENTS = 256,
	REQUEST_BYTES = 64 << 20, /* maximum bytes of one request; a larger one ends the connection */
	GRACE_MS = 50,
	ABSENT_BYTES = 128,
};

/* Requests of PyTorch's TCPStore, by their first byte. */
enum {
	VALIDATE,
	SET,
	COMPARE_SET,
	GET,
	ADD,
	CHECK,
	WAIT,
	COUNT,
	DELETE,
	APPEND,
	MULTI_GET,
	MULTI_SET,
	CANCEL_WAIT,
	PING,
};
/* Results of CHECK and WAIT. */
enum { READY = 0, NOT_READY = 1 };

typedef struct store_client {
	int fd;
	char *in;
	size_t in_length, in_room;
	int64_t deadline; /* time in ms at which a request that waits for a key ends; 0: no request waits */
} store_client;

/* A request that is being parsed: `left` becomes negative if the request is not complete yet. */
typedef struct store_cursor {
	char *at;
	int64_t left;
} store_cursor;

typedef struct store {
	store_client client[CLIENTS];
	int clients;
	p4d_store_keys keys;
} store;

/* Integers of the protocol are little-endian, as is every machine that PyTorch's CUDA builds run on. */
static void *next(store_cursor *c, uint64_t bytes)
{
	char *at = c->at;

	if (c->left < 0 || bytes > (uint64_t)c->left) {
		c->left = -1;
		return NULL;
	}
	c->at += bytes;
	c->left -= (int64_t)bytes;
	return at;
}

static uint64_t next_number(store_cursor *c, size_t bytes)
{
	uint64_t value = 0;
	void *at = next(c, bytes);

	if (at)
		memcpy(&value, at, bytes);
	return value;
}

static p4d_bytes next_bytes(store_cursor *c)
{
	uint64_t length = next_number(c, sizeof(length));
	char *at = next(c, length);

	return (p4d_bytes){at, at ? length : 0};
}

static bool reply(const store_client *c, const void *data, size_t bytes)
{
	for (const char *at = data; bytes;) {
		ssize_t sent = send(c->fd, at, bytes, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		at += sent;
		bytes -= (size_t)sent;
	}
	return true;
}

static bool reply_bytes(const store_client *c, const p4d_bytes *value)
{
	static char absent[ABSENT_BYTES];
	p4d_bytes v = value ? *value : (p4d_bytes){absent, ABSENT_BYTES};
	uint64_t length = v.length;

	return reply(c, &length, sizeof(length)) && reply(c, v.at, v.length);
}

/* Keys of one request, and whether all are set. */
typedef struct store_wanted {
	store_cursor keys;
	uint64_t count;
	bool set;
} store_wanted;

static store_wanted next_keys(store *s, store_cursor *c, uint64_t count)
{
	store_wanted w = {.keys = *c, .count = count, .set = true};

	for (uint64_t i = 0; i < count && c->left >= 0; i++) {
		p4d_bytes key = next_bytes(c);
		w.set = w.set && (c->left < 0 || p4d_store__find(&s->keys, key));
	}
	return w;
}

/*
 * Whether to answer a request that wants keys now. The first time that keys are missing, it sets the
 * request's deadline.
 */
static bool is_over(store_client *c, bool set)
{
	if (set || (c->deadline && p4d_clock_ms() >= c->deadline)) {
		c->deadline = 0;
		return true;
	}
	if (!c->deadline)
		c->deadline = p4d_clock_ms() + GRACE_MS;
	return false;
}

static bool add(store *s, const store_client *c, p4d_bytes key, int64_t by)
{
	const p4d_bytes *old = p4d_store__find(&s->keys, key);
	char text[32];

	int64_t sum = (old && old->length < sizeof(text) ? strtoll(old->at, NULL, 10) : 0) + by;
	int length = snprintf(text, sizeof(text), "%" PRId64, sum);
	if (!p4d_store__set(&s->keys, key, (p4d_bytes){text, (size_t)length}))
		return false;
	return reply(c, &sum, sizeof(sum));
}

static bool compare_set(store *s, const store_client *c, p4d_bytes key, p4d_bytes expected,
			p4d_bytes wanted_value)
{
	const p4d_bytes *old = p4d_store__find(&s->keys, key);
	bool equal = old ? old->length == expected.length && !memcmp(old->at, expected.at, expected.length)
			 : !expected.length;

	if (equal && !p4d_store__set(&s->keys, key, wanted_value))
		return false;
	old = p4d_store__find(&s->keys, key);
	return reply_bytes(c, old ? old : &expected);
}

/* Serves requests that ask for keys; *over: the request is answered. False: the connection ends. */
static bool serve_wanted(store *s, store_client *c, int request, store_cursor *at, bool *over)
{
	uint64_t count = request == GET ? 1 : next_number(at, sizeof(count));
	store_wanted w = next_keys(s, at, count);

	*over = at->left >= 0 && (request == CHECK || is_over(c, w.set));
	if (!*over)
		return true;
	if (request == CHECK || request == WAIT) {
		char answer = request == CHECK && !w.set ? NOT_READY : READY;
		return reply(c, &answer, 1);
	}
	for (uint64_t i = 0; i < w.count; i++)
		if (!reply_bytes(c, p4d_store__find(&s->keys, next_bytes(&w.keys))))
			return false;
	return true;
}

/* Serves requests that need no wait. An incomplete request changes nothing. */
static bool serve_simple(store *s, store_client *c, int request, store_cursor *at)
{
	p4d_bytes key = {NULL, 0}, value = {NULL, 0}, third = {NULL, 0};
	uint64_t number = 0;

	if (request == SET || request == COMPARE_SET || request == ADD || request == DELETE ||
	    request == APPEND)
		key = next_bytes(at);
	if (request == SET || request == COMPARE_SET || request == APPEND)
		value = next_bytes(at);
	if (request == COMPARE_SET)
		third = next_bytes(at);
	if (request == ADD)
		number = next_number(at, sizeof(number));
	if (request == VALIDATE || request == PING)
		number = next_number(at, 4);
	if (at->left < 0)
		return true;
	switch (request) {
	case SET:
		return p4d_store__set(&s->keys, key, value);
	case APPEND:
		return p4d_store__append(&s->keys, key, value);
	case COMPARE_SET:
		return compare_set(s, c, key, value, third);
	case ADD:
		return add(s, c, key, (int64_t)number);
	case DELETE:
		number = p4d_store__delete(&s->keys, key);
		return reply(c, &number, sizeof(number));
	case COUNT:
		number = s->keys.count;
		return reply(c, &number, sizeof(number));
	case PING:
		return reply(c, &number, 4);
	default: /* VALIDATE and CANCEL_WAIT have no answer */
		return true;
	}
}

static bool set_all(store *s, store_cursor *at)
{
	store_cursor whole = *at;
	uint64_t count = next_number(&whole, sizeof(count));

	if (count > REQUEST_BYTES)
		return false;
	for (uint64_t i = 0; i < 2 * count && whole.left >= 0; i++)
		next_bytes(&whole);
	if (whole.left < 0) {
		*at = whole;
		return true;
	}
	count = next_number(at, sizeof(count));
	for (uint64_t i = 0; i < count; i++) {
		p4d_bytes key = next_bytes(at);
		if (!p4d_store__set(&s->keys, key, next_bytes(at)))
			return false;
	}
	return true;
}

/*
 * Handles one request; *used: its bytes, 0 if it waits for more bytes or for a key. False: the connection
 * ends.
 */
static bool serve_one(store *s, store_client *c, size_t *used)
{
	store_cursor at = {c->in, (int64_t)c->in_length};
	int request = (int)next_number(&at, 1);
	bool over = true, good;

	*used = 0;
	if (at.left < 0)
		return true;
	if (request == GET || request == CHECK || request == WAIT || request == MULTI_GET)
		good = serve_wanted(s, c, request, &at, &over);
	else if (request == MULTI_SET)
		good = set_all(s, &at);
	else if (request <= PING)
		good = serve_simple(s, c, request, &at);
	else
		return false;
	if (good && over && at.left >= 0)
		*used = (size_t)(at.at - c->in);
	return good;
}

static bool serve(store *s, store_client *c)
{
	for (size_t used = 1; used;) {
		if (!serve_one(s, c, &used))
			return false;
		c->in_length -= used;
		memmove(c->in, c->in + used, c->in_length);
	}
	return true;
}

static bool receive(store_client *c)
{
	if (c->in_length == c->in_room) {
		size_t room = c->in_room ? 2 * c->in_room : 4096;
		char *more = room <= REQUEST_BYTES ? realloc(c->in, room) : NULL;
		if (!more)
			return false;
		c->in = more;
		c->in_room = room;
	}
	ssize_t got = recv(c->fd, c->in + c->in_length, c->in_room - c->in_length, 0);
	if (got <= 0)
		return got < 0 && errno == EINTR;
	c->in_length += (size_t)got;
	return true;
}

static void forget(store *s, int i)
{
	close(s->client[i].fd);
	free(s->client[i].in);
	s->client[i] = s->client[--s->clients];
}

static void welcome(store *s, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0 && s->clients < CLIENTS)
		s->client[s->clients++] = (store_client){.fd = fd};
	else if (fd >= 0)
		close(fd);
}

/* Milliseconds until the earliest deadline of a request that waits; -1: no request waits. */
static int patience(const store *s)
{
	int64_t least = INT64_MAX, now = p4d_clock_ms();

	for (int i = 0; i < s->clients; i++)
		if (s->client[i].deadline && s->client[i].deadline < least)
			least = s->client[i].deadline;
	return least == INT64_MAX ? -1 : least > now ? (int)(least - now) : 0;
}

static void run(int listener)
{
	static store s;

	for (;;) {
		struct pollfd fds[CLIENTS + 1] = {{.fd = listener, .events = POLLIN}};
		for (int i = 0; i < s.clients; i++)
			fds[i + 1] = (struct pollfd){.fd = s.client[i].fd, .events = POLLIN};
		if (poll(fds, (nfds_t)s.clients + 1, patience(&s)) < 0 && errno != EINTR)
			return;
		/* Goes from the last connection to the first, because forget() moves the last one. Each is
		 * served, since a key that one client sets may be what another waits for. */
		for (int i = s.clients - 1; i >= 0; i--)
			if (fds[i + 1].revents && !receive(&s.client[i]))
				forget(&s, i);
		for (int i = s.clients - 1; i >= 0; i--)
			if (!serve(&s, &s.client[i]))
				forget(&s, i);
		if (fds[0].revents)
			welcome(&s, listener);
	}
}

static int listen_on_loopback(uint16_t *port, p4d_error *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&address, &length)) {
		p4d_fail(err, P4D_E_IO, "cannot open a port on the loopback interface: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(address.sin_port);
	return fd;
}

int p4d_store__start(pid_t *process, uint16_t *port, p4d_error *err)
{
	int listener = listen_on_loopback(port, err);

	if (listener < 0)
		return -1;
	pid_t parent = getpid();
	*process = fork();
	if (*process < 0) {
		close(listener);
		return p4d_fail(err, P4D_E_IO, "cannot start a process for the torch.distributed store: %s",
				strerror(errno));
	}
	if (!*process) {
		signal(SIGINT, SIG_IGN); /* the parent process ends this one after the rank */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			run(listener);
		_exit(0);
	}
	close(listener);
	return 0;
}

void p4d_store__stop(pid_t process)
{
	if (process <= 0)
		return;
	kill(process, SIGKILL);
	waitpid(process, NULL, 0);
}
