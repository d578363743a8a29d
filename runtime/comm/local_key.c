/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/local_key.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/wire.h"

/* Number of abstract socket names to try. Any user may already hold one of them. */
enum { NAMES = 8 };

static socklen_t name_of(struct sockaddr_un *name, const p4d_ranks *ranks, int number)
{
	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	int length =
	    snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "%s.%d", ranks->key_socket, number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int local_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int p4d_local_key__offer(p4d_ranks *ranks, int *listener, p4d_error *err)
{
	struct sockaddr_un name;
	int fd = local_socket(), reason = errno;

	if (p4d_wire__random(&ranks->key, sizeof(ranks->key)) < 0)
		p4d_fail(err, P4D_E_IO, "the system provides no random numbers: %s", strerror(errno));
	else if (fd < 0)
		p4d_fail(err, P4D_E_IO, "cannot open a local socket: %s", strerror(reason));
	else {
		for (int i = 0; i < NAMES; i++) {
			socklen_t length = name_of(&name, ranks, i);
			if (bind(fd, (struct sockaddr *)&name, length) == 0 && listen(fd, 256) == 0) {
				*listener = fd;
				return 0;
			}
			reason = errno;
		}
		p4d_fail(err, P4D_E_RANK, "rank 0 cannot take the local name %s.0 or one of %d more: %s",
			 ranks->key_socket, NAMES - 1, strerror(reason));
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

void p4d_local_key__hand_out(int listener, const p4d_ranks *ranks)
{
	int fd;

	while ((fd = p4d_wire__accept(listener)) >= 0) {
		/*
		 * The key always fits in an empty socket. If the process has ended, the rendezvous reports
		 * its rank as missing.
		 */
		if (p4d_wire__same_user(fd))
			(void)!send(fd, &ranks->key, sizeof(ranks->key), MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
	}
}

/* Asks for the key at one of the names. Returns 1: got it, 0: no process answers (yet). */
static int ask(p4d_ranks *ranks, int number, double deadline)
{
	struct sockaddr_un name;
	socklen_t length = name_of(&name, ranks, number);
	p4d_comm_key key;
	int fd = local_socket(), got = 0;

	if (fd < 0)
		return 0;
	/* if rank 0's queue of connections is full, connect fails, and the caller tries again later */
	if (connect(fd, (struct sockaddr *)&name, length) == 0 && p4d_wire__same_user(fd) &&
	    p4d_wire__read_by(fd, &key, sizeof(key), fmin(deadline, p4d_clock_seconds() + 2)) == 0) {
		ranks->key = key;
		got = 1;
	}
	close(fd);
	return got;
}

int p4d_local_key__fetch(p4d_ranks *ranks, double deadline, p4d_error *err)
{
	double pause = 0.001;

	do {
		for (int i = 0; i < NAMES; i++)
			if (ask(ranks, i, deadline))
				return 0;
		poll(NULL, 0, (int)(1e3 * pause));
		pause = fmin(2 * pause, 0.1);
	} while (p4d_clock_seconds() < deadline);
	return p4d_fail(err, P4D_E_RANK,
			"rank %u received no key within %g s: rank 0 does not answer at %s.0 to %d",
			ranks->rank, ranks->join_seconds, ranks->key_socket, NAMES - 1);
}
