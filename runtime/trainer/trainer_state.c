/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that a trainer begins with, and its state as checkpoints see it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "trainer/trainer_parts.h"

void p4d_fill_rope(p4d_trainer *t, float *scratch)
{
	const uint64_t d = t->l->head_dim, half = d / 2;

	for (uint64_t i = 0; i < t->length; i++) {
		const uint64_t position = p4d_place_in_sequence(t->l, t->place.cp, i);
		for (uint64_t j = 0; j < half; j++) {
			const double angle = (double)position * p4d_rope_frequency(&t->set.rope, d, j);
			scratch[i * d + j] = (float)cos(angle);
			scratch[i * d + half + j] = (float)sin(angle);
		}
	}
	t->d->upload(t->d, p4d_at(t, B_ROPE), scratch, t->length * d * sizeof(*scratch));
}

/* This rank's shard of a segment. In fp32 the parameters are their own masters. */
static float *state_at(p4d_trainer *t, uint32_t segment, p4d_state state, uint64_t *count)
{
	const p4d_buffer of[P4D_STATES] = {B_MASTER, B_FIRST, B_SECOND};
	float *all = p4d_at(t, of[state]);
	uint64_t first;

	p4d_trainer_shard(t, segment, &first, count);
	if (!all)
		return (float *)p4d_at(t, B_PARAMETERS) + first;
	return all + t->weights.segment[segment].offset / t->shards;
}

static int check_segment(const p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	if (segment < t->weights.segments)
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "segment %u of %u", segment, t->weights.segments);
}

int p4d_trainer_read(p4d_trainer *t, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	const float *from = state_at(t, segment, state, &count);
	t->d->download(t->d, to, from, count * sizeof(*to));
	return t->d->sync(t->d, err);
}

int p4d_trainer_write(p4d_trainer *t, uint32_t segment, p4d_state state, const float *from, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	float *to = state_at(t, segment, state, &count);
	t->d->upload(t->d, to, from, count * sizeof(*from));
	return 0;
}

int p4d_trainer_restore(p4d_trainer *t, p4d_error *err)
{
	for (uint32_t i = 0; i < t->weights.segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(t, i, &first, &count);
		if (p4d_at(t, B_MASTER)) {
			const float *master = state_at(t, i, P4D_STATE_MASTER, &count);
			t->d->cast(t->d, t->type, (char *)p4d_at(t, B_PARAMETERS) + first * t->element,
				   P4D_DT_FP32, master, count);
		}
		if (p4d_gather_segment(t, i, err) < 0)
			return -1;
	}
	if (p4d_group_await(t->replicas, p4d_group_called(t->replicas), err) < 0)
		return -1;
	return t->d->sync(t->d, err);
}
