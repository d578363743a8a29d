/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

void p4d_schedule_order__add(p4d_schedule_order *order, p4d_op op, uint32_t chunk, int64_t key, int64_t step)
{
	p4d_stream *stream = &order->stream[order->streams];

	order->key[order->streams++] = key;
	stream->op = (uint8_t)op;
	stream->chunk = (uint16_t)chunk;
	stream->next = 0;
	stream->current = 0;
	stream->paces = 1;
	stream->pace[0] = (p4d_pace){0, key, step};
	stream->turn = order->count;
	stream->step = step;
	stream->group = stream->member = stream->round = 0;
}

/*
 * A pace that begins at the same pass as the previous one replaces it. A pace that begins after the last pass
 * has no effect.
 */
void p4d_schedule_order__pace(p4d_schedule_order *order, uint32_t from, int64_t key, int64_t step)
{
	p4d_stream *stream = &order->stream[order->streams - 1];

	if (stream->pace[stream->paces - 1].from == from)
		stream->paces--;
	stream->pace[stream->paces++] = (p4d_pace){from, key, step};
	order->key[order->streams - 1] = stream->pace[0].key;
	stream->step = stream->pace[0].step;
	if (stream->paces > 1 && stream->pace[1].from < stream->turn)
		stream->turn = stream->pace[1].from;
}

void p4d_schedule_order__vocabulary(p4d_schedule_order *order, const p4d_vocabulary_keys *keys)
{
	p4d_schedule_order__add(order, P4D_OP_EMBED_FORWARD, order->chunks, keys->embed_forward,
				keys->period);
	p4d_schedule_order__add(order, P4D_OP_VOCAB_BACKWARD, order->chunks, keys->backward, keys->period);
	p4d_schedule_order__add(order, P4D_OP_VOCAB_FORWARD, order->chunks, keys->forward, keys->period);
	p4d_schedule_order__add(order, P4D_OP_EMBED_BACKWARD, order->chunks, keys->embed_backward,
				keys->period);
}

void p4d_schedule_order_begin(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *order)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[s->kind];

	order->streams = 0;
	order->interleaved = kind->in_groups;
	order->count = s->micro_batches * (order->interleaved ? s->chunks : 1);
	order->group = order->interleaved ? p4d_schedule_group(s) : 1;
	order->chunks = s->chunks;
	order->slices = p4d_schedule_slices(s);
	kind->order(s, stage, order);
}

/* Number of the pass at which the current pace, or the stream, ends. */
static int64_t turn(p4d_stream *stream, uint32_t count)
{
	if (stream->next == count)
		return INT64_MAX;
	const p4d_pace *pace = &stream->pace[++stream->current];
	stream->step = pace->step;
	stream->turn = count;
	if (stream->current + 1 < stream->paces && pace[1].from < count)
		stream->turn = pace[1].from;
	return pace->key;
}

/* The next pass of the interleaved stream: a group of micro-batches runs through one chunk after the
 * other. */
static void interleave(const p4d_schedule_order *order, p4d_stream *stream, p4d_pass *pass)
{
	const uint32_t round = stream->round;

	pass->micro_batch = stream->group + stream->member;
	pass->chunk = (uint16_t)(stream->op == P4D_OP_FORWARD ? round : order->chunks - 1 - round);
	if (++stream->member < order->group)
		return;
	stream->member = 0;
	if (++stream->round < order->chunks)
		return;
	stream->round = 0;
	stream->group += order->group;
}

/* The number of a backward pass: the slices of a micro-batch run backward in the reverse order. */
static uint32_t reversed(uint32_t number, uint32_t slices)
{
	const uint32_t slice = number % slices;

	return number - slice + slices - 1 - slice;
}

bool p4d_schedule_order_next(p4d_schedule_order *order, p4d_pass *pass)
{
	unsigned first = 0;

	for (unsigned i = 1; i < order->streams; i++)
		first = order->key[i] < order->key[first] ? i : first;
	if (order->key[first] == INT64_MAX)
		return false;
	p4d_stream *stream = &order->stream[first];
	pass->op = stream->op;
	pass->chunk = stream->chunk;
	pass->micro_batch = stream->next;
	if (order->interleaved)
		interleave(order, stream, pass);
	if (order->slices > 1 && stream->op != P4D_OP_FORWARD)
		pass->micro_batch = reversed(stream->next, order->slices);
	order->key[first] += stream->step;
	if (++stream->next == stream->turn)
		order->key[first] = turn(stream, order->count);
	return true;
}
