/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of the window from the shards of all ranks that share a model, beside the passes. */
#include "model/buffers.h"
#include "model/window.h"

/* Shards lie one after the other, in the order of the flat buffer. */
static int gather(p4d_net *m, char *to, uint64_t offset, uint64_t padded, p4d_error *err)
{
	const uint64_t shard_bytes = padded / m->shards * m->element;
	const char *shards = p4d_buffers_at(m, B_PARAMETERS);

	return p4d_comm_all_gather(m->dp_cp, to, shards + offset / m->shards * m->element, shard_bytes, err);
}

static int bring(p4d_net *m, uint32_t segment, char *to, uint64_t *ticket, p4d_error *err)
{
	const p4d_segment *s = &m->weights.segment[segment];

	if (gather(m, to, s->frozen_offset, s->frozen_padded, err) < 0 ||
	    gather(m, to + s->frozen_padded * m->element, s->offset, s->padded, err) < 0)
		return -1;
	*ticket = p4d_comm_called(m->dp_cp);
	return 0;
}

static int await(p4d_net *m, uint64_t ticket, p4d_error *err)
{
	return p4d_comm_await(m->dp_cp, ticket, err);
}

const p4d_window_source p4d_window_gather = {bring, await};
