/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a layer: of this rank's queries over all keys of the sequence that they see. */
#include <math.h>

#include "attention_parts.h"

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

p4d_attention_shape p4d_attention_shape_of(const p4d_trainer *t, uint32_t block, uint64_t keys,
					   uint64_t key_stride)
{
	const int32_t *positions = p4d_at(t, B_POSITIONS), *documents = t->documents;
	const uint32_t own = p4d_own_block(t);

	return (p4d_attention_shape){
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
	};
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
	const p4d_attention_shape shape = p4d_attention_shape_of(t, 0, t->length, t->columns);

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
