/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context parallelism by all-gather: a layer's keys and values are gathered from all ranks, attention runs
 * over all of them, and their gradients are summed over the ranks in fp32. A rank has two chunks of each
 * sequence. The first chunks are gathered in the order of the ranks, the second chunks in the reverse order.
 * So the sequence is in its natural order, and the keys that a chunk of queries sees are contiguous.
 */
#include "model/attention.h"
#include "model/buffers.h"
#include "model/sequence_order.h"

enum { HALVES = 2 };

/* The first (or the second) chunks of a sequence on all ranks. Together they are half of the sequence. */
typedef struct half {
	p4d_group *group; /* the ranks in the order of their chunks in the sequence */
	uint64_t tokens;  /* number of tokens of a chunk */
	uint64_t first;   /* offset of this rank's chunk among its own tokens */
	uint64_t all;     /* offset of the chunks among gathered keys */
	uint64_t own;     /* offset of this rank's chunk among gathered keys */
} half;

static half half_of(const p4d_net *m, uint64_t sequence, uint64_t number)
{
	p4d_group *group = number ? m->cp_reversed : m->cp;
	const uint64_t tokens = m->length / HALVES;
	const uint64_t all = sequence * m->l->seq_len + number * m->l->cp * tokens;

	return (half){.group = group,
		      .tokens = tokens,
		      .first = sequence * m->length + number * tokens,
		      .all = all,
		      .own = all + p4d_group_index(group) * tokens};
}

/* Gathers keys and values of all ranks. to (batch * seq_len, 2 * kv): a token's keys, then its values. */
static int gather(p4d_net *m, void *to, void *qkv, p4d_error *err)
{
	const uint64_t width = 2 * m->kv * m->element;

	for (uint64_t b = 0; b < m->batch; b++)
		for (uint64_t i = 0; i < HALVES; i++) {
			const half h = half_of(m, b, i);
			char *all = (char *)to + h.all * width, *own = (char *)to + h.own * width;
			p4d_attention__take_keys_values(m, own, qkv, h.first, h.tokens);
			if (p4d_comm_all_gather(h.group, all, own, h.tokens * width, err) < 0)
				return -1;
		}
	return 0;
}

/*
 * Sums the gradients over all ranks, and puts the gradients of this rank's keys and values into the last
 * columns of sums.
 */
static int scatter(p4d_net *m, float *gradients, float *sums, p4d_error *err)
{
	const uint64_t width = 2 * m->kv, bytes = width * sizeof(*sums);

	for (uint64_t b = 0; b < m->batch; b++)
		for (uint64_t i = 0; i < HALVES; i++) {
			const half h = half_of(m, b, i);
			float *all = gradients + h.all * width, *own = gradients + h.own * width;
			if (p4d_comm_reduce_scatter(h.group, own, all, h.tokens * width, P4D_DT_FP32, err) <
			    0)
				return -1;
			m->d->copy_rows(m->d, sums + h.first * m->columns + m->q, m->columns * sizeof(*sums),
					own, bytes, bytes, h.tokens);
		}
	return 0;
}

int p4d_attention_gather__forward(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	const p4d_attention_shape shape =
	    p4d_attention__shape_of(m, y, P4D_GATHERED_BLOCK, m->l->seq_len, 2 * m->kv);
	void *qkv = y->activation[ACT_QKV], *keys = p4d_buffers_at(m, B_GATHERED_KEYS_VALUES);

	if (gather(m, keys, qkv, err) < 0)
		return -1;
	m->d->attention(m->d, m->type, y->activation[ACT_ATTENTION], y->activation[ACT_LSE], qkv, keys,
			p4d_column(keys, m->kv, m->element), &shape, p4d_buffers_at(m, B_FORWARD_WORKSPACE));
	return 0;
}

int p4d_attention_gather__backward(p4d_net *m, const p4d_layer *y, float *sums, p4d_error *err)
{
	const p4d_attention_shape shape =
	    p4d_attention__gradient_shape_of(m, y, P4D_GATHERED_BLOCK, m->l->seq_len, 2 * m->kv);
	void *qkv = y->activation[ACT_QKV], *keys = p4d_buffers_at(m, B_GATHERED_BACK_KEYS_VALUES);
	float *gradients = p4d_buffers_at(m, B_GATHERED_BACK_GRADIENTS);

	if (gather(m, keys, qkv, err) < 0)
		return -1;
	m->d->zero(m->d, gradients, m->n * m->l->cp * 2 * m->kv * sizeof(*gradients));
	m->d->attention_backward(
	    m->d, m->type, sums, gradients, gradients + m->kv, p4d_buffers_at(m, B_ATTENTION_GRADIENT),
	    y->activation[ACT_LSE], p4d_buffers_at(m, B_ROW_SUMS), qkv, keys,
	    p4d_column(keys, m->kv, m->element), &shape, p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
	return scatter(m, gradients, sums, err);
}
