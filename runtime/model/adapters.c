/* SPDX-License-Identifier: Apache-2.0 */
#include "model/adapters.h"

#include "model/buffers.h"
#include "model/parallel.h"

/* An adapter, and where its layer begins in a row of the matrix's output. */
typedef struct adapter {
	p4d_adapted size;
	uint64_t column, n; /* n: tokens */
	const void *a, *b;
	float *a_gradient, *b_gradient;
} adapter;

/* Calls `use` for each adapter of a matrix. y: its output, or the gradient of that. */
typedef void using(p4d_net *m, const adapter *of, char *y, uint64_t stride, void *x);

static void for_each(p4d_net *m, p4d_weight_kind kind, uint32_t layer, using *use, void *y, void *x,
		     uint64_t n)
{
	const p4d_matrix_layers of = p4d_weights_layers_of(kind);
	uint64_t stride = 0, column = 0;

	for (unsigned i = of.first; i < of.first + of.count; i++)
		stride += p4d_adapted_of(m->l, i).out;
	for (unsigned i = of.first; i < of.first + of.count; i++) {
		const p4d_weight_kind a = p4d_weights_adapter(i, false), b = p4d_weights_adapter(i, true);
		const adapter one = {.size = p4d_adapted_of(m->l, i),
				     .column = column,
				     .n = n,
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

	for_each((p4d_net *)m, matrix, layer, find, NULL, &found, m->n);
	return found;
}

static void add(p4d_net *m, const adapter *of, char *y, uint64_t stride, void *x)
{
	const uint64_t rank = m->l->lora.rank;
	void *between = p4d_buffers_at(m, B_ADAPTER);

	m->d->linear(m->d, m->type, between, NULL, x, of->a, of->n, rank, of->size.in);
	m->d->columns(m->d, m->type, y, stride, between, of->b, of->n, of->size.out, rank,
		      m->set.adapter_scale, true);
}

void p4d_adapters__add(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *y, const void *x, uint64_t n)
{
	for_each(m, matrix, layer, add, y, (void *)x, n);
}

/* The gradient of x A^T, in its place. */
static void between_gradient(p4d_net *m, const adapter *of, const char *dy, uint64_t stride)
{
	m->d->columns_input(m->d, m->type, p4d_buffers_at(m, B_ADAPTER), dy, stride, of->b, of->n,
			    of->size.out, m->l->lora.rank, m->set.adapter_scale);
}

static void gradients(p4d_net *m, const adapter *of, char *dy, uint64_t stride, void *x)
{
	const uint64_t rank = m->l->lora.rank;
	void *between = p4d_buffers_at(m, B_ADAPTER);

	m->d->linear(m->d, m->type, between, NULL, x, of->a, of->n, rank, of->size.in);
	m->d->columns_weight(m->d, m->type, of->b_gradient, dy, stride, between, of->n, of->size.out, rank,
			     m->set.adapter_scale, true);
	between_gradient(m, of, dy, stride);
	m->d->linear_weight(m->d, m->type, of->a_gradient, between, x, of->n, rank, of->size.in, true);
}

void p4d_adapters__gradients(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, const void *dy,
			     const void *x)
{
	for_each(m, matrix, layer, gradients, (void *)dy, (void *)x, m->n);
}

static void input(p4d_net *m, const adapter *of, char *dy, uint64_t stride, void *dx)
{
	between_gradient(m, of, dy, stride);
	m->d->linear_input(m->d, m->type, dx, p4d_buffers_at(m, B_ADAPTER), of->a, of->n, m->l->lora.rank,
			   of->size.in, true);
}

void p4d_adapters__input(p4d_net *m, p4d_weight_kind matrix, uint32_t layer, void *dx, const void *dy,
			 uint64_t n)
{
	for_each(m, matrix, layer, input, (void *)dy, dx, n);
}

void p4d_adapters__warm_up(p4d_net *m, p4d_weight_kind matrix, uint32_t layer)
{
	const uint64_t n = p4d_parallel__part(m, 0).count;

	for_each(m, matrix, layer, add, m->arena, m->arena, n);
	for_each(m, matrix, layer, gradients, m->arena, m->arena, m->n);
	for_each(m, matrix, layer, input, m->arena, m->arena, n);
}
