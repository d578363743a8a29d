/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding of a micro-batch, its table cut over tp or, with vocabulary parallelism, over tp and stages.
 */
#include "trainer/trainer_parts.h"

int p4d_embed(p4d_trainer *t, uint32_t micro_batch, void *to, p4d_error *err)
{
	const p4d_weight *table = p4d_weight_find(&t->weights, P4D_W_EMBEDDING, 0);
	const int32_t *tokens = p4d_tokens_of(t, micro_batch, err);

	if (!tokens)
		return -1;
	t->d->embed(t->d, t->type, p4d_terms(t, to), p4d_weight_of(t, P4D_W_EMBEDDING, 0), tokens, t->n, t->h,
		    p4d_table_row(t->l, t->place, table), table->rows);
	return p4d_add_terms(t, to, err);
}

int p4d_embed_back(p4d_trainer *t, uint32_t micro_batch, const void *gradient, p4d_error *err)
{
	const p4d_weight *table = p4d_weight_find(&t->weights, P4D_W_EMBEDDING, 0);
	const int32_t *tokens = p4d_tokens_of(t, micro_batch, err);
	const void *dy = tokens ? p4d_gather_rows(t, gradient, p4d_at(t, B_GATHERED_GRADIENT), err) : NULL;

	if (!dy)
		return -1;
	t->d->embed_backward(t->d, t->type, p4d_gradient_of(t, P4D_W_EMBEDDING, 0), dy, tokens, t->n, t->h,
			     p4d_table_row(t->l, t->place, table), table->rows);
	return 0;
}
