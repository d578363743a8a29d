/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies segments to the window during the passes. There are three cases. Shards are on the devices of all
 * ranks that share a model, and are gathered. All parameters are on this rank's host, and are copied. Shards
 * are on the hosts: each rank copies its shard to its device, and then all shards are gathered.
 */
#include "model/buffers.h"
#include "model/window.h"

/*
 * The address of this rank's shard of the part at `offset` of the flat buffer. Here the buffer has only this
 * rank's shards, in the order of the parts.
 */
static char *shard_at(const p4d_net *m, uint64_t offset)
{
	return (char *)p4d_buffers_at(m, B_PARAMETERS) + offset / m->shards * m->element;
}

static uint64_t shard_bytes(const p4d_net *m, uint64_t padded)
{
	return padded / m->shards * m->element;
}

static int gather(p4d_net *m, char *to, uint64_t padded, const char *shard, p4d_error *err)
{
	return p4d_comm_all_gather(m->dp_cp, to, shard, shard_bytes(m, padded), err);
}

/* The addresses to which a segment's trained part and its frozen part are copied. */
static char *trained_part(const p4d_net *m, const p4d_segment *s, char *to)
{
	return to + s->frozen_padded * m->element;
}

static int gather_shards(p4d_net *m, uint32_t segment, char *to, uint64_t *ticket, p4d_error *err)
{
	const p4d_segment *s = &m->weights.segment[segment];

	if (gather(m, to, s->frozen_padded, shard_at(m, s->frozen_offset), err) < 0 ||
	    gather(m, trained_part(m, s, to), s->padded, shard_at(m, s->offset), err) < 0)
		return -1;
	*ticket = p4d_comm_called(m->dp_cp);
	return 0;
}

static int await_gathered(p4d_net *m, uint64_t ticket, p4d_error *err)
{
	return p4d_comm_await(m->dp_cp, ticket, err);
}

const p4d_window_source p4d_window_gather = {gather_shards, await_gathered};

/* Where this rank's shard of a part is copied to, among the shards of all ranks. */
static char *own_place(const p4d_net *m, char *to, uint64_t padded)
{
	const bool shared = m->shards > 1;

	return to + (shared ? p4d_weights_shard_number(m->l, m->place) * shard_bytes(m, padded) : 0);
}

static void lift_shard(p4d_net *m, char *to, uint64_t padded, uint64_t offset)
{
	p4d_host_link__move(&m->lift, own_place(m, to, padded), shard_at(m, offset), shard_bytes(m, padded));
}

static int lift_segment(p4d_net *m, uint32_t segment, char *to, uint64_t *ticket, p4d_error *err)
{
	const p4d_segment *s = &m->weights.segment[segment];
	char *trained = trained_part(m, s, to);

	p4d_host_link__follow(&m->lift);
	lift_shard(m, to, s->frozen_padded, s->frozen_offset);
	lift_shard(m, trained, s->padded, s->offset);
	*ticket = p4d_host_link__ticket(&m->lift);
	if (m->shards == 1)
		return 0;
	p4d_comm_follow(m->dp_cp, p4d_host_link__event(&m->lift, *ticket));
	if (gather(m, to, s->frozen_padded, own_place(m, to, s->frozen_padded), err) < 0 ||
	    gather(m, trained, s->padded, own_place(m, trained, s->padded), err) < 0)
		return -1;
	*ticket = p4d_comm_called(m->dp_cp);
	return 0;
}

static int await_lifted(p4d_net *m, uint64_t ticket, p4d_error *err)
{
	if (m->shards > 1)
		return p4d_comm_await(m->dp_cp, ticket, err);
	p4d_host_link__await(&m->lift, ticket);
	return 0;
}

const p4d_window_source p4d_window_host = {lift_segment, await_lifted};
