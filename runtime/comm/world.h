/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Internal to comm/; comm.h is the interface. */
#include <stdio.h>

#include "comm/comm.h"
#include "comm/node.h"
#include "comm/rendezvous.h"
#include "comm/wire.h"

enum { P4D_CHANNEL_COLLECTIVE = P4D_CHANNELS, P4D_ALL_CHANNELS };
enum { P4D_SCRATCH_BYTES = 64 << 10 }; /* bytes of a chunk when a sum is computed between nodes */

/* Precedes the data of every message. */
typedef struct p4d_message_head {
	uint64_t bytes;
	uint32_t tag; /* tag of the call to which the message belongs */
	uint32_t magic;
} p4d_message_head;

/*
 * First message on a data or control connection. mac covers the members before it, and is made with the
 * world's key.
 */
typedef struct p4d_hello {
	uint32_t magic, from, to;
	uint32_t channel; /* P4D_ALL_CHANNELS: a control connection */
	uint64_t mac;
} p4d_hello;

/* Everything that is sent on control connections. */
typedef enum p4d_notice_kind { P4D_NOTICE_LEAVES, P4D_NOTICE_FAILED, P4D_NOTICE_LIVES } p4d_notice_kind;
typedef struct p4d_notice {
	uint32_t magic;
	uint32_t kind;
	char text[sizeof(((p4d_error *)0)->text)];
} p4d_notice;

typedef struct p4d_sending {
	p4d_message_head head;
	const uint8_t *data;
	uint64_t sent; /* number of bytes sent so far, of the head and then of the data */
} p4d_sending;

/* One direction of one channel to one peer. Tickets count messages; messages below `done` were sent. */
typedef struct p4d_out {
	p4d_sending queue[P4D_SENDS];
	uint64_t done, next;
	int fd; /* socket to a peer on another node; -1: not connected */
	p4d_hello hello;
	size_t hello_sent;
	uint32_t rank;
	uint8_t channel;
	bool active;
	struct p4d_out *next_active;
} p4d_out;

typedef struct p4d_in {
	int fd;
	p4d_message_head head;
	uint64_t left; /* bytes of the current message that are still to come */
} p4d_in;

typedef struct p4d_peer {
	p4d_member member;
	int local_rank; /* index of the peer on this node; -1: it is on another node */
	int control;    /* control connection; -1: closed, or the peer is this rank */
	bool left;      /* the peer left cleanly */
	double left_at;
	bool lives;        /* the peer has reported that it is alive, since the last p4d_world_expect */
	p4d_notice notice; /* notice that is being received */
	size_t notice_got;
	p4d_out out[P4D_ALL_CHANNELS];
	p4d_in in[P4D_ALL_CHANNELS];
} p4d_peer;

/* An accepted connection whose hello is incomplete. */
enum { P4D_HANDSHAKES = 32 };
typedef struct p4d_handshake {
	int fd; /* -1: free */
	double since;
	p4d_hello hello;
	size_t got;
} p4d_handshake;

struct p4d_world {
	uint32_t rank, size;
	p4d_peer *peers; /* by rank, including this one */
	uint32_t connected;
	p4d_comm_key key; /* key of the MACs in hellos */
	double idle_seconds;
	int listener, events;
	p4d_handshake handshakes[P4D_HANDSHAKES];
	p4d_out *active; /* list of channels with unsent messages */
	p4d_comm_node node;
	unsigned spins, yields; /* how often a waiting rank spins, and then yields, before it sleeps */
	double looked_at;       /* when events were last taken */
	/*
	 * set by p4d_world_expect. patience: seconds; 0: no limit. lives: this rank has already reported to
	 * all others that it is alive.
	 */
	double expected_at, patience;
	bool lives;
	char expected[40];
	bool failed;
	p4d_error why;
	uint64_t *opened; /* signatures of the groups opened so far */
	size_t opened_count;
	uint8_t *scratch; /* room for a chunk as it was received */
	void *sum;        /* room for the chunk's sum in fp32 or fp64 */
};

/*
 * Waits until ready(context) is true. peer: the rank on which that depends; NULL: several ranks. Spins, then
 * yields, then sleeps. During the wait it makes progress on all sends. Fails with RANK if the world breaks or
 * the peer has left.
 */
int p4d_world__wait(p4d_world *w, bool (*ready)(void *context), void *context, const p4d_peer *peer,
		    p4d_error *err);
/*
 * Fails if the world is broken. Reads the sockets if that was not done for 2 ms. Every public function calls
 * it first.
 */
int p4d_world_check(p4d_world *w, p4d_error *err);
/* "rank 3 (node h2)" */
static inline const char *p4d_world_peer_text(const p4d_peer *peer, char text[96])
{
	snprintf(text, 96, "rank %u (%.60s)", peer->member.rank, peer->member.name);
	return text;
}
