/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the embedding of a micro-batch. Its table is sharded over tp or, with vocabulary parallelism, over
 * tp and stages.
 */
#include "model/embedding.h"

#include "model/buffers.h"
#include "model/parallel.h"
#include "model/sequence_order.h"

int p4d_embedding__rows(p4d_net *m, uint32_t micro_batch, void *to, p4d_error *err)
{
	const p4d_weight *table = p4d_weights__find(&m->weights, P4D_W_EMBEDDING, 0);
	const int32_t *tokens = p4d_buffers__tokens(m, micro_batch, err);

	if (!tokens)
		return -1;
	m->d->embed(m->d, m->type, p4d_parallel__partial(m, to), p4d_buffers__weight(m, P4D_W_EMBEDDING, 0),
		    tokens, m->n, m->h, p4d_weights__table_row(m->l, m->place, table), table->rows);
	return p4d_parallel__reduce_partial(m, to, err);
}

int p4d_embedding__rows_back(p4d_net *m, uint32_t micro_batch, const void *gradient, p4d_error *err)
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

/*
 * Function that for_each_run calls for each run of this rank's rows whose tokens are consecutive in one
 * sequence.
 */
typedef void using(p4d_net *m, char *rows, const int32_t *positions, uint64_t count);

static void for_each_run(p4d_net *m, char *rows, using *use)
{
	const int32_t *own = (const int32_t *)p4d_buffers_at(m, B_POSITIONS) +
			     p4d_sequence__own_block(m) * m->length + m->before;
	const int32_t *in_documents = p4d_sequence__places(m);
	const uint64_t each = m->ns / m->parts, end = m->ns;

	for (uint64_t row = 0, count; row < end; row += count) {
		const uint64_t inside = row % each,
			       before = m->l->sequence_parallel ? p4d_place_grid(m->l, m->place).x * each : 0;
		const uint64_t first = p4d_parallel__part(m, (unsigned)(row / each)).first;
		const uint64_t token = first + before + inside, at = token % m->length;
		count = m->length - at < each - inside ? m->length - at : each - inside;
		use(m, rows + row * m->h * m->element, in_documents ? in_documents + token : own + at, count);
	}
}

static void take_positions(p4d_net *m, char *rows, const int32_t *positions, uint64_t count)
{
	m->d->embed(m->d, m->type, rows, p4d_buffers__weight(m, P4D_W_POSITIONS, 0), positions, count, m->h,
		    0, m->l->positions);
}

static void give_positions(p4d_net *m, char *rows, const int32_t *positions, uint64_t count)
{
	m->d->embed_backward(m->d, m->type, p4d_buffers__gradient(m, P4D_W_POSITIONS, 0), rows, positions,
			     count, m->h, 0, m->l->positions);
}

static void scale(p4d_net *m, void *rows)
{
	const float factor = (float)m->l->factor.embedding;

	if (p4d_scales(factor))
		m->d->scale(m->d, m->type, rows, factor, m->ns * m->h);
}

void p4d_embedding__finish(p4d_net *m, void *rows)
{
	void *positions = p4d_buffers_at(m, B_NORM_OUT);

	scale(m, rows);
	if (!m->l->positions)
		return;
	for_each_run(m, positions, take_positions);
	m->d->add(m->d, m->type, rows, rows, positions, m->ns * m->h);
}

void p4d_embedding_finish_back(p4d_net *m, void *gradient)
{
	if (p4d_buffers__gradient(m, P4D_W_POSITIONS, 0)) /* there is no gradient if the table is frozen */
		for_each_run(m, gradient, give_positions);
	scale(m, gradient);
}

int p4d_embedding_forward(p4d_net *m, uint32_t micro_batch, void *to, p4d_error *err)
{
	if (p4d_embedding__rows(m, micro_batch, to, err) < 0)
		return -1;
	p4d_embedding__finish(m, to);
	return 0;
}

int p4d_embedding_backward(p4d_net *m, uint32_t micro_batch, void *gradient, p4d_error *err)
{
	if (p4d_weights__find(&m->weights, P4D_W_EMBEDDING, 0)->frozen)
		return 0;
	p4d_embedding_finish_back(m, gradient);
	return p4d_embedding__rows_back(m, micro_batch, gradient, err);
}
