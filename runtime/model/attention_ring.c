/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context parallelism by a ring (arXiv 2310.01889). Blocks of keys and values travel around the ranks while
 * each rank computes attention over the block that it has. The outputs of blocks are merged by their
 * log-sum-exp.
 */
#include "model/attention.h"
#include "model/buffers.h"

/* Buffer `number` in a row of the plan that has several buffers of `bytes` bytes. */
static char *half_of(const p4d_net *m, p4d_buffer which, unsigned number, uint64_t bytes)
{
	return (char *)p4d_buffers_at(m, which) + number * bytes;
}

/* Communication around the ring: while a block is sent to the next rank, another block arrives. */
typedef struct ring {
	/* next: rank of the cp group to which blocks are sent; before: rank from which blocks come */
	uint32_t next, before;
	unsigned channel;
	uint64_t bytes, ticket;
} ring;

static ring ring_of(const p4d_net *m, unsigned channel, uint64_t bytes)
{
	const uint32_t cp = (uint32_t)m->l->cp;

	return (ring){.next = (m->place.cp + 1) % cp,
		      .before = (m->place.cp + cp - 1) % cp,
		      .channel = channel,
		      .bytes = bytes};
}

static int ring_send(p4d_net *m, ring *r, const void *data, p4d_error *err)
{
	return p4d_comm_send(m->cp, r->next, r->channel, data, r->bytes, &r->ticket, err);
}

/* Starts to receive the next block while the current one is in use. */
static int ring_expect(p4d_net *m, const ring *r, void *data, p4d_error *err)
{
	return p4d_comm_recv_begin(m->cp, r->before, r->channel, data, r->bytes, err);
}

static int ring_turn(p4d_net *m, ring *r, void *data, p4d_error *err)
{
	if (p4d_comm_recv_end(m->cp, r->before, r->channel, data, r->bytes, err) < 0)
		return -1;
	return p4d_comm_send_wait(m->cp, r->next, r->channel, r->ticket, err);
}

int p4d_attention_ring__forward(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const uint64_t e = m->element, bytes = m->n * 2 * m->kv * e, cp = m->l->cp;
	void *qkv = y->activation[ACT_QKV], *output = y->activation[ACT_ATTENTION];
	float *lse = y->activation[ACT_LSE], *total = p4d_buffers_at(m, B_RING_OUTPUT),
	      *total_lse = p4d_buffers_at(m, B_RING_LSE);
	void *workspace = p4d_buffers_at(m, B_FORWARD_WORKSPACE);
	ring r = ring_of(m, CHANNEL_RING, bytes);

	p4d_attention__take_keys_values(m, half_of(m, B_RING_KEYS_VALUES, 0, bytes), qkv, 0, m->n);
	for (unsigned i = 0; i < cp; i++) {
		const uint32_t from = (uint32_t)((m->place.cp + cp - i) % cp);
		const p4d_attention_shape shape = p4d_attention__shape_of(m, y, from, m->length, 2 * m->kv);
		char *keys = half_of(m, B_RING_KEYS_VALUES, i % 2, bytes);
		char *next = half_of(m, B_RING_KEYS_VALUES, (i + 1) % 2, bytes);
		if (i + 1 < cp && (ring_send(m, &r, keys, err) < 0 || ring_expect(m, &r, next, err) < 0))
			return -1;
		m->d->attention(m->d, m->type, output, lse, qkv, keys, p4d_column(keys, m->kv, e), &shape,
				workspace);
		m->d->attention_merge(m->d, m->type, total, total_lse, output, lse, m->n, shape.heads,
				      shape.head_dim, i == 0);
		if (i + 1 < cp && ring_turn(m, &r, next, err) < 0)
			return -1;
	}
	m->d->cast(m->d, m->type, output, P4D_DT_FP32, total, m->n * m->q);
	m->d->copy(m->d, lse, total_lse, m->n * (m->l->heads / m->l->tp) * sizeof(*lse));
	return 0;
}

/*
 * Computes the gradients of a block's keys and values, as far as they come from this rank's queries. Adds the
 * gradients of the queries to sums.
 */
static void find_gradients(p4d_net *m, const p4d_layer *y, unsigned block, float *sums, float *to)
{
	const uint64_t e = m->element, cp = m->l->cp, width = 2 * m->kv, bytes = m->n * width * e;
	const uint32_t from = (uint32_t)((m->place.cp + cp - block) % cp);
	const p4d_attention_shape shape = p4d_attention__gradient_shape_of(m, y, from, m->length, width);
	char *keys = half_of(m, B_RING_BACK_KEYS_VALUES, block % 2, bytes);

	m->d->zero(m->d, to, m->n * width * sizeof(*to));
	m->d->attention_backward(m->d, m->type, sums, to, to + m->kv, p4d_buffers_at(m, B_ATTENTION_GRADIENT),
				 y->activation[ACT_LSE], p4d_buffers_at(m, B_ROW_SUMS),
				 y->activation[ACT_QKV], keys, p4d_column(keys, m->kv, e), &shape,
				 p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
}

/*
 * Backward around the ring. The gradients of a block travel with its keys and values, and are complete when
 * the block returns to its owner. A block's gradients are still being sent while the next block is computed,
 * so there are two buffers for gradients.
 */
int p4d_attention_ring__backward(p4d_net *m, const p4d_layer *y, float *sums, p4d_error *err)
{
	enum { OWN = 2 };
	const uint64_t e = m->element, cp = m->l->cp, width = 2 * m->kv, count = m->n * width;
	const uint64_t bytes = count * e, gradient_bytes = count * sizeof(float);
	ring keys_ring = ring_of(m, CHANNEL_RING, bytes);
	ring gradient_ring = ring_of(m, CHANNEL_RING_GRADIENTS, gradient_bytes);
	float *const own = (void *)half_of(m, B_RING_BACK_GRADIENTS, OWN, gradient_bytes);

	p4d_attention__take_keys_values(m, half_of(m, B_RING_BACK_KEYS_VALUES, 0, bytes),
					y->activation[ACT_QKV], 0, m->n);
	for (unsigned i = 0; i < cp; i++) {
		char *keys = half_of(m, B_RING_BACK_KEYS_VALUES, i % 2, bytes);
		char *next = half_of(m, B_RING_BACK_KEYS_VALUES, (i + 1) % 2, bytes);
		float *gradient = (void *)half_of(m, B_RING_BACK_GRADIENTS, i % 2, gradient_bytes);
		void *next_gradient = half_of(m, B_RING_BACK_GRADIENTS, (i + 1) % 2, gradient_bytes);
		if (i + 1 < cp &&
		    (ring_send(m, &keys_ring, keys, err) < 0 || ring_expect(m, &keys_ring, next, err) < 0))
			return -1;
		find_gradients(m, y, i, sums, i ? own : gradient);
		if (i && ring_turn(m, &gradient_ring, gradient, err) < 0)
			return -1;
		if (i)
			m->d->accumulate(m->d, gradient, P4D_DT_FP32, own, count);
		if (ring_send(m, &gradient_ring, gradient, err) < 0 ||
		    ring_expect(m, &gradient_ring, next_gradient, err) < 0)
			return -1;
		if (i + 1 < cp && ring_turn(m, &keys_ring, next, err) < 0)
			return -1;
	}
	float *const complete = (void *)half_of(m, B_RING_BACK_GRADIENTS, cp % 2, gradient_bytes);
	if (ring_turn(m, &gradient_ring, complete, err) < 0)
		return -1;
	m->d->copy_rows(m->d, sums + m->q, m->columns * sizeof(*sums), complete, width * sizeof(*sums),
			width * sizeof(*sums), m->n);
	return 0;
}
