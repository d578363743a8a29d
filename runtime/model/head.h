/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Final norm, logits and cross-entropy (head.c). If the vocabulary is sharded over all stages: vocabulary.c.
 */

/*
 * Computes the loss of the hidden state in a slot. Except in evaluation, it also stores that state's gradient
 * in B_HIDDEN.
 */
int p4d_head_loss(p4d_net *m, uint32_t micro_batch, uint32_t slot, p4d_error *err);
int p4d_head_norm(p4d_net *m, uint32_t slot, void *to, p4d_error *err);
int p4d_head_norm_backward(p4d_net *m, uint32_t slot, const void *gradient, p4d_error *err);

int p4d_vocabulary_pass(p4d_net *m, const p4d_instruction *in, p4d_error *err);
/*
 * Work for p4d_head__chunks. For each chunk of the tokens x (n, h) it computes logits, the softmax sums
 * (merged over `group`), and the wanted results. softmax (3, n): maximum, sum and target of each token.
 */
typedef struct p4d_head_work {
	const void *x;
	const int32_t *labels;
	float *softmax;
	p4d_group *group;
	bool merge;           /* compute the softmax sums; false: earlier work has computed them */
	bool count;           /* add to the loss */
	bool input, weight;   /* gradients to compute: of x, of the table */
	const float *factors; /* (n), by which gradients of tokens are multiplied; NULL: by 1 */
	void *input_gradient; /* (n, h); scratch memory if it is not wanted */
} p4d_head_work;
/* Logits (vocab) on the host for the single token in slot 0; the same on all ranks. */
int p4d_head__logits(p4d_net *m, float *logits, p4d_error *err);
int p4d_head__chunks(p4d_net *m, uint32_t micro_batch, const p4d_head_work *work, p4d_error *err);

void p4d_head__warm_up(p4d_net *m, void *at);
