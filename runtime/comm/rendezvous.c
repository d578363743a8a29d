/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/rendezvous.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "comm/local_key.h"

enum { ADDRESSES = 8 };

p4d_comm_key p4d_rendezvous__join_key(const p4d_ranks *ranks)
{
	return p4d_wire__derive(ranks->key, ranks->session, strnlen(ranks->session, sizeof(ranks->session)));
}

uint64_t p4d_rendezvous__join_mac(p4d_comm_key key, const p4d_join *join)
{
	return p4d_wire__mac(key, join, offsetof(p4d_join, mac));
}

uint64_t p4d_rendezvous__answer_mac(p4d_comm_key key, const p4d_answer *answer)
{
	return p4d_wire__mac(key, answer, offsetof(p4d_answer, mac));
}

bool p4d_rendezvous__is_loopback(const char *host)
{
	p4d_wire_address address;
	char text[P4D_ADDRESS_TEXT];
	size_t length = strlen(host);

	if (!strcmp(host, "localhost"))
		return true;
	/*
	 * A name may not count as loopback: if /etc/hosts maps it to 127.0.1.1 here, it resolves to another
	 * address on other hosts.
	 */
	if (strspn(host, "0123456789.") != length && !strchr(host, ':'))
		return false;
	return p4d_wire__address_resolve(&address, 1, host) == 1 && p4d_wire__address_text(&address, text) &&
	       p4d_wire__address_is_loopback(&address);
}

/*
 * Fills the addresses of rank 0 and returns their number; 0: neither host nor other_host resolves. On rank
 * 0's own host, /etc/hosts often maps its name to loopback. Then this fills the host's address towards
 * other_host or, if there is none, loopback.
 */
static int addresses_of(p4d_wire_address *addresses, int most, const p4d_ranks *ranks)
{
	int count = p4d_wire__address_resolve(addresses, most, ranks->host), kept = 0;

	if (!count && ranks->other_host[0])
		count = p4d_wire__address_resolve(addresses, most, ranks->other_host);
	if (p4d_rendezvous__is_loopback(ranks->host) ||
	    (ranks->other_host[0] && p4d_rendezvous__is_loopback(ranks->other_host)))
		return count;
	for (int i = 0; i < count; i++)
		if (!p4d_wire__address_is_loopback(&addresses[i]))
			addresses[kept++] = addresses[i];
	if (kept || !count)
		return kept;
	return ranks->other_host[0] && p4d_wire__address_toward(addresses, ranks->other_host) ? 1 : count;
}

void p4d_rendezvous__rank_list(char *text, size_t size, const bool *absent, uint32_t count)
{
	p4d_text list = p4d_text_in(text, size);

	for (uint32_t r = 0; r < count; r++) {
		uint32_t last = r;
		if (!absent[r])
			continue;
		while (last + 1 < count && absent[last + 1])
			last++;
		if (list.length + 32 > size) {
			p4d_text_add(&list, "...");
			return;
		}
		p4d_text_entry(&list, ", ", "%u", r);
		if (last > r)
			p4d_text_print(&list, last > r + 1 ? "-%u" : ", %u", last);
		r = last;
	}
}

/* The kernel picks an unused abstract name, which disappears when the process ends. */
static int open_local(p4d_member *self)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t length = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&name, sizeof(name.sun_family)) == 0 && listen(fd, 256) == 0 &&
	    getsockname(fd, (struct sockaddr *)&name, &length) == 0) {
		size_t bytes = length - offsetof(struct sockaddr_un, sun_path) - 1;
		if (bytes < sizeof(self->local)) {
			memcpy(self->local, name.sun_path + 1, bytes);
			return fd;
		}
	}
	close(fd);
	return -1;
}

static int listen_on_ports(const p4d_wire_address *address, const p4d_ranks *ranks)
{
	p4d_wire_address at = *address;
	int fd = -1;

	for (unsigned i = 0; i < ranks->ports && fd < 0 && ranks->port + i <= UINT16_MAX; i++) {
		at.port = (uint16_t)(ranks->port + i);
		fd = p4d_wire__listen(&at);
		if (fd < 0 && errno != EADDRINUSE && errno != EACCES)
			break;
	}
	return fd;
}

/* Opens rank 0's listening socket. */
static int open_host(p4d_rendezvous *m, const p4d_ranks *ranks, p4d_error *err)
{
	p4d_wire_address at[ADDRESSES];
	int count = addresses_of(at, ADDRESSES, ranks), reason = 0;

	if (!count)
		return p4d_fail(err, P4D_E_RANK, "rank 0 cannot resolve its own name \"%s\"", ranks->host);
	for (int i = 0; i < count && m->listener < 0; i++) {
		m->listener = listen_on_ports(&at[i], ranks);
		reason = errno;
	}
	/* behind NAT, the address that others connect to is not an address of this host */
	if (m->listener < 0 && reason == EADDRNOTAVAIL && ranks->other_host[0] &&
	    p4d_wire__address_toward(&at[0], ranks->other_host))
		m->listener = listen_on_ports(&at[0], ranks);
	if (m->listener < 0)
		return p4d_fail(err, P4D_E_RANK, "rank 0 cannot listen on %s, ports %u to %u: %s",
				ranks->host, ranks->port, ranks->port + ranks->ports - 1, strerror(reason));
	p4d_wire__address_local(&m->members[0].address, m->listener);
	return 0;
}

/* The most informative failure of all attempts. Most attempts only show that a port is closed. */
typedef enum p4d_cause { NO_ANSWER, NOT_P4D, WRONG_KEY } p4d_cause;
typedef struct p4d_attempt {
	char where[P4D_ADDRESS_TEXT];
	const char *what;
	p4d_cause cause;
} p4d_attempt;

static void note(p4d_attempt *attempt, const p4d_wire_address *where, p4d_cause cause, const char *what)
{
	if (cause < attempt->cause)
		return;
	p4d_wire__address_text(where, attempt->where);
	attempt->what = what;
	attempt->cause = cause;
}

/*
 * Connects to one address, opens this rank's listener and sends *join. Returns the connection; -1 with the
 * reason in *last.
 */
static int send_join(p4d_rendezvous *m, p4d_join *join, const p4d_ranks *ranks, const p4d_wire_address *to,
		     double deadline, p4d_attempt *last)
{
	double soon = fmin(deadline, p4d_clock_seconds() + 2);
	p4d_challenge challenge;
	p4d_wire_address here;
	int reason = 0, fd = p4d_wire__dial(to);
	socklen_t length = sizeof(reason);

	if (fd < 0) {
		note(last, to, NO_ANSWER, strerror(errno));
		return -1;
	}
	if (!p4d_wire__poll_by(fd, POLLOUT, soon)) {
		note(last, to, NO_ANSWER, "no answer");
	} else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &length) == 0 && reason) {
		note(last, to, NO_ANSWER, strerror(reason));
	} else if (p4d_wire__read_by(fd, &challenge, sizeof(challenge), soon) < 0 ||
		   challenge.magic != P4D_CHALLENGE || !p4d_wire__address_local(&here, fd)) {
		note(last, to, NOT_P4D, "another program answered");
	} else {
		p4d_wire_address listening;
		here.port = 0;
		if (m->listener < 0)
			m->listener = p4d_wire__listen(&here);
		if (m->listener >= 0 && p4d_wire__address_local(&listening, m->listener)) {
			join->self.address = listening;
			join->challenge = challenge.nonce;
			join->mac = p4d_rendezvous__join_mac(p4d_rendezvous__join_key(ranks), join);
			if (p4d_wire__write_by(fd, join, sizeof(*join), soon) == 0)
				return fd;
		}
		note(last, to, NO_ANSWER, strerror(errno));
	}
	close(fd);
	return -1;
}

/*
 * Waits for the table on a connection that send_join opened. Returns 1: received, 0: the other process is not
 * this job's rank 0, -1: joining failed.
 */
static int take_table(p4d_rendezvous *m, int fd, const p4d_wire_address *to, const p4d_join *join,
		      const p4d_ranks *ranks, double deadline, p4d_attempt *last, p4d_error *err)
{
	size_t bytes = ranks->size * sizeof(*m->members);
	p4d_comm_key key = p4d_rendezvous__join_key(ranks);
	p4d_answer answer;

	if (p4d_wire__read_by(fd, &answer, sizeof(answer), deadline) < 0) {
		note(last, to, WRONG_KEY,
		     errno == ETIMEDOUT ? "no answer to the join"
					: "rank 0 refused the key of this job, or ended");
		return 0;
	}
	if (answer.magic != P4D_ANSWER || answer.nonce != join->nonce ||
	    answer.mac != p4d_rendezvous__answer_mac(key, &answer)) {
		note(last, to, WRONG_KEY, "it has another key");
		return 0;
	}
	answer.text[sizeof(answer.text) - 1] = '\0';
	if (answer.failed)
		return p4d_fail(err, P4D_E_RANK, "%s", answer.text);
	if (p4d_wire__read_by(fd, m->members, bytes, deadline) < 0 ||
	    p4d_wire__mac(key, m->members, bytes) != answer.table)
		return p4d_fail(err, P4D_E_RANK, "lost rank 0 at %s while it sent the table of ranks",
				ranks->host);
	m->secret = answer.secret;
	/*
	 * use the address that this rank reached, because the one in the table may be unreachable from here
	 */
	p4d_wire__address_remote(&m->members[0].address, fd);
	return 1;
}

static int join_host(p4d_rendezvous *m, const p4d_ranks *ranks, double deadline, p4d_error *err)
{
	p4d_join join = {.magic = P4D_JOIN, .size = ranks->size};
	p4d_attempt last = {.what = "cannot resolve its host name"};
	p4d_wire_address at[ADDRESSES];
	double pause = 0.001;

	snprintf(last.where, sizeof(last.where), "%.40s:%u", ranks->host, ranks->port);
	join.self = m->members[ranks->rank];
	if (p4d_wire__random(&join.nonce, sizeof(join.nonce)) < 0)
		return p4d_fail(err, P4D_E_IO, "the system provides no random numbers: %s", strerror(errno));
	do {
		int count = addresses_of(at, ADDRESSES, ranks);
		for (int i = 0; i < count * ranks->ports; i++) {
			p4d_wire_address *to = &at[i % count];
			to->port = (uint16_t)(ranks->port + i / count);
			int fd = send_join(m, &join, ranks, to, deadline, &last);
			if (fd < 0)
				continue;
			/*
			 * Rank 0 reports the missing ranks at its deadline. Wait two seconds longer, to
			 * receive that report.
			 */
			int n = take_table(m, fd, to, &join, ranks, deadline + 2, &last, err);
			if (n > 0) {
				m->control[0] = fd;
				return 0;
			}
			close(fd);
			if (n < 0)
				return -1;
		}
		poll(NULL, 0, (int)(1e3 * pause));
		pause = fmin(2 * pause, 0.1);
	} while (p4d_clock_seconds() < deadline);
	return p4d_fail(err, P4D_E_RANK, "rank %u (%s) could not join within %g s: rank 0 at %s: %s",
			ranks->rank, m->members[ranks->rank].name, ranks->join_seconds, last.where,
			last.what);
}

int p4d_rendezvous__open(p4d_rendezvous *m, p4d_ranks *ranks, double deadline, p4d_error *err)
{
	memset(m, 0, sizeof(*m));
	m->listener = m->local = m->keys = -1;
	m->members = calloc(ranks->size, sizeof(*m->members));
	m->control = malloc(ranks->size * sizeof(*m->control));
	if (!m->members || !m->control) {
		p4d_rendezvous__close(m, 0);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a table of %u ranks", ranks->size);
	}
	for (uint32_t r = 0; r < ranks->size; r++)
		m->control[r] = -1;

	p4d_member *self = &m->members[ranks->rank];
	self->rank = ranks->rank;
	self->node = ranks->node;
	self->pid = getpid();
	snprintf(self->name, sizeof(self->name), "%s", ranks->node_name);
	if (!self->name[0])
		gethostname(self->name, sizeof(self->name) - 1);
	m->local = open_local(self);
	int rc =
	    m->local < 0 ? p4d_fail(err, P4D_E_IO, "cannot open a local socket: %s", strerror(errno)) : 0;
	if (!rc && ranks->key_socket[0])
		rc = ranks->rank ? p4d_local_key__fetch(ranks, deadline, err)
				 : p4d_local_key__offer(ranks, &m->keys, err);
	if (!rc)
		rc = ranks->rank ? join_host(m, ranks, deadline, err) : open_host(m, ranks, err);
	if (!rc && !ranks->rank)
		rc = p4d_rendezvous__serve(m, ranks, deadline, err);
	if (rc)
		p4d_rendezvous__close(m, ranks->size);
	return rc;
}

void p4d_rendezvous__close(p4d_rendezvous *m, uint32_t size)
{
	for (uint32_t r = 0; m->control && r < size; r++)
		if (m->control[r] >= 0)
			close(m->control[r]);
	if (m->listener >= 0)
		close(m->listener);
	if (m->local >= 0)
		close(m->local);
	if (m->keys >= 0)
		close(m->keys);
	free(m->members);
	free(m->control);
	memset(m, 0, sizeof(*m));
	m->listener = m->local = m->keys = -1;
}
