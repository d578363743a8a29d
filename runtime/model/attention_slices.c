/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of a slice of each sequence (--token-slices). Keys and values of all slices so far are kept next
 * to each other until the first slice has run backward. Backward passes run in the reverse order of slices.
 * Each adds to the gradients of all keys that it sees, in fp32. So when a slice runs backward, all later
 * slices have already added to the gradients of its keys.
 */
#include "model/attention.h"
#include "model/buffers.h"

enum { KEYS_AND_VALUES = 2 };

/* Memory of one sequence of the micro-batch: rows of this slice, and all keys so far. */
typedef struct sequence {
	uint64_t first; /* index of the slice's first token in the sequence */
	char *qkv, *output, *keys;
	float *lse, *row_sums, *key_gradients;
	p4d_attention_shape shape;
} sequence;

static sequence sequence_of(p4d_net *m, const p4d_layer *y, uint64_t number)
{
	const uint64_t e = m->element, width = KEYS_AND_VALUES * m->kv, heads = m->l->heads / m->l->tp;
	const uint64_t first = number * m->length, all = number * m->l->seq_len;
	sequence s = {.first = first,
		      .qkv = p4d_column(y->activation[ACT_QKV], first * m->columns, e),
		      .output = p4d_column(y->activation[ACT_ATTENTION], first * m->q, e),
		      .keys = p4d_column(y->keys_values, all * width, e),
		      .lse = (float *)y->activation[ACT_LSE] + first * heads,
		      .row_sums = (float *)p4d_buffers_at(m, B_ROW_SUMS) + first * heads,
		      .key_gradients = y->key_gradients ? y->key_gradients + all * width : NULL};

	s.shape = p4d_attention__shape_of(m, y, 0, m->before + m->length, width);
	s.shape.batch = 1;
	if (m->documents) {
		s.shape.query_document = m->documents + m->slice_first + first;
		s.shape.key_document = m->documents + m->whole + all;
	}
	return s;
}

int p4d_attention_slices__forward(p4d_net *m, const p4d_layer *y)
{
	const uint64_t e = m->element, width = KEYS_AND_VALUES * m->kv;

	for (uint64_t i = 0; i < m->l->micro_batch; i++) {
		const sequence s = sequence_of(m, y, i);
		p4d_attention__take_keys_values(m, p4d_column(s.keys, m->before * width, e),
						y->activation[ACT_QKV], s.first, m->length);
		m->d->attention(m->d, m->type, s.output, s.lse, s.qkv, s.keys, p4d_column(s.keys, m->kv, e),
				&s.shape, p4d_buffers_at(m, B_FORWARD_WORKSPACE));
	}
	return 0;
}

static void sequence_back(p4d_net *m, const sequence *s, float *sums)
{
	const uint64_t e = m->element, width = KEYS_AND_VALUES * m->kv, bytes = width * sizeof(*sums);
	float *own = sums + s->first * m->columns;
	p4d_attention_shape shape = s->shape;

	shape.workspace_bytes = m->row[B_BACKWARD_WORKSPACE] ? m->row[B_BACKWARD_WORKSPACE]->bytes : 0;
	shape.output = s->output;
	m->d->attention_backward(m->d, m->type, own, s->key_gradients, s->key_gradients + m->kv,
				 p4d_column(p4d_buffers_at(m, B_ATTENTION_GRADIENT), s->first * m->q, e),
				 s->lse, s->row_sums, s->qkv, s->keys, p4d_column(s->keys, m->kv, e), &shape,
				 p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
	m->d->copy_rows(m->d, own + m->q, m->columns * sizeof(*sums), s->key_gradients + m->before * width,
			bytes, bytes, m->length);
}

int p4d_attention_slices__backward(p4d_net *m, const p4d_layer *y, float *sums)
{
	const uint64_t width = KEYS_AND_VALUES * m->kv;

	if (m->before + m->length == m->l->seq_len) /* true for the slice that runs backward first */
		m->d->zero(m->d, y->key_gradients, m->whole * width * sizeof(*sums));
	for (uint64_t i = 0; i < m->l->micro_batch; i++) {
		const sequence s = sequence_of(m, y, i);
		sequence_back(m, &s, sums);
	}
	return 0;
}

void p4d_attention_slices__warm_up(p4d_net *m, uint32_t layer)
{
	void *any = m->arena;
	const p4d_layer y = {.number = layer, .activation[ACT_ATTENTION] = any};
	p4d_attention_shape shape = p4d_attention__shape_of(m, &y, 0, m->before + m->length, 2 * m->kv);
	p4d_attention_shape back =
	    p4d_attention__gradient_shape_of(m, &y, 0, m->before + m->length, 2 * m->kv);

	shape.batch = back.batch = 1;
	m->d->attention(m->d, m->type, any, any, any, any, any, &shape,
			p4d_buffers_at(m, B_FORWARD_WORKSPACE));
	if (!m->l->evaluates)
		m->d->attention_backward(m->d, m->type, any, any, any, any, any, any, any, any, any, &back,
					 p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
}
