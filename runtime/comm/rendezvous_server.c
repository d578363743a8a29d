/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's part of the rendezvous: accepts processes that know the key, and sends the outcome to all. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/local_key.h"
#include "comm/rendezvous.h"

/* Maximum number of connections that have not sent a complete join. Other programs may have opened them. */
enum { PENDING = 64 };
static const double PENDING_SECONDS = 5; /* seconds until a silent connection is dropped */

typedef struct p4d_pending_connection {
	int fd; /* -1: the entry is free */
	double since;
	uint64_t challenge;
	size_t got;
	p4d_join join;
} p4d_pending_connection;

typedef struct p4d_rendezvous_server {
	p4d_rendezvous *rendezvous;
	const p4d_ranks *ranks;
	p4d_pending_connection pending[PENDING];
	struct pollfd *polled; /* the listening socket, the key's socket, pending connections, then the ranks'
				  connections */
	uint64_t *nonce;       /* from each rank's join */
	uint32_t present;
	char refused[P4D_ADDRESS_TEXT]; /* address of the last process that was refused because it had another
					   key; "": none */
} p4d_rendezvous_server;

static void drop(p4d_pending_connection *c)
{
	close(c->fd);
	c->fd = -1;
}

static void accept_all(p4d_rendezvous_server *server)
{
	int fd;

	while ((fd = p4d_wire__accept(server->rendezvous->listener)) >= 0) {
		p4d_pending_connection *c = &server->pending[0];
		for (int i = 1; i < PENDING && c->fd >= 0; i++)
			if (server->pending[i].fd < 0 || server->pending[i].since < c->since)
				c = &server->pending[i];
		if (c->fd >= 0)
			drop(c);
		p4d_challenge challenge = {.magic = P4D_CHALLENGE};
		*c = (p4d_pending_connection){.fd = fd, .since = p4d_clock_seconds()};
		p4d_wire__no_delay(fd);
		if (p4d_wire__random(&challenge.nonce, sizeof(challenge.nonce)) < 0 ||
		    p4d_wire__write_by(fd, &challenge, sizeof(challenge), 0) < 0)
			drop(c);
		c->challenge = challenge.nonce;
	}
}

/*
 * Sends the table, or the reason why there is none. A failed send is ignored: the connection shows later that
 * the rank has ended.
 */
static void answer(const p4d_rendezvous_server *server, int fd, uint64_t nonce, const p4d_error *why,
		   double deadline)
{
	const p4d_rendezvous *m = server->rendezvous;
	p4d_comm_key key = p4d_rendezvous__join_key(server->ranks);
	size_t bytes = server->ranks->size * sizeof(*m->members);
	p4d_answer answer;

	memset(&answer, 0, sizeof(answer));
	answer.magic = P4D_ANSWER;
	answer.failed = why != NULL;
	answer.nonce = nonce;
	answer.secret = m->secret;
	answer.table = p4d_wire__mac(key, m->members, bytes);
	snprintf(answer.text, sizeof(answer.text), "%s", why ? why->text : "");
	answer.mac = p4d_rendezvous__answer_mac(key, &answer);
	if (p4d_wire__write_by(fd, &answer, sizeof(answer), deadline) == 0 && !why)
		p4d_wire__write_by(fd, m->members, bytes, deadline);
}

/*
 * Processes a complete join with the right MAC. -1: the join contradicts this rank's options, or another
 * rank's.
 */
static int admit(p4d_rendezvous_server *server, p4d_pending_connection *c, p4d_error *err)
{
	const p4d_ranks *ranks = server->ranks;
	p4d_member *self = &c->join.self;
	uint32_t rank = self->rank;

	self->name[sizeof(self->name) - 1] = self->local[sizeof(self->local) - 1] = '\0';
	if (c->join.size != ranks->size || rank >= ranks->size)
		return p4d_fail(err, P4D_E_RANK,
				"a process on %s joined as rank %u of %u, but rank 0 expects %u ranks",
				self->name, rank, c->join.size, ranks->size);
	if (rank == 0 || server->rendezvous->control[rank] >= 0)
		return p4d_fail(err, P4D_E_RANK, "two processes joined as rank %u, on %s and %s", rank,
				server->rendezvous->members[rank].name, self->name);
	server->rendezvous->members[rank] = *self;
	server->rendezvous->control[rank] = c->fd;
	server->nonce[rank] = c->join.nonce;
	server->present++;
	c->fd = -1;
	return 0;
}

static int read_join(p4d_rendezvous_server *server, p4d_pending_connection *c, p4d_error *err)
{
	ssize_t n = recv(c->fd, (char *)&c->join + c->got, sizeof(c->join) - c->got, MSG_DONTWAIT);
	p4d_wire_address from;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		drop(c);
		return 0;
	}
	c->got += (size_t)n;
	if (c->got < sizeof(c->join))
		return 0;
	if (c->join.magic == P4D_JOIN && c->join.challenge == c->challenge &&
	    c->join.mac == p4d_rendezvous__join_mac(p4d_rendezvous__join_key(server->ranks), &c->join)) {
		if (admit(server, c, err) == 0)
			return 0;
		answer(server, c->fd, c->join.nonce, err, p4d_clock_seconds() + 1);
		return -1;
	}
	if (p4d_wire__address_remote(&from, c->fd))
		p4d_wire__address_text(&from, server->refused);
	drop(c);
	return 0;
}

static int missing(p4d_rendezvous_server *server, p4d_error *err)
{
	const p4d_ranks *ranks = server->ranks;
	char list[160];
	bool hidden = p4d_wire__address_is_loopback(&server->rendezvous->members[0].address) &&
		      !p4d_rendezvous__is_loopback(ranks->host);
	bool *absent = calloc(ranks->size, sizeof(*absent));

	if (!absent)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a list of %u ranks", ranks->size);
	for (uint32_t r = 1; r < ranks->size; r++)
		absent[r] = server->rendezvous->control[r] < 0;
	p4d_rendezvous__rank_list(list, sizeof(list), absent, ranks->size);
	free(absent);
	p4d_fail(err, P4D_E_RANK, "%u of %u ranks did not join rank 0 (%s) within %g s: %s%s%s%s",
		 ranks->size - 1 - server->present, ranks->size, server->rendezvous->members[0].name,
		 ranks->join_seconds, list,
		 server->refused[0] ? "; a process with another key came from " : "", server->refused,
		 hidden ? "; rank 0 listens only on loopback, because the name of its host resolves to a "
			  "loopback address on that host"
			: "");
	return hidden ? p4d_fix(err, "export P4D_JOB_HOST=ADDRESS_OF_%s", server->rendezvous->members[0].name)
		      : -1;
}

/*
 * A rank that joined sends nothing until it has the table. So if its connection is readable, the rank has
 * closed it.
 */
static int gone(p4d_rendezvous_server *server, uint32_t rank, p4d_error *err)
{
	char byte;
	ssize_t n = recv(server->rendezvous->control[rank], &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return p4d_fail(err, P4D_E_RANK, "rank %u (%s) ended while others were still joining", rank,
			server->rendezvous->members[rank].name);
}

static int gather(p4d_rendezvous_server *server, double deadline, p4d_error *err)
{
	p4d_rendezvous *m = server->rendezvous;
	uint32_t size = server->ranks->size;

	while (server->present + 1 < size) {
		double now = p4d_clock_seconds();
		if (now >= deadline)
			return missing(server, err);
		server->polled[0] = (struct pollfd){.fd = m->listener, .events = POLLIN};
		server->polled[1] = (struct pollfd){.fd = m->keys, .events = POLLIN};
		for (int i = 0; i < PENDING; i++) {
			p4d_pending_connection *c = &server->pending[i];
			if (c->fd >= 0 && now - c->since > PENDING_SECONDS)
				drop(c);
			server->polled[2 + i] = (struct pollfd){.fd = c->fd, .events = POLLIN};
		}
		struct pollfd *of_ranks = server->polled + 2 + PENDING;
		for (uint32_t r = 0; r < size; r++)
			of_ranks[r] = (struct pollfd){.fd = m->control[r], .events = POLLIN};
		const int ready =
		    poll(server->polled, 2 + PENDING + size, (int)fmin(ceil(1e3 * (deadline - now)), 1e3));
		if (ready < 0 && errno == EINVAL) { /* RLIMIT_NOFILE is below the number of entries */
			p4d_fail(err, P4D_E_RANK,
				 "the limit on open files (ulimit -n) of rank 0 (%s) is too low for %u ranks",
				 m->members[0].name, size);
			return p4d_fix(err, "ulimit -n %u", 64 + 8 * size);
		}
		if (ready <= 0)
			continue;
		for (uint32_t r = 1; r < size; r++)
			if (of_ranks[r].revents && gone(server, r, err) < 0)
				return -1;
		for (int i = 0; i < PENDING; i++)
			if (server->polled[2 + i].revents && server->pending[i].fd >= 0 &&
			    read_join(server, &server->pending[i], err) < 0)
				return -1;
		if (server->polled[1].revents)
			p4d_local_key__hand_out(m->keys, server->ranks);
		if (server->polled[0].revents)
			accept_all(server);
	}
	return 0;
}

static void answer_all(const p4d_rendezvous_server *server, const p4d_error *why)
{
	p4d_rendezvous *m = server->rendezvous;
	uint32_t size = server->ranks->size;
	double deadline = p4d_clock_seconds() + 5;

	for (uint32_t r = 1; r < size; r++)
		if (m->control[r] >= 0)
			answer(server, m->control[r], server->nonce[r], why, deadline);
}

int p4d_rendezvous__serve(p4d_rendezvous *rendezvous, const p4d_ranks *ranks, double deadline, p4d_error *err)
{
	p4d_rendezvous_server server = {.rendezvous = rendezvous, .ranks = ranks};
	p4d_error why;
	int rc = 0;

	for (int i = 0; i < PENDING; i++)
		server.pending[i].fd = -1;
	server.polled = calloc((size_t)2 + PENDING + ranks->size, sizeof(*server.polled));
	server.nonce = calloc(ranks->size, sizeof(*server.nonce));
	if (!server.polled || !server.nonce)
		rc = p4d_fail(&why, P4D_E_NO_MEMORY, "no memory for %u ranks", ranks->size);
	else if (p4d_wire__random(&rendezvous->secret, sizeof(rendezvous->secret)) < 0)
		rc = p4d_fail(&why, P4D_E_IO, "the system provides no random numbers: %s", strerror(errno));
	/* the secret is sent in clear text, but the MAC of later connections also needs the key */
	if (!rc && (rc = gather(&server, deadline, &why)) < 0)
		answer_all(&server, &why);
	else if (!rc)
		answer_all(&server, NULL);
	for (int i = 0; i < PENDING; i++)
		if (server.pending[i].fd >= 0)
			close(server.pending[i].fd);
	free(server.polled);
	free(server.nonce);
	if (rc && err)
		*err = why;
	return rc;
}
