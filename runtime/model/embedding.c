/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding of a micro-batch; its table is sharded over tp or, with vocabulary parallelism, tp and stages. */
#include "model/embedding.h"

#include "model/buffers.h"
#include "model/parallel.h"

int p4d_embedding_forward(p4d_net *m, uint32_t micro_batch, void *to, p4d_error *err)
{
	const p4d_weight *table = p4d_weights__find(&m->weights, P4D_W_EMBEDDING, 0);
	const int32_t *tokens = p4d_buffers__tokens(m, micro_batch, err);

	if (!tokens)
		return -1;
	m->d->embed(m->d, m->type, p4d_parallel__partial(m, to), p4d_buffers__weight(m, P4D_W_EMBEDDING, 0),
		    tokens, m->n, m->h, p4d_weights__table_row(m->l, m->place, table), table->rows);
	return p4d_parallel__reduce_partial(m, to, err);
}

int p4d_embedding_backward(p4d_net *m, uint32_t micro_batch, const void *gradient, p4d_error *err)
{
	const p4d_weight *table = p4d_weights__find(&m->weights, P4D_W_EMBEDDING, 0);

	if (table->frozen)
		return 0;
	const int32_t *tokens = p4d_buffers__tokens(m, micro_batch, err);
	const void *dy =
	    tokens ? p4d_parallel__gather_rows(m, gradient, p4d_buffers_at(m, B_GATHERED_GRADIENT), err)
		   : NULL;

	if (!dy)
		return -1;
	(void)p4d_buffers__has_part(m, P4D_W_EMBEDDING, 0, 0);
	m->d->embed_backward(m->d, m->type, p4d_buffers__gradient(m, P4D_W_EMBEDDING, 0), dy, tokens, m->n,
			     m->h, p4d_weights__table_row(m->l, m->place, table), table->rows);
	return 0;
}
