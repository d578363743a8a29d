/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the states of a trainer, for checkpoints. */
#include <inttypes.h>
#include <string.h>

#include "base/vector.h"
#include "model/buffers.h"
#include "model/quantized.h"
#include "trainer/trainer_internal.h"

/* Address of this rank's shard of a segment in a state. In fp32 the parameters are their own master
 * copies. */
static void *state_at(p4d_trainer *t, uint32_t segment, p4d_state state, uint64_t *count)
{
	char *all = p4d_buffers_state(&t->net, state);
	uint64_t first;

	p4d_trainer_shard(t, segment, &first, count);
	if (!all)
		return p4d_buffers_parameters(&t->net, segment, first);
	return all +
	       t->net.weights.segment[segment].offset / t->net.shards * p4d_state_bytes(t->net.l, state);
}

static bool is_away(const p4d_trainer *t, p4d_state state)
{
	const p4d_buffer states = (p4d_buffer)(B_STATE + state);

	return p4d_buffers_is_away(&t->net, t->net.row[states] ? states : B_PARAMETERS);
}

/* Copies a state to the host, and waits if it is on the device. */
static int fetch(p4d_trainer *t, p4d_state state, void *to, const void *from, uint64_t bytes, p4d_error *err)
{
	if (!is_away(t, state))
		t->net.d->download(t->net.d, to, from, bytes);
	if (t->net.d->sync(t->net.d, err) < 0)
		return -1;
	if (is_away(t, state))
		memcpy(to, from, bytes);
	return 0;
}

static void put(p4d_trainer *t, p4d_state state, void *to, const void *from, uint64_t bytes)
{
	if (is_away(t, state))
		memcpy(to, from, bytes);
	else
		t->net.d->upload(t->net.d, to, from, bytes);
}

static int check_segment(const p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	if (segment < t->net.weights.segments)
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "segment %u of %u", segment, t->net.weights.segments);
}

/*
 * Whether the state is the second moments of Muon. Only parameters that AdamW updates have them, so they are
 * stored in another way.
 */
static bool is_second_of_muon(const p4d_trainer *t, p4d_state state)
{
	return p4d_optimizer_muon__is_used(t) && state >= p4d_optimizer_of(t->net.l)->states;
}

int p4d_trainer_read(p4d_trainer *t, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	if (t->bytes.part && state != P4D_STATE_MASTER)
		return p4d_optimizer_bytes__read(t, segment, state, to, err);
	if (is_second_of_muon(t, state))
		return p4d_optimizer_muon__read(t, segment, to, err);
	const void *from = state_at(t, segment, state, &count);
	const unsigned bytes = p4d_state_bytes(t->net.l, state);
	/* 16-bit numbers are read into the end of `to`, and then converted from the first one on */
	char *narrow = (char *)to + count * sizeof(uint16_t);
	if (fetch(t, state, bytes == sizeof(*to) ? (void *)to : narrow, from, count * bytes, err) < 0)
		return -1;
	for (uint64_t i = 0; bytes != sizeof(*to) && i < count; i++) {
		uint16_t x;
		memcpy(&x, narrow + i * sizeof(x), sizeof(x));
		to[i] = p4d_from_bf16(x);
	}
	return 0;
}

/* Writes parameters from fp32 values. For layouts without master copies, which train nothing. */
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

/* Writes a state in bf16, rounded to nearest. Values that bf16 can represent do not change. */
static void write_half(p4d_trainer *t, p4d_state state, uint16_t *to, const float *from, uint64_t count)
{
	enum { AT_ONCE = 4096 };
	uint16_t some[AT_ONCE];

	for (uint64_t at = 0, n; at < count; at += n) {
		n = count - at < AT_ONCE ? count - at : AT_ONCE;
		for (uint64_t i = 0; i < n; i++)
			some[i] = p4d_to_bf16(from[at + i]);
		put(t, state, to + at, some, n * sizeof(*some));
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
	if (t->bytes.part && state != P4D_STATE_MASTER) {
		p4d_optimizer_bytes__write(t, segment, state, from);
		return 0;
	}
	if (is_second_of_muon(t, state)) {
		p4d_optimizer_muon__write(t, segment, from);
		return 0;
	}
	void *to = state_at(t, segment, state, &count);
	if (is_away(t, state) && t->net.d->sync(t->net.d, err) < 0)
		return -1;
	if (p4d_state_bytes(t->net.l, state) == sizeof(*from))
		put(t, state, to, from, count * sizeof(*from));
	else
		write_half(t, state, to, from, count);
	return 0;
}

void p4d_trainer_write_frozen(p4d_trainer *t, uint64_t offset, float *numbers, uint64_t count)
{
	p4d_buffers_put_frozen(&t->net, offset, numbers, count);
}

int p4d_trainer_write_quantized(p4d_trainer *t, const p4d_weight *weight, const p4d_quantized_part *part,
				uint64_t at, float *numbers, uint64_t count, p4d_error *err)
{
	return p4d_quantized_put(&t->net, weight, part, at, numbers, count, err);
}

static int cast_masters(p4d_trainer *t, p4d_error *err)
{
	if (!p4d_buffers_state(&t->net, P4D_STATE_MASTER))
		return 0;
	if (p4d_optimizer_host__is_used(t))
		return p4d_optimizer_host__restore(t, err);
	for (uint32_t i = 0; i < t->net.weights.segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(t, i, &first, &count);
		t->net.d->cast(t->net.d, t->net.type, p4d_buffers_parameters(&t->net, i, first), P4D_DT_FP32,
			       state_at(t, i, P4D_STATE_MASTER, &count), count);
	}
	return 0;
}

int p4d_trainer_restore(p4d_trainer *t, p4d_error *err)
{
	if (cast_masters(t, err) < 0)
		return -1;
	for (uint32_t i = 0; i < t->net.weights.segments; i++)
		if (p4d_optimizer__gather_segment(t, i, err) < 0)
			return -1;
	if (p4d_comm_await(t->net.dp_cp, p4d_comm_called(t->net.dp_cp), err) < 0)
		return -1;
	return t->net.d->sync(t->net.d, err);
}
