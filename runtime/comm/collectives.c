/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: the part common to all transports. */
#include <string.h>

#include "comm/sum.h"
#include "comm/transport.h"

int p4d_comm_host_collective(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	if (g->size == 1) {
		if (c->to != c->from && c->from)
			memmove(c->to, c->from, c->count * c->width);
		return 0;
	}
	return g->lines ? p4d_node__collective(g, c, err) : p4d_wire__collective(g, c, err);
}

static int run(p4d_group *g, p4d_collective *c, p4d_error *err)
{
	uint64_t all;
	bool sums = c->call == P4D_CALL_ALL_REDUCE || c->call == P4D_CALL_REDUCE_SCATTER ||
		    c->call == P4D_CALL_REDUCE;

	if (p4d_world_check(g->world, err) < 0)
		return -1;
	c->width = sums ? p4d_sum__width(c->type) : 1;
	if (!c->width || (c->how == P4D_MAX && c->width < 4))
		return p4d_fail(err, P4D_E_VALUE, "%s is not supported for this type",
				c->how == P4D_MAX ? "maximum" : "sum");
	if (c->root >= g->size)
		return p4d_fail(err, P4D_E_VALUE, "root is member %u, expected below %u", c->root, g->size);
	if (__builtin_mul_overflow(c->count, c->width * g->size, &all))
		return p4d_fail(err, P4D_E_OVERFLOW, "%llu elements of each of %u ranks overflow 64 bits",
				(unsigned long long)c->count, g->size);
	if (!c->count && c->call != P4D_CALL_BARRIER)
		return 0;
	if (g->transport && c->call != P4D_CALL_BARRIER)
		return p4d_comm_device__collective(g, c, err);
	return p4d_comm_host_collective(g, c, err);
}

int p4d_comm_all_reduce(p4d_group *group, void *data, uint64_t count, p4d_dtype type, p4d_reduction how,
			p4d_error *err)
{
	p4d_collective c = {
	    .call = P4D_CALL_ALL_REDUCE, .type = type, .how = how, .count = count, .to = data};

	c.from = data;
	return run(group, &c, err);
}

int p4d_comm_reduce_scatter(p4d_group *group, void *to, const void *from, uint64_t count, p4d_dtype type,
			    p4d_error *err)
{
	p4d_collective c = {.call = P4D_CALL_REDUCE_SCATTER, .type = type, .count = count, .to = to};

	c.from = from;
	return run(group, &c, err);
}

int p4d_comm_all_gather(p4d_group *group, void *to, const void *from, uint64_t bytes, p4d_error *err)
{
	p4d_collective c = {.call = P4D_CALL_ALL_GATHER, .type = P4D_DT_BYTES, .count = bytes, .to = to};

	c.from = from;
	return run(group, &c, err);
}

int p4d_comm_broadcast(p4d_group *group, void *data, uint64_t bytes, uint32_t root, p4d_error *err)
{
	p4d_collective c = {
	    .call = P4D_CALL_BROADCAST, .type = P4D_DT_BYTES, .root = root, .count = bytes, .to = data};

	c.from = data;
	return run(group, &c, err);
}

int p4d_comm_reduce(p4d_group *group, void *data, uint64_t count, p4d_dtype type, uint32_t root,
		    p4d_error *err)
{
	p4d_collective c = {.call = P4D_CALL_REDUCE, .type = type, .root = root, .count = count, .to = data};

	c.from = data;
	return run(group, &c, err);
}

int p4d_comm_barrier(p4d_group *group, p4d_error *err)
{
	p4d_collective c = {.call = P4D_CALL_BARRIER, .type = P4D_DT_BYTES};

	return run(group, &c, err);
}
