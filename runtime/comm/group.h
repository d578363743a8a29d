/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/world.h"

struct p4d_group {
	p4d_world *world;
	uint32_t size, index;
	uint32_t *ranks;
	uint32_t id; /* equal on all members; part of message tags */
	/* one line per member, for groups on one node; NULL: members are on several nodes */
	p4d_cache_line *lines;
	uint64_t chunks; /* number of chunks of collectives in shared memory so far */
	const void **operands;
	struct p4d_transport *transport; /* for data on a device; NULL: data is in host memory */
	void *transport_state;           /* state that belongs to the transport */
};

typedef enum p4d_call {
	P4D_CALL_ALL_REDUCE = 1,
	P4D_CALL_REDUCE_SCATTER,
	P4D_CALL_ALL_GATHER,
	P4D_CALL_BROADCAST,
	P4D_CALL_REDUCE,
	P4D_CALL_BARRIER
} p4d_call;

/* Unused members are 0. All ranks must agree on everything except the pointers. */
typedef struct p4d_collective {
	p4d_call call;
	p4d_dtype type; /* P4D_DT_BYTES if nothing is summed */
	p4d_reduction how;
	uint32_t root;
	uint64_t count; /* number of elements; in REDUCE_SCATTER and ALL_GATHER, of one shard */
	size_t width;   /* bytes of an element */
	void *to;
	const void *from;
} p4d_collective;

/*
 * Runs a collective on host memory, also if the group was moved to a device. The caller has checked the
 * arguments.
 */
int p4d_comm_host_collective(p4d_group *group, const p4d_collective *c, p4d_error *err);
/* collectives_node.c: in shared memory; collectives_wire.c: by messages. */
int p4d_node__collective(p4d_group *group, const p4d_collective *c, p4d_error *err);
int p4d_wire__collective(p4d_group *group, const p4d_collective *c, p4d_error *err);

/* Start of member i's share of count elements; shares are aligned to cache lines. */
static inline uint64_t p4d_group__share(uint64_t count, uint32_t size, uint32_t i, size_t width)
{
	uint64_t line = 64 / width, share = ((count + size - 1) / size + line - 1) / line * line;

	return share * i < count ? share * i : count;
}
