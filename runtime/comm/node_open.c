/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the shared memory of a node: its first rank creates it and passes the descriptor to the others. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/channel_shm.h"
#include "comm/events.h"
#include "comm/world.h"

enum { P4D_HELLO_NODE = 0x70346411 };
typedef union p4d_control_data {
	struct cmsghdr aligned;
	char space[CMSG_SPACE((P4D_NODE_RANKS + 1) * sizeof(int))];
} p4d_control_data;

static int send_with(int to, const p4d_hello *hello, const int *fds, uint32_t count)
{
	p4d_control_data control;
	struct iovec data = {.iov_base = (void *)hello, .iov_len = sizeof(*hello)};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};

	memset(&control, 0, sizeof(control));
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(*hello) ? 0 : -1;
}

/* Receives a hello and `count` descriptors. Returns 0; or -1 with none of them left open. */
static int receive_with(int from, p4d_hello *hello, int *fds, uint32_t count)
{
	p4d_control_data control;
	struct iovec data = {.iov_base = hello, .iov_len = sizeof(*hello)};
	struct msghdr message = {
	    .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	size_t got = 0;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		got = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	if (n == (ssize_t)sizeof(*hello) && got == count) {
		memcpy(fds, CMSG_DATA(header), count * sizeof(int));
		return 0;
	}
	for (size_t i = 0; i < got; i++) {
		int fd;
		memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
		close(fd);
	}
	return -1;
}

static p4d_hello node_hello(const p4d_world *w, uint32_t from, uint32_t to)
{
	p4d_hello hello = {.magic = P4D_HELLO_NODE, .from = from, .to = to};

	hello.mac = p4d_wire__mac(w->key, &hello, offsetof(p4d_hello, mac));
	return hello;
}

/* Waits for one descriptor while watching the other ranks. 1: ready, 0: timeout, -1: the world is broken. */
static int await(p4d_world *w, int fd, double deadline)
{
	for (;;) {
		struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = w->events, .events = POLLIN}};
		if (poll(polled, 2, 100) < 0 && errno != EINTR)
			return 0;
		p4d_events__take(w, 0);
		if (w->failed)
			return -1;
		if (polled[0].revents)
			return 1;
		if (p4d_clock_seconds() >= deadline)
			return 0;
	}
}

/* Connections of this user's processes that have not sent their hello yet. */
enum { PENDING = P4D_NODE_RANKS };
static const double PENDING_SECONDS = 2; /* seconds until a silent connection is dropped */

typedef struct p4d_node_pending {
	struct pollfd polled[2 + PENDING]; /* the local socket, the world's events, then the connections */
	double since[PENDING];
} p4d_node_pending;

static void accept_pending(p4d_node_pending *pending)
{
	int fd;

	while ((fd = p4d_wire__accept(pending->polled[0].fd)) >= 0) {
		int at = 0;
		if (!p4d_wire__same_user(fd)) {
			close(fd);
			continue;
		}
		for (int i = 1; i < PENDING && pending->polled[2 + at].fd >= 0; i++)
			if (pending->polled[2 + i].fd < 0 || pending->since[i] < pending->since[at])
				at = i;
		if (pending->polled[2 + at].fd >= 0)
			close(pending->polled[2 + at].fd);
		pending->polled[2 + at] = (struct pollfd){.fd = fd, .events = POLLIN};
		pending->since[at] = p4d_clock_seconds();
	}
}

/*
 * Returns the local rank that sent its hello and eventfd on this connection; -1: the sender is not a rank of
 * this job.
 */
static int take_hello(p4d_world *w, int fd, const int *links)
{
	p4d_hello hello;
	int wakeup;

	if (receive_with(fd, &hello, &wakeup, 1) < 0)
		return -1;
	p4d_hello wanted = node_hello(w, hello.from, w->rank);
	int local_rank = hello.from < w->size && !memcmp(&hello, &wanted, sizeof(hello))
			     ? w->peers[hello.from].local_rank
			     : -1;
	if (local_rank > 0 && links[local_rank] < 0) {
		w->node.eventfds[local_rank] = wakeup;
		return local_rank;
	}
	close(wakeup);
	return -1;
}

/*
 * Reads the hellos that have arrived, and drops connections that were silent for too long. Returns the number
 * of new ranks.
 */
static uint32_t read_pending(p4d_world *w, p4d_node_pending *pending, int *links)
{
	double now = p4d_clock_seconds();
	uint32_t found = 0;

	for (int i = 0; i < PENDING; i++) {
		struct pollfd *c = &pending->polled[2 + i];
		if (c->fd < 0 || (!c->revents && now - pending->since[i] < PENDING_SECONDS))
			continue;
		int local_rank = c->revents ? take_hello(w, c->fd, links) : -1;
		if (local_rank < 0) {
			close(c->fd);
		} else {
			links[local_rank] = c->fd;
			found++;
		}
		*c = (struct pollfd){.fd = -1};
	}
	return found;
}

/* Receives the eventfds of all local peers. */
static int collect_all(p4d_world *w, p4d_node_pending *pending, int *links, double deadline, p4d_error *err)
{
	const p4d_comm_node *node = &w->node;
	char text[96];

	for (uint32_t left = node->count - 1; left;) {
		if (poll(pending->polled, 2 + PENDING, 100) < 0 && errno != EINTR)
			return p4d_fail(err, P4D_E_IO, "poll: %s", strerror(errno));
		p4d_events__take(w, 0);
		if (w->failed)
			return p4d_events__error(w, err);
		left -= read_pending(w, pending, links);
		accept_pending(pending);
		if (left && p4d_clock_seconds() >= deadline) {
			uint32_t i = 1;
			while (links[i] >= 0)
				i++;
			return p4d_fail(err, P4D_E_RANK,
					"%s did not request its node's shared memory in time",
					p4d_world_peer_text(&w->peers[node->ranks[i]], text));
		}
	}
	return 0;
}

static int collect(p4d_world *w, const p4d_rendezvous *m, int *links, double deadline, p4d_error *err)
{
	p4d_node_pending pending;

	pending.polled[0] = (struct pollfd){.fd = m->local, .events = POLLIN};
	pending.polled[1] = (struct pollfd){.fd = w->events, .events = POLLIN};
	for (int i = 0; i < PENDING; i++)
		pending.polled[2 + i] = (struct pollfd){.fd = -1};
	int rc = collect_all(w, &pending, links, deadline, err);
	for (int i = 0; i < PENDING; i++)
		if (pending.polled[2 + i].fd >= 0)
			close(pending.polled[2 + i].fd);
	return rc;
}

static int distribute(p4d_world *w, const p4d_rendezvous *m, int *fds, double deadline, p4d_error *err)
{
	p4d_comm_node *node = &w->node;
	int *links = malloc(node->count * sizeof(*links));

	if (!links)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the %u ranks of a node", node->count);
	for (uint32_t i = 0; i < node->count; i++)
		links[i] = -1;
	int rc = collect(w, m, links, deadline, err);
	memcpy(fds + 1, node->eventfds, node->count * sizeof(int));
	for (uint32_t i = 1; !rc && i < node->count; i++) {
		p4d_hello hello = node_hello(w, w->rank, node->ranks[i]);
		/* if the send fails because the rank has ended, its control connection will show that */
		send_with(links[i], &hello, fds, node->count + 1);
	}
	for (uint32_t i = 1; i < node->count; i++)
		if (links[i] >= 0)
			close(links[i]);
	free(links);
	return rc;
}

static int request_memory(p4d_world *w, int *fds, double deadline, p4d_error *err)
{
	p4d_comm_node *node = &w->node;
	const p4d_peer *leader = &w->peers[node->ranks[0]];
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	size_t length = strnlen(leader->member.local, sizeof(leader->member.local));
	p4d_hello hello = node_hello(w, w->rank, leader->member.rank), reply;
	p4d_hello wanted = node_hello(w, leader->member.rank, w->rank);
	char text[96];
	int rc = -1, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(name.sun_path + 1, leader->member.local, length);
	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&name,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) < 0 ||
	    !p4d_wire__same_user(fd) || send_with(fd, &hello, &node->eventfds[node->index], 1) < 0) {
		p4d_fail(err, P4D_E_RANK,
			 "rank %u cannot connect to the local socket of %s, with the same node number: %s",
			 w->rank, p4d_world_peer_text(leader, text), strerror(errno));
	} else if ((rc = await(w, fd, deadline)) < 0) {
		p4d_events__error(w, err);
	} else if (!rc || receive_with(fd, &reply, fds, node->count + 1) < 0) {
		/* if the leader has ended, the notice of that may still be in flight */
		p4d_events__take(w, 200);
		rc = w->failed
			 ? p4d_events__error(w, err)
			 : p4d_fail(err, P4D_E_RANK,
				    "%s did not share the memory that the ranks of its node use together",
				    p4d_world_peer_text(leader, text));
	} else if (memcmp(&reply, &wanted, sizeof(reply))) {
		for (uint32_t i = 0; i <= node->count; i++)
			close(fds[i]);
		rc = p4d_fail(err, P4D_E_RANK, "another process answered in place of %s",
			      p4d_world_peer_text(leader, text));
	} else {
		rc = 0;
		for (uint32_t i = 0; i < node->count; i++) {
			if (i == node->index)
				close(fds[1 + i]);
			else
				node->eventfds[i] = fds[1 + i];
		}
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int list_local_ranks(p4d_world *w, p4d_error *err)
{
	p4d_comm_node *node = &w->node;
	uint32_t mine = w->peers[w->rank].member.node;

	for (uint32_t r = 0; r < w->size; r++)
		node->count += w->peers[r].member.node == mine;
	if (node->count > P4D_NODE_RANKS)
		return p4d_fail(err, P4D_E_VALUE, "%u ranks on node %u, at most %d can share memory",
				node->count, mine, P4D_NODE_RANKS);
	node->ranks = malloc(node->count * sizeof(*node->ranks));
	node->eventfds = malloc(node->count * sizeof(*node->eventfds));
	for (int i = 0; i < P4D_SLOTS; i++)
		node->uses[i].ranks = malloc(node->count * sizeof(uint32_t));
	for (int i = 0; i < P4D_SLOTS; i++)
		if (!node->uses[i].ranks || !node->ranks || !node->eventfds)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the %u ranks of a node",
					node->count);
	uint32_t index = 0;
	for (uint32_t r = 0; r < w->size; r++) {
		if (w->peers[r].member.node != mine)
			continue;
		w->peers[r].local_rank = (int)index;
		node->eventfds[index] = -1;
		if (r == w->rank)
			node->index = index;
		node->ranks[index++] = r;
	}
	return 0;
}

int p4d_node__open(p4d_world *w, const p4d_rendezvous *m, const p4d_ranks *ranks, double deadline,
		   p4d_error *err)
{
	p4d_comm_node *node = &w->node;
	int fds[P4D_NODE_RANKS + 1];
	struct stat made;
	char name[128];

	if (list_local_ranks(w, err) < 0)
		return -1;
	if (node->count == 1)
		return 0;
	p4d_shm__size(node, ranks->message_bytes);
	node->eventfds[node->index] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (node->eventfds[node->index] < 0)
		return p4d_fail(err, P4D_E_IO, "cannot create an eventfd: %s", strerror(errno));
	if (node->index > 0) {
		if (request_memory(w, fds, deadline, err) < 0)
			return -1;
	} else {
		/* the name is visible only in /proc/PID/maps */
		snprintf(name, sizeof(name), "p4d-%s-%u", ranks->session, w->peers[w->rank].member.node);
		fds[0] = memfd_create(name, MFD_CLOEXEC);
		if (fds[0] < 0 || ftruncate(fds[0], (off_t)node->bytes) < 0) {
			p4d_fail(err, P4D_E_NO_MEMORY, "cannot share %zu bytes of memory among %u ranks: %s",
				 node->bytes, node->count, strerror(errno));
			if (fds[0] >= 0)
				close(fds[0]);
			return -1;
		}
		if (distribute(w, m, fds, deadline, err) < 0) {
			close(fds[0]);
			return -1;
		}
	}
	if (fstat(fds[0], &made) < 0 || (size_t)made.st_size != node->bytes) {
		close(fds[0]);
		return p4d_fail(err, P4D_E_RANK,
				"rank %u has another message size than the first rank of its node", w->rank);
	}
	void *base = mmap(NULL, node->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	close(fds[0]);
	if (base == MAP_FAILED)
		return p4d_fail(err, P4D_E_NO_MEMORY, "cannot map %zu bytes of shared memory: %s",
				node->bytes, strerror(errno));
	node->base = base;
	if (p4d_events__add(w, node->eventfds[node->index], POLLIN, P4D_EVENT_WAKEUP, 0, 0) < 0)
		return p4d_fail(err, P4D_E_IO, "epoll: %s", strerror(errno));
	return 0;
}

void p4d_node__close(p4d_comm_node *node)
{
	if (node->base)
		munmap(node->base, node->bytes);
	for (uint32_t i = 0; node->eventfds && i < node->count; i++)
		if (node->eventfds[i] >= 0)
			close(node->eventfds[i]);
	for (int i = 0; i < P4D_SLOTS; i++)
		free(node->uses[i].ranks);
	free(node->eventfds);
	free(node->ranks);
	memset(node, 0, sizeof(*node));
}
