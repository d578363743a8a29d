/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context parallelism by all-gather: the keys and values of a layer come from all ranks at once, attention
 * runs over all of them, and their gradients are added up over the ranks in fp32. Of each sequence the first
 * pieces are gathered in the order of the ranks, then the second ones in the opposite order: so the sequence
 * lies in its own order, and what a piece of queries sees in one run.
 */
#include "model/attention_parts.h"

enum { HALVES = 2 };

/* The first or second pieces of a sequence: on all ranks, half of it. */
typedef struct half {
	p4d_group *group; /* in the order of the pieces */
	uint64_t tokens;  /* of a piece */
	uint64_t first;   /* where this rank's piece begins among its tokens */
	uint64_t all;     /* where the pieces begin among gathered keys */
	uint64_t own;     /* where this rank's does */
} half;

static half half_of(const p4d_trainer *t, uint64_t sequence, uint64_t number)
{
	p4d_group *group = number ? t->cp_reversed : t->cp;
	const uint64_t tokens = t->length / HALVES;
	const uint64_t all = sequence * t->l->seq_len + number * t->l->cp * tokens;

	return (half){.group = group,
		      .tokens = tokens,
		      .first = sequence * t->length + number * tokens,
		      .all = all,
		      .own = all + p4d_group_index(group) * tokens};
}

/* to (batch * seq_len, 2 * kv): keys and values of all ranks, side by side. */
static int gather(p4d_trainer *t, void *to, void *qkv, p4d_error *err)
{
	const uint64_t width = 2 * t->kv * t->element;

	for (uint64_t b = 0; b < t->l->micro_batch; b++)
		for (uint64_t i = 0; i < HALVES; i++) {
			const half h = half_of(t, b, i);
			char *all = (char *)to + h.all * width, *own = (char *)to + h.own * width;
			p4d_take_keys_values(t, own, qkv, h.first, h.tokens);
			if (p4d_all_gather(h.group, all, own, h.tokens * width, err) < 0)
				return -1;
		}
	return 0;
}

/* Adds up the gradients of all ranks; this rank's go to the last columns of sums. */
static int scatter(p4d_trainer *t, float *gradients, float *sums, p4d_error *err)
{
	const uint64_t width = 2 * t->kv, bytes = width * sizeof(*sums);

	for (uint64_t b = 0; b < t->l->micro_batch; b++)
		for (uint64_t i = 0; i < HALVES; i++) {
			const half h = half_of(t, b, i);
			float *all = gradients + h.all * width, *own = gradients + h.own * width;
			if (p4d_reduce_scatter(h.group, own, all, h.tokens * width, P4D_DT_FP32, err) < 0)
				return -1;
			t->d->copy_rows(t->d, sums + h.first * t->columns + t->q, t->columns * sizeof(*sums),
					own, bytes, bytes, h.tokens);
		}
	return 0;
}

int p4d_attend_gathered(p4d_trainer *t, const p4d_layer *y, p4d_error *err)
{
	const p4d_attention_shape shape =
	    p4d_attention_shape_of(t, P4D_GATHERED_BLOCK, t->l->seq_len, 2 * t->kv);
	void *qkv = y->made[MADE_QKV], *keys = p4d_at(t, B_GATHERED_KEYS_VALUES);

	if (gather(t, keys, qkv, err) < 0)
		return -1;
	t->d->attention(t->d, t->type, y->made[MADE_ATTENTION], y->made[MADE_LSE], qkv, keys,
			p4d_column(keys, t->kv, t->element), &shape, p4d_at(t, B_FORWARD_WORKSPACE));
	return 0;
}

int p4d_attend_gathered_back(p4d_trainer *t, const p4d_layer *y, float *sums, p4d_error *err)
{
	const p4d_attention_shape shape =
	    p4d_gradient_shape_of(t, y, P4D_GATHERED_BLOCK, t->l->seq_len, 2 * t->kv);
	void *qkv = y->made[MADE_QKV], *keys = p4d_at(t, B_GATHERED_BACK_KEYS_VALUES);
	float *gradients = p4d_at(t, B_GATHERED_BACK_GRADIENTS);

	if (gather(t, keys, qkv, err) < 0)
		return -1;
	t->d->zero(t->d, gradients, t->n * t->l->cp * 2 * t->kv * sizeof(*gradients));
	t->d->attention_backward(t->d, t->type, sums, gradients, gradients + t->kv,
				 p4d_at(t, B_ATTENTION_GRADIENT), y->made[MADE_LSE], p4d_at(t, B_ROW_SUMS),
				 qkv, keys, p4d_column(keys, t->kv, t->element), &shape,
				 p4d_at(t, B_BACKWARD_WORKSPACE));
	return scatter(t, gradients, sums, err);
}
