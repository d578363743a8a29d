/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a layer's attention: this rank's queries over all visible keys of the sequence. */
#include "model/attention.h"

#include "model/buffers.h"
#include "model/document_groups.h"
#include "model/sequence_order.h"

p4d_heads p4d_attention__heads_of(const p4d_net *m, const p4d_layer *y)
{
	const uint64_t *rope = m->row[B_ROPE]->shape, rows = rope[0] / p4d_rope_tables(m->l);
	const uint64_t first = p4d_rope_table_of(m->l, y->number) * rows;

	return (p4d_heads){
	    .n = m->n,
	    .length = m->length,
	    .heads = m->l->heads / m->l->tp,
	    .kv_heads = m->l->kv_heads / m->l->tp,
	    .head_dim = m->l->head_dim,
	    .bias = p4d_buffers__weight(m, P4D_W_QKV_BIAS, y->number),
	    .query_weight = p4d_buffers__weight(m, P4D_W_QUERY_NORM, y->number),
	    .key_weight = p4d_buffers__weight(m, P4D_W_KEY_NORM, y->number),
	    .epsilon = m->set.norm_epsilon,
	    .plus = m->l->architecture->unit_norms ? 1 : 0,
	    .wide = m->l->qk_norm == P4D_QK_NORM_WIDE,
	    .query_width = m->l->heads * m->l->head_dim,
	    .key_width = m->l->kv_heads * m->l->head_dim,
	    .dots = p4d_buffers_at(m, B_QK_DOTS),
	    .rope = (const float *)p4d_buffers_at(m, B_ROPE) + (first + m->before) * rope[1],
	};
}

int p4d_attention__sum_heads(p4d_net *m, float *sums, const void *a, const void *b, const p4d_heads *heads,
			     p4d_error *err)
{
	if (!heads->wide)
		return 0;
	m->d->head_sums(m->d, m->type, sums, a, b, heads);
	if (m->l->tp == 1)
		return 0;
	if (p4d_comm_all_reduce(m->tp, sums, m->n * P4D_WIDE_NORMS, P4D_DT_FP32, P4D_SUM, err) < 0)
		return -1;
	return p4d_comm_settle(m->tp, err);
}

p4d_attention_shape p4d_attention__shape_of(const p4d_net *m, const p4d_layer *y, uint32_t block,
					    uint64_t keys, uint64_t key_stride)
{
	const int32_t *positions = p4d_buffers_at(m, B_POSITIONS), *documents = m->documents;
	const uint32_t own = p4d_sequence__own_block(m);
	p4d_attention_shape shape = {
	    .batch = m->batch,
	    .queries = m->length,
	    .keys = keys,
	    .heads = m->l->heads / m->l->tp,
	    .kv_heads = m->l->kv_heads / m->l->tp,
	    .head_dim = m->l->head_dim,
	    .query_position = positions + own * m->length + m->before,
	    .key_position = positions + block * m->length,
	    .query_document = documents ? documents + own * m->n : NULL,
	    .key_document = documents ? documents + block * m->n : NULL,
	    .query_stride = m->columns,
	    .key_stride = key_stride,
	    .packed = m->packed,
	    .window = p4d_window_of(m->l, y->number),
	    .cap = m->l->architecture->attention_cap,
	    .scale = (float)m->l->factor.attention,
	    .workspace_bytes = p4d_net_bytes(m, B_FORWARD_WORKSPACE),
	};

	p4d_sequence__find_blocks(m, block, &shape);
	return shape;
}

p4d_attention_shape p4d_attention__gradient_shape_of(const p4d_net *m, const p4d_layer *y, uint32_t block,
						     uint64_t keys, uint64_t key_stride)
{
	p4d_attention_shape shape = p4d_attention__shape_of(m, y, block, keys, key_stride);

	shape.workspace_bytes = p4d_net_bytes(m, B_BACKWARD_WORKSPACE);
	shape.output = y->activation[ACT_ATTENTION];
	return shape;
}

void p4d_attention__take_keys_values(p4d_net *m, void *to, void *qkv, uint64_t first, uint64_t count)
{
	const uint64_t e = m->element, row = m->columns * e, width = 2 * m->kv * e;

	m->d->copy_rows(m->d, to, width, p4d_column(qkv, m->q, e) + first * row, row, width, count);
}

/*
 * Attention if the keys are this rank's own rows, one after another: without context parallelism and slices.
 */
static void attend(p4d_net *m, const p4d_layer *y)
{
	const p4d_attention_shape shape = p4d_attention__shape_of(m, y, 0, m->before + m->length, m->columns);
	const uint64_t e = m->element;
	void *qkv = y->activation[ACT_QKV], *first = (char *)qkv - m->before * m->columns * e;

	m->d->attention(m->d, m->type, y->activation[ACT_ATTENTION], y->activation[ACT_LSE], qkv,
			p4d_column(first, m->q, e), p4d_column(first, m->q + m->kv, e), &shape,
			p4d_buffers_at(m, B_FORWARD_WORKSPACE));
}

int p4d_attention__forward(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	if (m->l->slices > 1)
		return p4d_attention_slices__forward(m, y);
	if (m->l->cp > 1)
		return (m->l->cp_comm == P4D_CP_ALL_GATHER ? p4d_attention_gather__forward
							   : p4d_attention_ring__forward)(m, y, err);
	attend(m, y);
	return 0;
}

static void attend_back(p4d_net *m, const p4d_layer *y, void *dqkv, float *sums)
{
	const p4d_attention_shape shape = p4d_attention__gradient_shape_of(m, y, 0, m->length, m->columns);

	m->d->attention_gradient(m->d, m->type, dqkv, sums, p4d_buffers_at(m, B_ATTENTION_GRADIENT),
				 y->activation[ACT_LSE], p4d_buffers_at(m, B_ROW_SUMS),
				 y->activation[ACT_QKV], &shape, p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
}

int p4d_attention__backward(p4d_net *m, const p4d_layer *y, p4d_error *err)
{
	void *dqkv = p4d_buffers_at(m, B_QKV_GRADIENT);
	float *sums = m->type == P4D_DT_FP32 ? dqkv : p4d_buffers_at(m, B_QKV_SUMS);
	int rc;

	if (m->l->cp == 1 && m->l->slices == 1) {
		attend_back(m, y, dqkv, sums);
		return 0;
	}
	m->d->zero(m->d, sums, m->n * m->columns * sizeof(*sums));
	if (m->l->slices > 1)
		rc = p4d_attention_slices__backward(m, y, sums);
	else
		rc = (m->l->cp_comm == P4D_CP_ALL_GATHER ? p4d_attention_gather__backward
							 : p4d_attention_ring__backward)(m, y, sums, err);
	if (rc == 0 && m->type != P4D_DT_FP32)
		m->d->cast(m->d, m->type, dqkv, P4D_DT_FP32, sums, m->n * m->columns);
	return rc;
}

/*
 * Runs the kernels of one block of keys once (forward and, in training, backward), on arbitrary contents of
 * the arena.
 */
static void warm(p4d_net *m, uint32_t layer, uint32_t block, uint64_t keys, uint64_t key_stride)
{
	void *any = m->arena;
	const p4d_layer y = {.number = layer, .activation[ACT_ATTENTION] = any};
	const p4d_attention_shape forward = p4d_attention__shape_of(m, &y, block, keys, key_stride);
	const p4d_attention_shape back = p4d_attention__gradient_shape_of(m, &y, block, keys, key_stride);

	m->d->attention(m->d, m->type, any, any, any, any, any, &forward,
			p4d_buffers_at(m, B_FORWARD_WORKSPACE));
	if (m->l->evaluates)
		return;
	if (m->l->cp == 1)
		m->d->attention_gradient(m->d, m->type, any, any, any, any, any, any, &back,
					 p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
	else
		m->d->attention_backward(m->d, m->type, any, any, any, any, any, any, any, any, any, &back,
					 p4d_buffers_at(m, B_BACKWARD_WORKSPACE));
}

/*
 * Like `warm`, for packed documents, in the rows that attention uses. cuDNN reads the documents' lengths and
 * places from the arena, so nothing may overwrite them.
 */
static void warm_documents(p4d_net *m, uint32_t layer)
{
	p4d_layer y = {.number = layer};
	void *dqkv = p4d_buffers_at(m, B_QKV_GRADIENT);
	float *sums = m->type == P4D_DT_FP32 ? dqkv : p4d_buffers_at(m, B_QKV_SUMS);

	for (int i = 0; i < ACT_COUNT; i++)
		y.activation[i] = p4d_buffers_at_slot(m, B_ACTIVATION + i, 0, 0);
	attend(m, &y);
	if (!m->l->evaluates)
		attend_back(m, &y, dqkv, sums);
}

static void warm_layer(p4d_net *m, uint32_t layer)
{
	const uint32_t own = m->place.cp;

	if (m->l->slices > 1)
		p4d_attention_slices__warm_up(m, layer);
	else if (m->packed.most)
		warm_documents(m, layer);
	else if (m->l->cp == 1)
		warm(m, layer, 0, m->length, m->columns);
	else if (m->l->cp_comm == P4D_CP_ALL_GATHER)
		warm(m, layer, P4D_GATHERED_BLOCK, m->l->seq_len, 2 * m->kv);
	/*
	 * All blocks before this rank's have one shape, and all blocks after it have another. One of each is
	 * enough.
	 */
	else
		for (uint32_t block = own ? own - 1 : 0; block <= own + 1 && block < m->l->cp; block++)
			warm(m, layer, block, m->length, 2 * m->kv);
}

void p4d_attention__warm_up(p4d_net *m)
{
	const uint32_t every = m->l->architecture->full_attention_every, full = every ? every - 1 : 0;

	m->documents = m->set.document_mask ? p4d_buffers_at(m, B_DOCUMENTS) : NULL;
	m->packed = p4d_document_groups__put(m, 0, NULL);
	warm_layer(m, 0);
	/* some models have a window in some layers, and whole sequences in others */
	if (p4d_window_of(m->l, full) != p4d_window_of(m->l, 0))
		warm_layer(m, full);
}
