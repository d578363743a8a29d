/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of a rank's queries over all keys of the sequence. With context parallelism a rank holds pieces
 * `rank` and 2*cp-1-rank of 2*cp, so causal attention is equal work for all, and keys and values go round the
 * ranks; outputs of the blocks are combined by their log-sums (ring attention, arXiv 2310.01889).
 */
#include <math.h>

#include "trainer_parts.h"

void p4d_fill_positions(p4d_trainer *t, int32_t *scratch)
{
	const uint64_t cp = t->l->cp, piece = cp > 1 ? t->length / 2 : t->length;

	for (uint64_t rank = 0; rank < cp; rank++)
		for (uint64_t i = 0; i < t->length; i++)
			scratch[rank * t->length + i] =
			    (int32_t)(i < piece ? rank * piece + i : (2 * cp - 1 - rank) * piece + i - piece);
	t->d->upload(t->d, p4d_at(t, B_POSITIONS), scratch, cp * t->length * sizeof(*scratch));
}

p4d_heads p4d_heads_of(const p4d_trainer *t, const p4d_layer *y)
{
	return (p4d_heads){
	    .n = t->n,
	    .length = t->length,
	    .heads = t->l->heads / t->l->tp,
	    .kv_heads = t->l->kv_heads / t->l->tp,
	    .head_dim = t->l->head_dim,
	    .bias = p4d_weight_of(t, P4D_W_QKV_BIAS, y->number),
	    .query_weight = p4d_weight_of(t, P4D_W_QUERY_NORM, y->number),
	    .key_weight = p4d_weight_of(t, P4D_W_KEY_NORM, y->number),
	    .epsilon = t->set.norm_epsilon,
	    .rope = p4d_at(t, B_ROPE),
	};
}

/* Queries of this rank, keys of `rank`, whose rows are key_stride apart. */
static p4d_attention_shape shape_of(const p4d_trainer *t, uint32_t rank, uint64_t key_stride)
{
	const int32_t *positions = p4d_at(t, B_POSITIONS);

	return (p4d_attention_shape){
	    .batch = t->l->micro_batch,
	    .queries = t->length,
	    .keys = t->length,
	    .heads = t->l->heads / t->l->tp,
	    .kv_heads = t->l->kv_heads / t->l->tp,
	    .head_dim = t->l->head_dim,
	    .query_position = positions + t->place.cp * t->length,
	    .key_position = positions + rank * t->length,
	    .query_stride = t->columns,
	    .key_stride = key_stride,
	    .scale = (float)(1 / sqrt((double)t->l->head_dim)),
	};
}

static char *column(void *matrix, uint64_t at, uint64_t size)
{
	return (char *)matrix + at * size;
}

/* One of two buffers in a row of the plan, each `bytes` long. */
static char *half_of(const p4d_trainer *t, p4d_buffer which, unsigned number, uint64_t bytes)
{
	return (char *)p4d_at(t, which) + number * bytes;
}

/* Two buffers that take turns: what is here goes on while the next comes. */
typedef struct ring {
	uint32_t next, before; /* ranks of the cp group */
	unsigned channel;
	uint64_t bytes, ticket;
} ring;

static ring ring_of(const p4d_trainer *t, unsigned channel, uint64_t bytes)
{
	const uint32_t cp = (uint32_t)t->l->cp;

	return (ring){.next = (t->place.cp + 1) % cp,
		      .before = (t->place.cp + cp - 1) % cp,
		      .channel = channel,
		      .bytes = bytes};
}

static int ring_send(p4d_trainer *t, ring *r, const void *data, p4d_error *err)
{
	return p4d_send(t->cp, r->next, r->channel, data, r->bytes, &r->ticket, err);
}

/* Where the next block comes to, while this one is computed with. */
static int ring_expect(p4d_trainer *t, const ring *r, void *data, p4d_error *err)
{
	return p4d_recv_begin(t->cp, r->before, r->channel, data, r->bytes, err);
}

static int ring_turn(p4d_trainer *t, ring *r, void *data, p4d_error *err)
{
	if (p4d_recv_end(t->cp, r->before, r->channel, data, r->bytes, err) < 0)
		return -1;
	return p4d_send_wait(t->cp, r->next, r->channel, r->ticket, err);
}

/* Keys and values, the last columns of qkv, side by side. */
static void take_keys_values(p4d_trainer *t, void *to, void *qkv)
{
	const uint64_t e = t->element, width = 2 * t->kv * e;

	t->d->copy_rows(t->d, to, width, column(qkv, t->q, e), t->columns * e, width, t->n);
}

int p4d_attend(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const uint64_t e = t->element, bytes = t->n * 2 * t->kv * e, cp = t->l->cp;
	void *qkv = y->made[MADE_QKV], *output = y->made[MADE_ATTENTION];
	float *lse = y->made[MADE_LSE], *total = p4d_at(t, B_RING_OUTPUT), *total_lse = p4d_at(t, B_RING_LSE);
	void *workspace = p4d_at(t, B_FORWARD_WORKSPACE);
	ring r = ring_of(t, CHANNEL_RING, bytes);

	if (cp == 1) {
		const p4d_attention_shape shape = shape_of(t, 0, t->columns);
		t->d->attention(t->d, t->type, output, lse, qkv, column(qkv, t->q, e),
				column(qkv, t->q + t->kv, e), &shape, workspace);
		return 0;
	}
	take_keys_values(t, half_of(t, B_RING_KEYS_VALUES, 0, bytes), qkv);
	for (unsigned i = 0; i < cp; i++) {
		const uint32_t from = (uint32_t)((t->place.cp + cp - i) % cp);
		const p4d_attention_shape shape = shape_of(t, from, 2 * t->kv);
		char *keys = half_of(t, B_RING_KEYS_VALUES, i % 2, bytes);
		char *next = half_of(t, B_RING_KEYS_VALUES, (i + 1) % 2, bytes);
		if (i + 1 < cp && (ring_send(t, &r, keys, err) < 0 || ring_expect(t, &r, next, err) < 0))
			return -1;
		t->d->attention(t->d, t->type, output, lse, qkv, keys, column(keys, t->kv, e), &shape,
				workspace);
		t->d->attention_merge(t->d, t->type, total, total_lse, output, lse, t->n, shape.heads,
				      shape.head_dim, i == 0);
		if (i + 1 < cp && ring_turn(t, &r, next, err) < 0)
			return -1;
	}
	t->d->cast(t->d, t->type, output, P4D_DT_FP32, total, t->n * t->q);
	t->d->copy(t->d, lse, total_lse, t->n * (t->l->heads / t->l->tp) * sizeof(*lse));
	return 0;
}

/* Gradients of keys and values follow them round, and are whole when they are back. */
static int ring_back(p4d_trainer *t, const p4d_layer *y, float *sums, p4d_error *err)
{
	const uint64_t e = t->element, cp = t->l->cp, width = 2 * t->kv;
	const uint64_t bytes = t->n * width * e, gradient_bytes = t->n * width * sizeof(float);
	ring keys_ring = ring_of(t, CHANNEL_RING, bytes);
	ring gradient_ring = ring_of(t, CHANNEL_RING_GRADIENTS, gradient_bytes);
	void *qkv = y->made[MADE_QKV];

	take_keys_values(t, half_of(t, B_RING_BACK_KEYS_VALUES, 0, bytes), qkv);
	t->d->zero(t->d, p4d_at(t, B_RING_BACK_GRADIENTS), gradient_bytes);
	for (unsigned i = 0; i < cp; i++) {
		const uint32_t from = (uint32_t)((t->place.cp + cp - i) % cp);
		const p4d_attention_shape shape = shape_of(t, from, width);
		char *keys = half_of(t, B_RING_BACK_KEYS_VALUES, i % 2, bytes);
		char *next = half_of(t, B_RING_BACK_KEYS_VALUES, (i + 1) % 2, bytes);
		float *gradient = (void *)half_of(t, B_RING_BACK_GRADIENTS, i % 2, gradient_bytes);
		void *next_gradient = half_of(t, B_RING_BACK_GRADIENTS, (i + 1) % 2, gradient_bytes);
		if (i + 1 < cp &&
		    (ring_send(t, &keys_ring, keys, err) < 0 || ring_expect(t, &keys_ring, next, err) < 0))
			return -1;
		t->d->attention_backward(t->d, t->type, sums, gradient, gradient + t->kv,
					 p4d_at(t, B_ATTENTION_GRADIENT), y->made[MADE_LSE],
					 p4d_at(t, B_ROW_SUMS), qkv, keys, column(keys, t->kv, e), &shape,
					 p4d_at(t, B_BACKWARD_WORKSPACE));
		if (ring_send(t, &gradient_ring, gradient, err) < 0 ||
		    ring_expect(t, &gradient_ring, next_gradient, err) < 0)
			return -1;
		if ((i + 1 < cp && ring_turn(t, &keys_ring, next, err) < 0) ||
		    ring_turn(t, &gradient_ring, next_gradient, err) < 0)
			return -1;
	}
	t->d->copy_rows(t->d, sums + t->q, t->columns * sizeof(*sums),
			half_of(t, B_RING_BACK_GRADIENTS, cp % 2, gradient_bytes), width * sizeof(*sums),
			width * sizeof(*sums), t->n);
	return 0;
}

int p4d_attend_back(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	void *qkv = y->made[MADE_QKV], *dqkv = p4d_at(t, B_QKV_GRADIENT);
	float *sums = t->type == P4D_DT_FP32 ? dqkv : p4d_at(t, B_QKV_SUMS);
	const p4d_attention_shape shape = shape_of(t, 0, t->columns);
	const uint64_t e = t->element;

	t->d->attention_row_sums(t->d, t->type, p4d_at(t, B_ROW_SUMS), p4d_at(t, B_ATTENTION_GRADIENT),
				 y->made[MADE_ATTENTION], t->n, shape.heads, shape.head_dim);
	t->d->zero(t->d, sums, t->n * t->columns * sizeof(*sums));
	if (t->l->cp > 1) {
		if (ring_back(t, y, sums, err) < 0)
			return -1;
	} else {
		t->d->attention_backward(
		    t->d, t->type, sums, sums + t->q, sums + t->q + t->kv, p4d_at(t, B_ATTENTION_GRADIENT),
		    y->made[MADE_LSE], p4d_at(t, B_ROW_SUMS), qkv, column(qkv, t->q, e),
		    column(qkv, t->q + t->kv, e), &shape, p4d_at(t, B_BACKWARD_WORKSPACE));
	}
	if (t->type != P4D_DT_FP32)
		t->d->cast(t->d, t->type, dqkv, P4D_DT_FP32, sums, t->n * t->columns);
	return 0;
}
