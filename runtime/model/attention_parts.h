/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_ATTENTION_PARTS_H
#define P4D_ATTENTION_PARTS_H

#include "trainer/trainer_parts.h"

/* What the ways to a rank's attention over all keys of the sequence share. */

/*
 * Queries of this rank, `keys` keys of each sequence, whose rows are key_stride elements apart. block: of
 * these keys, as sequence_order.c has them.
 */
p4d_attention_shape p4d_attention_shape_of(const p4d_trainer *t, uint32_t block, uint64_t keys,
					   uint64_t key_stride);
/* The same for gradients, of a layer whose output is there. */
p4d_attention_shape p4d_gradient_shape_of(const p4d_trainer *t, const p4d_layer *y, uint32_t block,
					  uint64_t keys, uint64_t key_stride);

/* Column `at` of a matrix. */
static inline char *p4d_column(void *matrix, uint64_t at, uint64_t element)
{
	return (char *)matrix + at * element;
}

/* This rank's tokens first .. first+count-1 of qkv: keys and values, its last columns, side by side. */
void p4d_take_keys_values(p4d_trainer *t, void *to, void *qkv, uint64_t first, uint64_t count);

/*
 * With cp > 1, forward: qkv to output and lse of the layer. Back: sums (n, columns) fp32, zero before,
 * becomes the gradient of qkv. attention_ring.c, attention_gather.c.
 */
int p4d_attend_ring(p4d_trainer *t, const p4d_layer *y, p4d_error *err);
int p4d_attend_ring_back(p4d_trainer *t, const p4d_layer *y, float *sums, p4d_error *err);
int p4d_attend_gathered(p4d_trainer *t, const p4d_layer *y, p4d_error *err);
int p4d_attend_gathered_back(p4d_trainer *t, const p4d_layer *y, float *sums, p4d_error *err);

#endif
