/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * The memory that the ranks of a node share: one anonymous file (memfd), which the first of them creates and
 * passes to the others over a local socket. It has no name in any file system. So nothing remains when the
 * ranks end, no other job can open it, and the size of /dev/shm does not matter. Pages are allocated at their
 * first use.
 *
 * A rank that sleeps sets its flag. Another rank that changes something for which the sleeping rank may wait
 * sees this flag, and writes to the sleeping rank's eventfd.
 */
enum {
	P4D_NODE_RANKS = 250, /* limit of file descriptors in one message of a local socket */
	P4D_NODE_GROUPS = 4096,
	P4D_RING_BYTES = 256 << 10, /* minimum bytes of one channel in one direction */
	P4D_SLOT_BYTES =
	    128 << 10, /* bytes of a chunk of a collective; every rank has P4D_SLOTS slots of this size */
	P4D_SLOTS = 2,
	P4D_NODE_CHANNELS = 5
};

/*
 * A byte stream with one writer and one reader. The counters of bytes never wrap. A write to an empty ring
 * starts again at data[0]. So the ring uses only as much memory as was ever in flight at one time.
 */
typedef struct p4d_shm_ring {
	_Alignas(64) _Atomic uint64_t head; /* bytes written */
	_Atomic uint64_t origin;            /* stream position of data[0], set at each restart */
	_Alignas(64) _Atomic uint64_t tail; /* bytes read */
	_Alignas(64) uint8_t data[];
} p4d_shm_ring;

/* Progress of one member of a group, and the contents of its slots; see collectives_node.c. */
typedef struct p4d_cache_line {
	_Alignas(128) _Atomic uint64_t step;
	struct {
		/* the chunk that is in a slot: its number in the group plus 1, and a hash of its call */
		_Atomic uint64_t chunk, signature;
	} slots[P4D_SLOTS];
} p4d_cache_line;

typedef struct p4d_eventfd {
	_Alignas(64) _Atomic uint32_t sleeps;
} p4d_eventfd;

/* The last use of a slot. Before a rank uses the slot again, all members must have reached `step`. */
typedef struct p4d_use {
	p4d_cache_line *lines; /* NULL: the slot was never used */
	uint64_t step;         /* step that all of them must reach */
	uint32_t count;
	uint32_t *ranks;
} p4d_use;

typedef struct p4d_comm_node {
	uint32_t count, index; /* number of ranks of this node, and index of this one */
	uint32_t *ranks;       /* the ranks of this node */
	uint8_t *base;         /* start of the shared memory; NULL: this rank is alone on the node */
	size_t bytes, ring_bytes;
	int *eventfds; /* one per rank of the node, including this one; -1: none */
	unsigned slot;
	p4d_use uses[P4D_SLOTS];
} p4d_comm_node;

struct p4d_world;
struct p4d_rendezvous;
struct p4d_ranks;
/*
 * Collective over the ranks with this rank's node id, after all are connected. Errors: RANK, NO_MEMORY, IO.
 */
int p4d_node__open(struct p4d_world *w, const struct p4d_rendezvous *rendezvous,
		   const struct p4d_ranks *ranks, double deadline, p4d_error *err);
void p4d_node__close(p4d_comm_node *node);
