/* SPDX-License-Identifier: Apache-2.0 */
#include "model/adapters.h"

#include "data/permutation.h"
#include "model/buffers.h"
#include "model/sequence_order.h"

/* An adapter. column: where its linear layer begins in the output of the fused matrix. */
typedef struct adapter {
	p4d_adapted size;
	unsigned number; /* number of the linear layer in p4d_adapted_of */
	uint32_t layer;
	uint64_t column;
	uint64_t first, n; /* first token, and number of tokens */
	const void *a, *b;
	float *a_gradient, *b_gradient;
} adapter;

/*
 * Function that for_each calls for each adapter of a matrix. y: the matrix's output, or that output's
 * gradient.
 */
typedef void using(p4d_net *m, const adapter *of, char *y, uint64_t stride, void *x);

static void for_each(p4d_net *m, p4d_weight_kind kind, uint32_t layer, using *use, void *y, void *x,
		     p4d_token_part part)
{
	const p4d_matrix_layers of = p4d_weights_layers_of(kind);
	uint64_t stride = 0, column = 0;

	for (unsigned i = of.first; i < of.first + of.count; i++)
		stride += p4d_adapted_of(m->l, i).out;
	for (unsigned i = of.first; i < of.first + of.count; i++) {
		const p4d_weight_kind a = p4d_weights_adapter(i, false), b = p4d_weights_adapter(i, true);
		const adapter one = {.size = p4d_adapted_of(m->l, i),
				     .number = i,
				     .layer = layer,
				     .column = column,
				     .first = part.first,
				     .n = part.count,
				     .a = p4d_buffers__weight(m, a, layer),
				     .b = p4d_buffers__weight(m, b, layer),
				     .a_gradient = p4d_buffers__gradient(m, a, layer),
				     .b_gradient = p4d_buffers__gradient(m, b, layer)};
		if (one.a)
			use(m, &one, (char *)y + column * m->element, stride, x);
		column += one.size.out;
	}
}

static void find(p4d_net *m, const adapter *of, char *y, uint64_t stride, void *found)
{
	(void)m, (void)of, (void)y, (void)stride;
	*(bool *)found = true;
}

bool p4d_adapters__has(const p4d_net *m, p4d_weight_kind matrix, uint32_t layer)
{
	bool found = false;

	for_each((p4d_net *)m, matrix, layer, find, NULL, &found, (p4d_token_part){0, m->n});
	return found;
}

/* ---- dropout ---- */

static bool drops(const p4d_net *m)
{
	return m->l->lora.dropout > 0 && !m->evaluating && !m->l->evaluates;
}

static uint64_t key_of(const p4d_net *m, const adapter *of)
{
	const uint64_t step = p4d_mix(p4d_mix(m->set.seed) ^ m->number);

	return p4d_mix(step ^ ((uint64_t)of->layer * P4D_ADAPTED_LAYERS + of->number));
}

static p4d_dropout dropout_of(const p4d_net *m, const adapter *of)
{
	const p4d_layout *l = m->l;
	const uint64_t in = of->size.in, ranks = of->size.split_in ? l->tp : 1;
	const int32_t *positions = p4d_buffers_at(m, B_POSITIONS);

	return (p4d_dropout){.key = key_of(m, of),
			     .first = of->first,
			     .length = m->length,
			     .sequence = (m->micro_batch * l->dp + m->place.dp) * l->micro_batch,
			     .seq_len = l->seq_len,
			     .position = positions + p4d_sequence__own_block(m) * m->length + m->before,
			     .first_column = ranks > 1 ? p4d_place_grid(l, m->place).x * in : 0,
			     .all_columns = ranks * in,
			     .below = (uint32_t)(l->lora.dropout * 4294967296.0),
			     .factor = (float)(1 / (1 - l->lora.dropout))};
}

/* The input of an adapter: x itself or, with dropout, x * mask / (1 - p). */
static const void *input_of(p4d_net *m, const adapter *of, const void *x)
{
	void *kept = p4d_buffers_at(m, B_ADAPTER_INPUT);
	const p4d_dropout dropout = dropout_of(m, of);

	if (!drops(m))
		return x;
	m->d->drop(m->d, m->type, kept, x, &dropout, of->n, of->size.in);
	return kept;
}

/* dx += dy * A, for the elements that were not dropped */
static void add_input_gradient(p4d_net *m, const adapter *of, void *dx, const void *dy)
{
	const uint64_t rank = m->l->lora.rank, in = of->size.in;
	void *all = p4d_buffers_at(m, B_ADAPTER_INPUT);
	const p4d_dropout dropout = dropout_of(m, of);

	if (!drops(m)) {
		m->d->linear_input(m->d, m->type, dx, dy, of->a, of->n, rank, in, true);
		return;
	}
	m->d->linear_input(m->d, m->type, all, dy, of->a, of->n, rank, in, false);
	m->d->drop(m->d, m->type, all, all, &dropout, of->n, in);
	m->d->add(m->d, m->type, dx, dx, all, of->n * in);
}

/* ---- passes ---- */

static void add(p4d_net *m, const adapter *of, char *y, uint64_t stride, void *x)
{
	const uint64_t rank = m->l->lora.rank;
	void *between = p4d_buffers_at(m, B_ADAPTER);

	m->d->linear(m->d, m->type, between, NULL, input_of(m, of, x), of->a, of->n, rank, of->size.in);
	m->d->columns(m->d, m->type, y, stride, between, of->b, of->n, of->size.out, rank,
		      m->set.adapter_scale, true);
}

void p4d_adapters__add(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *y, const void *x,
		       p4d_token_part part)
{
	for_each(m, matrix, layer, add, y, (void *)x, part);
}

/* Replaces x A^T by its gradient. */
static void between_gradient(p4d_net *m, const adapter *of, const char *dy, uint64_t stride)
{
	m->d->columns_input(m->d, m->type, p4d_buffers_at(m, B_ADAPTER), dy, stride, of->b, of->n,
			    of->size.out, m->l->lora.rank, m->set.adapter_scale);
}

static void gradients(p4d_net *m, const adapter *of, char *dy, uint64_t stride, void *x)
{
	const uint64_t rank = m->l->lora.rank;
	void *between = p4d_buffers_at(m, B_ADAPTER);
	const void *kept = input_of(m, of, x);

	m->d->linear(m->d, m->type, between, NULL, kept, of->a, of->n, rank, of->size.in);
	m->d->columns_weight(m->d, m->type, of->b_gradient, dy, stride, between, of->n, of->size.out, rank,
			     m->set.adapter_scale, true);
	between_gradient(m, of, dy, stride);
	m->d->linear_weight(m->d, m->type, of->a_gradient, between, kept, of->n, rank, of->size.in, true);
}

void p4d_adapters__gradients(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, const void *dy,
			     const void *x)
{
	for_each(m, matrix, layer, gradients, (void *)dy, (void *)x, (p4d_token_part){0, m->n});
}

static void input(p4d_net *m, const adapter *of, char *dy, uint64_t stride, void *dx)
{
	between_gradient(m, of, dy, stride);
	add_input_gradient(m, of, dx, p4d_buffers_at(m, B_ADAPTER));
}

void p4d_adapters__input(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *dx, const void *dy,
			 p4d_token_part part)
{
	for_each(m, matrix, layer, input, (void *)dy, dx, part);
}

void p4d_adapters__warm_up(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *any)
{
	const p4d_token_part part = p4d_parallel__part(m, 0);

	for_each(m, matrix, layer, add, any, any, part);
	for_each(m, matrix, layer, gradients, any, any, (p4d_token_part){0, m->n});
	for_each(m, matrix, layer, input, any, any, part);
}
