/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context parallelism by a ring (arXiv 2310.01889): keys and values go round the ranks while attention works
 * on those that are here; outputs of the blocks are combined by their log-sums.
 */
#include "model/attention_parts.h"

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

int p4d_attend_ring(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const uint64_t e = t->element, bytes = t->n * 2 * t->kv * e, cp = t->l->cp;
	void *qkv = y->made[MADE_QKV], *output = y->made[MADE_ATTENTION];
	float *lse = y->made[MADE_LSE], *total = p4d_at(t, B_RING_OUTPUT), *total_lse = p4d_at(t, B_RING_LSE);
	void *workspace = p4d_at(t, B_FORWARD_WORKSPACE);
	ring r = ring_of(t, CHANNEL_RING, bytes);

	p4d_take_keys_values(t, half_of(t, B_RING_KEYS_VALUES, 0, bytes), qkv, 0, t->n);
	for (unsigned i = 0; i < cp; i++) {
		const uint32_t from = (uint32_t)((t->place.cp + cp - i) % cp);
		const p4d_attention_shape shape = p4d_attention_shape_of(t, from, t->length, 2 * t->kv);
		char *keys = half_of(t, B_RING_KEYS_VALUES, i % 2, bytes);
		char *next = half_of(t, B_RING_KEYS_VALUES, (i + 1) % 2, bytes);
		if (i + 1 < cp && (ring_send(t, &r, keys, err) < 0 || ring_expect(t, &r, next, err) < 0))
			return -1;
		t->d->attention(t->d, t->type, output, lse, qkv, keys, p4d_column(keys, t->kv, e), &shape,
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
int p4d_attend_ring_back(p4d_trainer *t, const p4d_layer *y, float *sums, p4d_error *err)
{
	const uint64_t e = t->element, cp = t->l->cp, width = 2 * t->kv;
	const uint64_t bytes = t->n * width * e, gradient_bytes = t->n * width * sizeof(float);
	ring keys_ring = ring_of(t, CHANNEL_RING, bytes);
	ring gradient_ring = ring_of(t, CHANNEL_RING_GRADIENTS, gradient_bytes);
	void *qkv = y->made[MADE_QKV];

	p4d_take_keys_values(t, half_of(t, B_RING_BACK_KEYS_VALUES, 0, bytes), qkv, 0, t->n);
	t->d->zero(t->d, p4d_at(t, B_RING_BACK_GRADIENTS), gradient_bytes);
	for (unsigned i = 0; i < cp; i++) {
		const uint32_t from = (uint32_t)((t->place.cp + cp - i) % cp);
		const p4d_attention_shape shape = p4d_gradient_shape_of(t, y, from, t->length, width);
		char *keys = half_of(t, B_RING_BACK_KEYS_VALUES, i % 2, bytes);
		char *next = half_of(t, B_RING_BACK_KEYS_VALUES, (i + 1) % 2, bytes);
		float *gradient = (void *)half_of(t, B_RING_BACK_GRADIENTS, i % 2, gradient_bytes);
		void *next_gradient = half_of(t, B_RING_BACK_GRADIENTS, (i + 1) % 2, gradient_bytes);
		if (i + 1 < cp &&
		    (ring_send(t, &keys_ring, keys, err) < 0 || ring_expect(t, &keys_ring, next, err) < 0))
			return -1;
		t->d->attention_backward(t->d, t->type, sums, gradient, gradient + t->kv,
					 p4d_at(t, B_ATTENTION_GRADIENT), y->made[MADE_LSE],
					 p4d_at(t, B_ROW_SUMS), qkv, keys, p4d_column(keys, t->kv, e), &shape,
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
