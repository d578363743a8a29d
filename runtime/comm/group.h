/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_GROUP_H
#define P4D_GROUP_H

#include "comm/world.h"

struct p4d_group {
	p4d_world *world;
	uint32_t size, index;
	uint32_t *ranks;
	uint32_t id;           /* the same on all members; part of messages' tags */
	p4d_cache_line *lines; /* by index; NULL: the members are on several nodes */
	uint64_t piece;        /* of the next call's first piece */
	const void **terms;
	struct p4d_transport *transport; /* of data on a device; NULL: they are in the host's memory */
	void *transport_state;           /* the transport's */
};

typedef enum p4d_call {
	P4D_CALL_ALL_REDUCE = 1,
	P4D_CALL_REDUCE_SCATTER,
	P4D_CALL_ALL_GATHER,
	P4D_CALL_BROADCAST,
	P4D_CALL_REDUCE,
	P4D_CALL_BARRIER
} p4d_call;

/* A collective; what does not apply is 0. All members must agree on all but the pointers. */
typedef struct p4d_collective {
	p4d_call call;
	p4d_dtype type; /* P4D_DT_BYTES in those that do not sum */
	p4d_reduction how;
	uint32_t root;
	uint64_t count; /* elements, of one piece in REDUCE_SCATTER and ALL_GATHER */
	size_t width;   /* bytes of an element */
	void *to;
	const void *from;
} p4d_collective;

/* Of data in the host's memory, checked, whatever the group's transport. */
int p4d_comm_host_collective(p4d_group *group, const p4d_collective *c, p4d_error *err);
/* collectives_node.c: in shared memory; collectives_wire.c: by messages. */
int p4d_node__collective(p4d_group *group, const p4d_collective *c, p4d_error *err);
int p4d_wire__collective(p4d_group *group, const p4d_collective *c, p4d_error *err);

/* Where member i's share of count elements begins; shares begin at cache lines. */
static inline uint64_t p4d_cost_share(uint64_t count, uint32_t size, uint32_t i, size_t width)
{
	uint64_t line = 64 / width, share = ((count + size - 1) / size + line - 1) / line * line;

	return share * i < count ? share * i : count;
}

#endif
