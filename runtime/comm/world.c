/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/world.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/channel.h"
#include "comm/channel_shm.h"
#include "comm/events.h"
#include "comm/sum.h"

/*
 * A rank's last messages may arrive this many seconds after the notice that it left, because they use other
 * connections.
 */
static const double LEFT_SECONDS = 0.5;
static const double LOOK_SECONDS = 0.002;
/*
 * Fractions of the time in p4d_world_expect. After the first, a rank reports that it is alive. After the
 * second, ranks that have not reported are named.
 */
static const double SAY_LIVES = 0.75, NAME_HUNG = 0.9;

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int left_too_early(p4d_world *w, const p4d_peer *peer, p4d_error *err)
{
	char text[96];

	if (!peer || !peer->left || p4d_clock_seconds() - peer->left_at < LEFT_SECONDS)
		return 0;
	return p4d_events__break(w, err, "%s left while rank %u was waiting for it",
				 p4d_world_peer_text(peer, text), w->rank);
}

void p4d_world_expect(p4d_world *w, const char *what, double seconds)
{
	w->expected_at = p4d_clock_seconds();
	w->patience = seconds;
	w->lives = false;
	for (uint32_t r = 0; r < w->size; r++)
		w->peers[r].lives = false;
	snprintf(w->expected, sizeof(w->expected), "%s", what);
}

/* Milliseconds that a wait may sleep. */
static int longest_sleep(const p4d_world *w, const p4d_peer *peer)
{
	const double waited = p4d_clock_seconds() - w->expected_at;
	const double next = (w->lives ? NAME_HUNG : SAY_LIVES) * w->patience - waited;

	if (peer && peer->left)
		return 50;
	return w->patience > 0 && next < 1 ? (next > 0 ? (int)(1000 * next) + 1 : 10) : 1000;
}

/*
 * Breaks the world if time runs out for the expected step and some ranks have not reported that they are
 * alive.
 */
static void name_hung(p4d_world *w)
{
	const double waited = p4d_clock_seconds() - w->expected_at;
	const p4d_peer *first = NULL;
	char text[96], others[40] = "";
	uint32_t hung = 0;

	if (!(w->patience > 0) || waited < SAY_LIVES * w->patience)
		return;
	if (!w->lives)
		p4d_events__live(w);
	w->lives = true;
	for (uint32_t r = 0; r < w->size && waited >= NAME_HUNG * w->patience; r++) {
		const p4d_peer *peer = &w->peers[r];
		if (r == w->rank || peer->lives || peer->left)
			continue;
		first = first ? first : peer;
		hung++;
	}
	if (hung > 1)
		snprintf(others, sizeof(others), ", and so do %u others", hung - 1);
	if (hung)
		p4d_events__break(w, NULL,
				  "%s hangs in %s: process %lld has been stopped, or has waited for a driver "
				  "or a file system, for %.0f s%s",
				  p4d_world_peer_text(first, text), w->expected, (long long)first->member.pid,
				  waited, others);
}

int p4d_world__wait(p4d_world *w, bool (*ready)(void *context), void *context, const p4d_peer *peer,
		    p4d_error *err)
{
	_Atomic uint32_t *sleeps = w->node.base ? &p4d_shm__eventfd(&w->node, w->node.index)->sleeps : NULL;
	/*
	 * A wait for a rank of this node spins first. Other waits do not, because polling a socket costs more
	 * than switching to another process.
	 */
	bool near = peer && peer->local_rank >= 0;
	unsigned turn = near ? 0 : w->spins;

	for (;; turn++) {
		if (ready(context))
			return 0;
		if (w->failed)
			return p4d_events__error(w, err);
		if (w->active)
			p4d_channel_push_all(w);
		if (turn < w->spins) {
			pause_briefly();
			continue;
		}
		if (turn < w->spins + w->yields) {
			sched_yield();
			continue;
		}
		if (sleeps) {
			atomic_store_explicit(sleeps, 1, memory_order_relaxed);
			/* pairs with the fence in p4d_shm__wake */
			atomic_thread_fence(memory_order_seq_cst);
		}
		bool done = ready(context);
		if (!done && w->active)
			p4d_channel_push_all(w);
		if (!done && !w->failed) {
			p4d_events__take(w, longest_sleep(w, peer));
			name_hung(w);
		}
		if (sleeps)
			atomic_store_explicit(sleeps, 0, memory_order_relaxed);
		if (done)
			return 0;
		if (!w->failed && !ready(context) && left_too_early(w, peer, err) < 0)
			return -1;
	}
}

int p4d_world_check(p4d_world *w, p4d_error *err)
{
	if (!w->failed && p4d_clock_seconds() - w->looked_at > LOOK_SECONDS) {
		p4d_events__take(w, 0);
		name_hung(w);
	}
	return w->failed ? p4d_events__error(w, err) : 0;
}

bool p4d_world_failed(p4d_world *w, p4d_error *err)
{
	return p4d_world_check(w, err) < 0;
}

void p4d_world_abort(p4d_world *w, const char *why)
{
	char text[96];

	p4d_events__break(w, NULL, "%s: %s", p4d_world_peer_text(&w->peers[w->rank], text), why);
}

/* Every rank has a control connection to every other one, and opens data connections as needed. */
static void raise_file_limit(uint32_t size)
{
	struct rlimit limit;
	rlim_t wanted = 64 + 2ul * size + 3ul * P4D_NODE_RANKS;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int check(const p4d_ranks *ranks, p4d_error *err)
{
	if (!ranks->size || ranks->rank >= ranks->size || ranks->size > 1u << 20)
		return p4d_fail(err, P4D_E_VALUE, "rank %u of %u ranks", ranks->rank, ranks->size);
	if (!(ranks->join_seconds > 0) || !(ranks->idle_seconds >= 3) || ranks->join_seconds > 1e6 ||
	    ranks->idle_seconds > 1e5)
		return p4d_fail(err, P4D_E_VALUE, "join timeout %g s, idle timeout %g s: out of range",
				ranks->join_seconds, ranks->idle_seconds);
	if (ranks->size > 1 && (!ranks->port || !ranks->ports || !ranks->host[0]))
		return p4d_fail(err, P4D_E_VALUE, "the host or port of rank 0 is missing");
	return 0;
}

static p4d_world *create(const p4d_ranks *ranks)
{
	p4d_world *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->rank = ranks->rank;
	w->size = ranks->size;
	w->idle_seconds = ranks->idle_seconds;
	w->listener = w->events = -1;
	for (int i = 0; i < P4D_HANDSHAKES; i++)
		w->handshakes[i].fd = -1;
	w->peers = calloc(ranks->size, sizeof(*w->peers));
	w->scratch = malloc(P4D_SCRATCH_BYTES);
	w->sum = malloc(P4D_SUM_BYTES(P4D_SCRATCH_BYTES));
	w->events = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t r = 0; w->peers && r < ranks->size; r++) {
		p4d_peer *peer = &w->peers[r];
		peer->control = -1;
		peer->local_rank = -1;
		peer->member.rank = r;
		for (uint8_t c = 0; c < P4D_ALL_CHANNELS; c++) {
			peer->in[c].fd = peer->out[c].fd = -1;
			peer->out[c].rank = r;
			peer->out[c].channel = c;
		}
	}
	if (w->peers && w->scratch && w->sum && w->events >= 0)
		return w;
	p4d_world_close(w);
	return NULL;
}

/* Connects to ranks 1 to rank-1; higher ranks connect to this one. */
static int connect_all(p4d_world *w, double deadline, p4d_error *err)
{
	char text[96];
	p4d_hello hello;
	uint32_t r;

	for (r = 1; r < w->rank; r++) {
		const p4d_peer *peer = &w->peers[r];
		int fd = p4d_wire__dial(&peer->member.address);
		hello = p4d_events__hello(w, w->rank, r, P4D_ALL_CHANNELS);
		if (fd < 0 || p4d_wire__write_by(fd, &hello, sizeof(hello), deadline) < 0) {
			int reason = errno;
			if (fd >= 0)
				close(fd);
			p4d_events__take(w, 200); /* if rank 0 knows the cause, its notice is read here */
			return p4d_events__break(w, err, "rank %u cannot connect to %s: %s", w->rank,
						 p4d_world_peer_text(peer, text), strerror(reason));
		}
		if (p4d_events__control(w, r, fd, err) < 0)
			return -1;
	}
	while (w->connected + 1 < w->size) {
		p4d_events__take(w, 100);
		if (w->failed)
			return p4d_events__error(w, err);
		if (p4d_clock_seconds() < deadline)
			continue;
		for (r = 0; r == w->rank || w->peers[r].control >= 0;)
			r++;
		return p4d_events__break(w, err, "%s did not connect to rank %u in time",
					 p4d_world_peer_text(&w->peers[r], text), w->rank);
	}
	return 0;
}

/*
 * Chooses how long a waiting rank spins. If every rank has a core, the answer arrives while it spins.
 * Otherwise it should give up its core soon, because most yields only let another waiting rank run.
 */
static void set_spinning(p4d_world *w)
{
	cpu_set_t cpus;
	bool enough =
	    sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && (uint32_t)CPU_COUNT(&cpus) >= w->node.count;

	w->spins = enough ? 300 : 50;
	w->yields = enough ? 200 : 20;
}

static int join(p4d_world *w, p4d_ranks *ranks, p4d_error *err)
{
	double deadline = p4d_clock_seconds() + ranks->join_seconds;
	p4d_rendezvous m;

	raise_file_limit(ranks->size);
	if (p4d_rendezvous__open(&m, ranks, deadline, err) < 0)
		return -1;
	deadline += 5; /* a rendezvous that ended just before the deadline must leave time to connect */
	w->key = p4d_wire__derive(p4d_rendezvous__join_key(ranks), &m.secret, sizeof(m.secret));
	w->listener = m.listener;
	m.listener = -1;
	int rc = p4d_events__add(w, w->listener, EPOLLIN, P4D_EVENT_LISTENER, 0, 0);
	if (rc < 0)
		p4d_fail(err, P4D_E_IO, "epoll: %s", strerror(errno));
	for (uint32_t r = 0; r < w->size; r++) {
		w->peers[r].member = m.members[r];
		if (rc == 0 && m.control[r] >= 0) {
			rc = p4d_events__control(w, r, m.control[r], err);
			m.control[r] = -1;
		}
	}
	if (!rc)
		rc = connect_all(w, deadline, err);
	if (!rc)
		rc = p4d_node__open(w, &m, ranks, deadline, err);
	set_spinning(w);
	p4d_rendezvous__close(&m, w->size);
	return rc;
}

int p4d_world_open(p4d_world **world, const p4d_ranks *ranks, p4d_error *err)
{
	p4d_ranks keyed = *ranks;
	p4d_error why;

	if (check(ranks, err) < 0)
		return -1;
	p4d_world *w = create(ranks);
	if (!w)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u ranks", ranks->size);
	if (w->size == 1)
		snprintf(w->peers[0].member.name, sizeof(w->peers[0].member.name), "%s", ranks->node_name);
	else if (join(w, &keyed, &why) < 0) {
		/* the other ranks may be waiting for this one to connect */
		if (!w->failed)
			p4d_world_abort(w, why.text);
		p4d_world_close(w);
		if (err)
			*err = why;
		return -1;
	}
	*world = w;
	return 0;
}

void p4d_world_close(p4d_world *w)
{
	if (!w)
		return;
	if (w->peers && w->events >= 0)
		p4d_events__leave(w);
	for (uint32_t r = 0; w->peers && r < w->size; r++) {
		p4d_peer *peer = &w->peers[r];
		if (peer->control >= 0)
			close(peer->control);
		for (int c = 0; c < P4D_ALL_CHANNELS; c++) {
			if (peer->in[c].fd >= 0)
				close(peer->in[c].fd);
			if (peer->out[c].fd >= 0)
				close(peer->out[c].fd);
		}
	}
	for (int i = 0; i < P4D_HANDSHAKES; i++)
		if (w->handshakes[i].fd >= 0)
			close(w->handshakes[i].fd);
	p4d_node__close(&w->node);
	if (w->listener >= 0)
		close(w->listener);
	if (w->events >= 0)
		close(w->events);
	free(w->peers);
	free(w->opened);
	free(w->scratch);
	free(w->sum);
	free(w);
}

uint32_t p4d_world_rank(const p4d_world *w)
{
	return w->rank;
}

const char *p4d_world_host(const p4d_world *w, uint32_t rank)
{
	return w->peers[rank].member.name;
}

uint32_t p4d_world_size(const p4d_world *w)
{
	return w->size;
}
