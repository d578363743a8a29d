/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule_order.h"

/* Later than every pass that has a moment of its own: 2^24 micro-batches of periods below 2^16. */
static const int64_t AT_THE_END = (int64_t)1 << 48;

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

/* A pace that begins where the one before does replaces it; one beyond the last pass changes nothing. */
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

static void order_gpipe(p4d_schedule_order *o)
{
	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 1);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, AT_THE_END, 1);
}

/* Warm-up of p-r-1 forwards, then a forward and a backward in turn (PipeDream-flush). */
static void order_1f1b(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	int64_t warm_up = s->stages - stage - 1;

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 2);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, 2 * warm_up + 1, 2);
}

/*
 * 1F1B on a clock where a backward pass takes two forwards: stage r begins the forward of micro-batch i at
 * r + 3i and its backward at p + 2(p-r-1) + 3(i+d). d delays every backward by d periods, for the barriers
 * between the last forward and the first backward (arXiv 2411.05288): S of micro-batch i runs at p + 2 + 3i,
 * when the last stage has just finished a backward pass after the forward of i; T a period later. Vocab-2
 * needs all S before the backward (d = 1), vocab-1 all T (d = 2). A period is 24 here, passes are placed by
 * their middles, and vocabulary passes of the same moment run in the order EMBED_FORWARD, T, S,
 * EMBED_BACKWARD: first those that nothing of this moment waits for.
 */
static void order_1f1b_vocabulary(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	enum { UNIT = 8, PERIOD = 3 * UNIT };
	const int64_t p = s->stages, r = stage, delay = s->vocabulary == P4D_VOCAB_1 ? 2 : 1;
	const int64_t moment = (p + 2) * UNIT;
	/* The embedding of i is needed at 3i, hence at a moment before, a unit earlier to hide the sum over
	 * the stages; its gradient is there at 3(i + p + d), and a unit later everywhere. */
	const int64_t ahead = (p + 2 + 1 + 2) / 3;
	const int64_t behind = (3 * (p + delay) + 1 - (p + 2) + 2) / 3;
	const p4d_vocabulary_keys keys = {
	    .period = PERIOD,
	    .embed_forward = moment - ahead * PERIOD - 4,
	    .backward = moment + PERIOD - 3,
	    .forward = moment - 2,
	    .embed_backward = moment + behind * PERIOD - 1,
	};

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, r * UNIT + UNIT / 2, PERIOD);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, (p + 2 * (p - r - 1) + 3 * delay + 1) * UNIT, PERIOD);
	p4d_schedule_order__vocabulary(o, &keys);
}

/*
 * ZB-H1 (arXiv 2401.10241): 1F1B, with the weight gradients of stage r delayed by r micro-batches, so that
 * every stage holds p of them, the early stages because their backward is far away and the late ones because
 * of this delay; it is what lets the backward passes follow each other without waiting.
 */
static void order_zb1p(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	int64_t warm_up = s->stages - stage - 1;

	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 3);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_INPUT, 0, 3 * warm_up + 1, 3);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD_WEIGHT, 0, 3 * (warm_up + stage) + 2, 3);
}

/* Megatron-LM's interleaved 1F1B (arXiv 2104.04473). */
static void order_interleaved(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *o)
{
	int64_t warm_up = 2 * (int64_t)(s->stages - stage - 1) + (int64_t)(s->chunks - 1) * s->stages;

	o->interleaved = true;
	o->count = s->micro_batches * s->chunks;
	p4d_schedule_order__add(o, P4D_OP_FORWARD, 0, 0, 2);
	p4d_schedule_order__add(o, P4D_OP_BACKWARD, 0, 2 * warm_up + 1, 2);
}

void p4d_schedule_order_begin(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *order)
{
	order->streams = 0;
	order->count = s->micro_batches;
	order->stages = s->stages;
	order->chunks = s->chunks;
	order->interleaved = false;
	switch (s->kind) {
	case P4D_GPIPE:
		order_gpipe(order);
		break;
	case P4D_INTERLEAVED:
		order_interleaved(s, stage, order);
		break;
	case P4D_ZB1P:
		order_zb1p(s, stage, order);
		break;
	case P4D_ZBV:
		p4d_schedule_order__zbv(s, stage, order);
		break;
	case P4D_V_HALF:
		p4d_schedule_order__v_half(s, stage, order);
		break;
	default:
		if (s->vocabulary == P4D_VOCAB_OFF)
			order_1f1b(s, stage, order);
		else
			order_1f1b_vocabulary(s, stage, order);
	}
}

/* The end of a pace, and perhaps of the stream. */
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

/* Groups of p micro-batches go through one chunk after the other. */
static void interleave(const p4d_schedule_order *order, p4d_stream *stream, p4d_pass *pass)
{
	const uint32_t round = stream->round;

	pass->micro_batch = stream->group + stream->member;
	pass->chunk = (uint16_t)(stream->op == P4D_OP_FORWARD ? round : order->chunks - 1 - round);
	if (++stream->member < order->stages)
		return;
	stream->member = 0;
	if (++stream->round < order->chunks)
		return;
	stream->round = 0;
	stream->group += order->stages;
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
	order->key[first] += stream->step;
	if (++stream->next == stream->turn)
		order->key[first] = turn(stream, order->count);
	return true;
}
