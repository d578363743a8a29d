/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a layer: of this rank's queries over all keys of the sequence that they see. */
#include <math.h>

#include "model/attention_parts.h"

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

static uint64_t bytes_of(const p4d_trainer *t, p4d_buffer which)
{
	return t->row[which] ? t->row[which]->bytes : 0;
}

p4d_attention_shape p4d_attention_shape_of(const p4d_trainer *t, uint32_t block, uint64_t keys,
					   uint64_t key_stride)
{
	const int32_t *positions = p4d_at(t, B_POSITIONS), *documents = t->documents;
	const uint32_t own = p4d_own_block(t);
	p4d_attention_shape shape = {
	    .batch = t->l->micro_batch,
	    .queries = t->length,
	    .keys = keys,
	    .heads = t->l->heads / t->l->tp,
	    .kv_heads = t->l->kv_heads / t->l->tp,
	    .head_dim = t->l->head_dim,
	    .query_position = positions + own * t->length,
	    .key_position = positions + block * t->length,
	    .query_document = documents ? documents + own * t->n : NULL,
	    .key_document = documents ? documents + block * t->n : NULL,
	    .query_stride = t->columns,
	    .key_stride = key_stride,
	    .scale = (float)(1 / sqrt((double)t->l->head_dim)),
	    .workspace_bytes = bytes_of(t, B_FORWARD_WORKSPACE),
	};

	p4d_find_blocks(t, block, &shape);
	return shape;
}

p4d_attention_shape p4d_gradient_shape_of(const p4d_trainer *t, const p4d_layer *y, uint32_t block,
					  uint64_t keys, uint64_t key_stride)
{
	p4d_attention_shape shape = p4d_attention_shape_of(t, block, keys, key_stride);

	shape.workspace_bytes = bytes_of(t, B_BACKWARD_WORKSPACE);
	shape.output = y->made[MADE_ATTENTION];
	return shape;
}

void p4d_take_keys_values(p4d_trainer *t, void *to, void *qkv, uint64_t first, uint64_t count)
{
	const uint64_t e = t->element, row = t->columns * e, width = 2 * t->kv * e;

	t->d->copy_rows(t->d, to, width, p4d_column(qkv, t->q, e) + first * row, row, width, count);
}

int p4d_attend(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const p4d_attention_shape shape = p4d_attention_shape_of(t, 0, t->length, t->columns);
	const uint64_t e = t->element;
	void *qkv = y->made[MADE_QKV];

	if (t->l->cp > 1)
		return (t->l->cp_comm == P4D_CP_ALL_GATHER ? p4d_attend_gathered : p4d_attend_ring)(t, y,
												    err);
	t->d->attention(t->d, t->type, y->made[MADE_ATTENTION], y->made[MADE_LSE], qkv,
			p4d_column(qkv, t->q, e), p4d_column(qkv, t->q + t->kv, e), &shape,
			p4d_at(t, B_FORWARD_WORKSPACE));
	return 0;
}

static void attend_back(p4d_trainer *t, const p4d_layer *y, void *dqkv, float *sums)
{
	const p4d_attention_shape shape = p4d_gradient_shape_of(t, y, 0, t->length, t->columns);

	t->d->attention_gradient(t->d, t->type, dqkv, sums, p4d_at(t, B_ATTENTION_GRADIENT),
				 y->made[MADE_LSE], p4d_at(t, B_ROW_SUMS), y->made[MADE_QKV], &shape,
				 p4d_at(t, B_BACKWARD_WORKSPACE));
}

int p4d_attend_back(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	void *dqkv = p4d_at(t, B_QKV_GRADIENT);
	float *sums = t->type == P4D_DT_FP32 ? dqkv : p4d_at(t, B_QKV_SUMS);
	int rc;

	t->d->attention_row_sums(t->d, t->type, p4d_at(t, B_ROW_SUMS), p4d_at(t, B_ATTENTION_GRADIENT),
				 y->made[MADE_ATTENTION], t->n, t->l->heads / t->l->tp, t->l->head_dim);
	if (t->l->cp == 1) {
		attend_back(t, y, dqkv, sums);
		return 0;
	}
	t->d->zero(t->d, sums, t->n * t->columns * sizeof(*sums));
	rc = (t->l->cp_comm == P4D_CP_ALL_GATHER ? p4d_attend_gathered_back
						 : p4d_attend_ring_back)(t, y, sums, err);
	if (rc == 0 && t->type != P4D_DT_FP32)
		t->d->cast(t->d, t->type, dqkv, P4D_DT_FP32, sums, t->n * t->columns);
	return rc;
}

/* Forward and back over one block of keys, of whatever lies in the arena. */
static void warm(p4d_trainer *t, uint32_t block, uint64_t keys, uint64_t key_stride)
{
	void *any = t->arena;
	const p4d_layer y = {.made[MADE_ATTENTION] = any};
	const p4d_attention_shape forward = p4d_attention_shape_of(t, block, keys, key_stride);
	const p4d_attention_shape back = p4d_gradient_shape_of(t, &y, block, keys, key_stride);

	t->d->attention(t->d, t->type, any, any, any, any, any, &forward, p4d_at(t, B_FORWARD_WORKSPACE));
	if (t->l->cp == 1)
		t->d->attention_gradient(t->d, t->type, any, any, any, any, any, any, &back,
					 p4d_at(t, B_BACKWARD_WORKSPACE));
	else
		t->d->attention_backward(t->d, t->type, any, any, any, any, any, any, any, any, any, &back,
					 p4d_at(t, B_BACKWARD_WORKSPACE));
}

void p4d_warm_attention(p4d_trainer *t)
{
	const uint32_t own = t->place.cp;

	t->documents = t->set.document_mask ? p4d_at(t, B_DOCUMENTS) : NULL;
	if (t->l->cp == 1)
		warm(t, 0, t->length, t->columns);
	else if (t->l->cp_comm == P4D_CP_ALL_GATHER)
		warm(t, P4D_GATHERED_BLOCK, t->l->seq_len, 2 * t->kv);
	else /* all earlier blocks are alike, and all later ones */
		for (uint32_t block = own ? own - 1 : 0; block <= own + 1 && block < t->l->cp; block++)
			warm(t, block, t->length, 2 * t->kv);
}
