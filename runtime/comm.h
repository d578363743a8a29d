/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_COMM_H
#define P4D_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "plan.h"

/*
 * Communication between ranks. A world is this rank's connections to all others: shared memory to ranks with
 * the same node id, TCP to the rest. A group is an ordered list of ranks. All members call the same
 * collectives on a group in the same order. Every call may fail: a lost or aborting peer ends it with
 * P4D_E_RANK and who it was; nothing hangs. Results are deterministic: sums are made in the order of ranks,
 * in fp32 (fp64 for FP64), and rounded once.
 */
typedef struct p4d_world p4d_world;
typedef struct p4d_group p4d_group;

/* Who this process is and how the others are found. */
typedef struct p4d_ranks {
	uint32_t rank, size;
	uint32_t node;  /* ranks with the same number share memory */
	char host[256]; /* of rank 0's rendezvous */
	uint16_t port;
	uint64_t key; /* of the job: a process with another key cannot join */
	char
	    session[64]; /* unique among concurrent jobs on a machine; names of shared memory begin with it */
	double join_seconds; /* how long to wait for the others */
	double idle_seconds; /* a peer that says nothing for so long is dead */
} p4d_ranks;

typedef enum p4d_reduction { P4D_SUM, P4D_MAX } p4d_reduction;

/* Joins; returns when all ranks are connected. Errors: RANK (who is missing), NO_MEMORY. */
int p4d_world_open(p4d_world **world, const p4d_ranks *ranks, p4d_error *err);
/* Leaves in good order, waits for nobody. Removes what it made, also after failures. */
void p4d_world_close(p4d_world *world);
/* Tells all ranks why this one ends; their running and next calls fail with it. Not for signal handlers. */
void p4d_world_abort(p4d_world *world, const char *why);
/* True when the world is broken; err says why. Cheap: for loops that compute for long. */
bool p4d_world_failed(p4d_world *world, p4d_error *err);

/* ranks[count] includes this one. Groups of one rank are valid and do nothing. */
int p4d_group_open(p4d_group **group, p4d_world *world, const uint32_t *ranks, uint32_t count,
		   p4d_error *err);
void p4d_group_close(p4d_group *group);
uint32_t p4d_group_size(const p4d_group *group);
uint32_t p4d_group_index(const p4d_group *group); /* of this rank */

/* In place. types: BF16, FP16, FP32, FP64; MAX: FP32 and FP64. */
int p4d_all_reduce(p4d_group *group, void *data, uint64_t count, p4d_dtype type, p4d_reduction how,
		   p4d_error *err);
/* to (count) = this rank's piece of the sum of all from (size*count); to may be that piece of from */
int p4d_reduce_scatter(p4d_group *group, void *to, const void *from, uint64_t count, p4d_dtype type,
		       p4d_error *err);
/* to (size*bytes); from may be this rank's piece of to */
int p4d_all_gather(p4d_group *group, void *to, const void *from, uint64_t bytes, p4d_error *err);
int p4d_broadcast(p4d_group *group, void *data, uint64_t bytes, uint32_t root, p4d_error *err);
/* sum at root only; others' data is left as it was */
int p4d_reduce(p4d_group *group, void *data, uint64_t count, p4d_dtype type, uint32_t root, p4d_error *err);
int p4d_barrier(p4d_group *group, p4d_error *err);

/*
 * Point to point, to the member with that index (also itself). Channels are ordered, one per pair and
 * `channel` number (0..3), so that forward and backward traffic do not wait for each other. A send returns at
 * once with a ticket; the data must stay until p4d_send_wait. Whatever blocks makes progress on all sends.
 */
int p4d_send(p4d_group *group, uint32_t to, unsigned channel, const void *data, uint64_t bytes,
	     uint64_t *ticket, p4d_error *err);
int p4d_send_wait(p4d_group *group, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err);
int p4d_recv(p4d_group *group, uint32_t from, unsigned channel, void *data, uint64_t bytes, p4d_error *err);

#endif
