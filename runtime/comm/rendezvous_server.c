/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's part of the rendezvous: lets in who knows the key, and tells all how it ended. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/rendezvous.h"

/* Connections that have not said yet who they are, strangers among them. */
enum { STRANGERS = 64 };
static const double PATIENCE = 5; /* seconds until a silent one has to go */

typedef struct p4d_pending_connection {
	int fd; /* -1: free */
	double since;
	uint64_t challenge;
	size_t got;
	p4d_join join;
} p4d_pending_connection;

typedef struct p4d_rendezvous_server {
	p4d_rendezvous *meeting;
	const p4d_ranks *ranks;
	p4d_pending_connection visitors[STRANGERS];
	struct pollfd *polled; /* the listener, the visitors, then the ranks */
	uint64_t *once;        /* what each rank's join had */
	uint32_t present;
	char refused[P4D_ADDRESS_TEXT]; /* the last that had another key, "": none */
} p4d_rendezvous_server;

static void dismiss(p4d_pending_connection *v)
{
	close(v->fd);
	v->fd = -1;
}

static void let_in(p4d_rendezvous_server *hall)
{
	int fd;

	while ((fd = p4d_wire__accept(hall->meeting->listener)) >= 0) {
		p4d_pending_connection *v = &hall->visitors[0];
		for (int i = 1; i < STRANGERS && v->fd >= 0; i++)
			if (hall->visitors[i].fd < 0 || hall->visitors[i].since < v->since)
				v = &hall->visitors[i];
		if (v->fd >= 0)
			dismiss(v);
		p4d_challenge challenge = {.magic = P4D_CHALLENGE};
		*v = (p4d_pending_connection){.fd = fd, .since = p4d_wire__now()};
		p4d_wire__no_delay(fd);
		if (p4d_wire__random(&challenge.once, sizeof(challenge.once)) < 0 ||
		    p4d_wire__write_by(fd, &challenge, sizeof(challenge), 0) < 0)
			dismiss(v);
		v->challenge = challenge.once;
	}
}

/* The table, or why there is none. Who has gone meanwhile, all will notice later. */
static void answer(const p4d_rendezvous_server *hall, int fd, uint64_t once, const p4d_error *why,
		   double deadline)
{
	const p4d_rendezvous *m = hall->meeting;
	uint64_t key = p4d_rendezvous__join_key(hall->ranks);
	size_t bytes = hall->ranks->size * sizeof(*m->members);
	p4d_answer answer;

	memset(&answer, 0, sizeof(answer));
	answer.magic = P4D_ANSWER;
	answer.failed = why != NULL;
	answer.once = once;
	answer.secret = m->secret;
	answer.table = p4d_wire__mac(key, m->members, bytes);
	snprintf(answer.text, sizeof(answer.text), "%s", why ? why->text : "");
	answer.code = p4d_rendezvous__answer_code(key, &answer);
	if (p4d_wire__write_by(fd, &answer, sizeof(answer), deadline) == 0 && !why)
		p4d_wire__write_by(fd, m->members, bytes, deadline);
}

/* A complete message with the right code. -1: the ranks do not agree on who they are. */
static int admit(p4d_rendezvous_server *hall, p4d_pending_connection *v, p4d_error *err)
{
	const p4d_ranks *ranks = hall->ranks;
	p4d_member *self = &v->join.self;
	uint32_t rank = self->rank;

	self->name[sizeof(self->name) - 1] = self->local[sizeof(self->local) - 1] = '\0';
	if (v->join.size != ranks->size || rank >= ranks->size)
		return p4d_fail(err, P4D_E_RANK, "a process on %s joined as rank %u of %u, rank 0 expects %u",
				self->name, rank, v->join.size, ranks->size);
	if (rank == 0 || hall->meeting->control[rank] >= 0)
		return p4d_fail(err, P4D_E_RANK, "two processes joined as rank %u, on %s and %s", rank,
				hall->meeting->members[rank].name, self->name);
	hall->meeting->members[rank] = *self;
	hall->meeting->control[rank] = v->fd;
	hall->once[rank] = v->join.once;
	hall->present++;
	v->fd = -1;
	return 0;
}

static int listen_to(p4d_rendezvous_server *hall, p4d_pending_connection *v, p4d_error *err)
{
	ssize_t n = recv(v->fd, (char *)&v->join + v->got, sizeof(v->join) - v->got, MSG_DONTWAIT);
	p4d_wire_address from;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		dismiss(v);
		return 0;
	}
	v->got += (size_t)n;
	if (v->got < sizeof(v->join))
		return 0;
	if (v->join.magic == P4D_JOIN && v->join.challenge == v->challenge &&
	    v->join.code == p4d_rendezvous__join_code(p4d_rendezvous__join_key(hall->ranks), &v->join)) {
		if (admit(hall, v, err) == 0)
			return 0;
		answer(hall, v->fd, v->join.once, err, p4d_wire__now() + 1);
		return -1;
	}
	if (p4d_wire__address_remote(&from, v->fd))
		p4d_wire__address_text(&from, hall->refused);
	dismiss(v);
	return 0;
}

static int missing(p4d_rendezvous_server *hall, p4d_error *err)
{
	const p4d_ranks *ranks = hall->ranks;
	char list[160];
	bool *absent = calloc(ranks->size, sizeof(*absent));

	if (!absent)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a list of %u ranks", ranks->size);
	for (uint32_t r = 1; r < ranks->size; r++)
		absent[r] = hall->meeting->control[r] < 0;
	p4d_rendezvous__rank_list(list, sizeof(list), absent, ranks->size);
	free(absent);
	return p4d_fail(err, P4D_E_RANK, "%u of %u ranks did not join rank 0 (%s) in %g s: %s%s%s",
			ranks->size - 1 - hall->present, ranks->size, hall->meeting->members[0].name,
			ranks->join_seconds, list,
			hall->refused[0] ? "; a process with another key came from " : "", hall->refused);
}

/* A registered rank says nothing until it has the table; what can be read is its end. */
static int gone(p4d_rendezvous_server *hall, uint32_t rank, p4d_error *err)
{
	char byte;
	ssize_t n = recv(hall->meeting->control[rank], &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return p4d_fail(err, P4D_E_RANK, "rank %u (%s) ended while others were still joining", rank,
			hall->meeting->members[rank].name);
}

static int gather(p4d_rendezvous_server *hall, double deadline, p4d_error *err)
{
	p4d_rendezvous *m = hall->meeting;
	uint32_t size = hall->ranks->size;

	while (hall->present + 1 < size) {
		double now = p4d_wire__now();
		if (now >= deadline)
			return missing(hall, err);
		hall->polled[0] = (struct pollfd){.fd = m->listener, .events = POLLIN};
		for (int i = 0; i < STRANGERS; i++) {
			p4d_pending_connection *v = &hall->visitors[i];
			if (v->fd >= 0 && now - v->since > PATIENCE)
				dismiss(v);
			hall->polled[1 + i] = (struct pollfd){.fd = v->fd, .events = POLLIN};
		}
		struct pollfd *of_ranks = hall->polled + 1 + STRANGERS;
		for (uint32_t r = 0; r < size; r++)
			of_ranks[r] = (struct pollfd){.fd = m->control[r], .events = POLLIN};
		if (poll(hall->polled, 1 + STRANGERS + size, (int)fmin(ceil(1e3 * (deadline - now)), 1e3)) <=
		    0)
			continue;
		for (uint32_t r = 1; r < size; r++)
			if (of_ranks[r].revents && gone(hall, r, err) < 0)
				return -1;
		for (int i = 0; i < STRANGERS; i++)
			if (hall->polled[1 + i].revents && hall->visitors[i].fd >= 0 &&
			    listen_to(hall, &hall->visitors[i], err) < 0)
				return -1;
		if (hall->polled[0].revents)
			let_in(hall);
	}
	return 0;
}

static void answer_all(const p4d_rendezvous_server *hall, const p4d_error *why)
{
	p4d_rendezvous *m = hall->meeting;
	uint32_t size = hall->ranks->size;
	double deadline = p4d_wire__now() + 5;
	p4d_wire_address reachable;

	for (uint32_t r = 1; r < size; r++)
		if (m->control[r] >= 0 && p4d_wire__address_local(&reachable, m->control[r]) &&
		    !p4d_wire__address_is_loopback(&reachable)) {
			p4d_rendezvous__replace_loopback(m->members, size, &reachable);
			break;
		}
	for (uint32_t r = 1; r < size; r++)
		if (m->control[r] >= 0)
			answer(hall, m->control[r], hall->once[r], why, deadline);
}

int p4d_rendezvous__serve(p4d_rendezvous *meeting, const p4d_ranks *ranks, double deadline, p4d_error *err)
{
	p4d_rendezvous_server hall = {.meeting = meeting, .ranks = ranks};
	p4d_error why;
	int rc = 0;

	for (int i = 0; i < STRANGERS; i++)
		hall.visitors[i].fd = -1;
	hall.polled = calloc((size_t)1 + STRANGERS + ranks->size, sizeof(*hall.polled));
	hall.once = calloc(ranks->size, sizeof(*hall.once));
	if (!hall.polled || !hall.once)
		rc = p4d_fail(&why, P4D_E_NO_MEMORY, "no memory for %u ranks", ranks->size);
	else if (p4d_wire__random(&meeting->secret, sizeof(meeting->secret)) < 0)
		rc = p4d_fail(&why, P4D_E_IO, "no random numbers: %s", strerror(errno));
	/* the secret is sent in the open; with the key it makes the code of later connections */
	if (!rc && (rc = gather(&hall, deadline, &why)) < 0)
		answer_all(&hall, &why);
	else if (!rc)
		answer_all(&hall, NULL);
	for (int i = 0; i < STRANGERS; i++)
		if (hall.visitors[i].fd >= 0)
			close(hall.visitors[i].fd);
	free(hall.polled);
	free(hall.once);
	if (rc && err)
		*err = why;
	return rc;
}
