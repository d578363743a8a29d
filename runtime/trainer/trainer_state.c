/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a trainer as checkpoints see it. */
#include <inttypes.h>
#include <string.h>

#include "model/buffers.h"
#include "model/sequence_order.h"
#include "trainer/trainer_internal.h"

/* This rank's shard of a segment. In fp32 the parameters are their own masters. */
static float *state_at(p4d_trainer *t, uint32_t segment, p4d_state state, uint64_t *count)
{
	float *all = p4d_buffers_state(&t->net, state);
	uint64_t first;

	p4d_trainer_shard(t, segment, &first, count);
	if (!all)
		return (float *)p4d_buffers_at(&t->net, B_PARAMETERS) + first;
	return all + t->net.weights.segment[segment].offset / t->net.shards;
}

static int check_segment(const p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	if (segment < t->net.weights.segments)
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "segment %u of %u", segment, t->net.weights.segments);
}

int p4d_trainer_read(p4d_trainer *t, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	const float *from = state_at(t, segment, state, &count);
	t->net.d->download(t->net.d, to, from, count * sizeof(*to));
	return t->net.d->sync(t->net.d, err);
}

/* Where there are no masters, for nothing is trained. */
static void write_rounded(p4d_trainer *t, uint32_t segment, const float *from)
{
	enum { AT_ONCE = 4096 };
	float some[AT_ONCE];
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	for (uint64_t at = 0, n; at < count; at += n) {
		n = count - at < AT_ONCE ? count - at : AT_ONCE;
		memcpy(some, from + at, n * sizeof(*some));
		p4d_buffers_put_frozen(&t->net, first + at, some, n);
	}
}

int p4d_trainer_write(p4d_trainer *t, uint32_t segment, p4d_state state, const float *from, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	if (t->net.l->evaluates) {
		write_rounded(t, segment, from);
		return 0;
	}
	float *to = state_at(t, segment, state, &count);
	t->net.d->upload(t->net.d, to, from, count * sizeof(*from));
	return 0;
}

void p4d_trainer_write_frozen(p4d_trainer *t, uint64_t offset, float *numbers, uint64_t count)
{
	p4d_buffers_put_frozen(&t->net, offset, numbers, count);
}

int p4d_trainer_restore(p4d_trainer *t, p4d_error *err)
{
	for (uint32_t i = 0; i < t->net.weights.segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(t, i, &first, &count);
		if (p4d_buffers_state(&t->net, P4D_STATE_MASTER)) {
			const float *master = state_at(t, i, P4D_STATE_MASTER, &count);
			t->net.d->cast(t->net.d, t->net.type,
				       (char *)p4d_buffers_at(&t->net, B_PARAMETERS) + first * t->net.element,
				       P4D_DT_FP32, master, count);
		}
		if (p4d_optimizer__gather_segment(t, i, err) < 0)
			return -1;
	}
	if (p4d_comm_await(t->net.dp_cp, p4d_comm_called(t->net.dp_cp), err) < 0)
		return -1;
	return t->net.d->sync(t->net.d, err);
}
