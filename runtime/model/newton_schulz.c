/* SPDX-License-Identifier: Apache-2.0 */
#include "model/newton_schulz.h"

#include "model/buffers.h"
#include "plan/muon.h"

/* A matrix (rows, columns), and its Gram matrix (side, side). */
typedef struct gram_shape {
	uint64_t rows, columns, side;
	bool by_columns;
} gram_shape;

static gram_shape shape_of(const p4d_net *m, const p4d_adapted *matrix)
{
	const bool by_columns = p4d_muon_by_columns(m->l, matrix);

	return (gram_shape){matrix->out, matrix->in, by_columns ? matrix->in : matrix->out, by_columns};
}

/* Address of the first or second buffer of a pair. */
static void *half_of(const p4d_net *m, p4d_buffer pair, unsigned number)
{
	return (char *)p4d_buffers_at(m, pair) + number * (m->row[pair]->bytes / 2);
}

static int sum(p4d_net *m, void *numbers, uint64_t count, p4d_dtype type, p4d_error *err)
{
	if (m->l->tp == 1)
		return 0;
	if (p4d_comm_all_reduce(m->tp, numbers, count, type, P4D_SUM, err) < 0)
		return -1;
	return p4d_comm_settle(m->tp, err);
}

/* Computes the Gram matrix of x. sums: fp32 scratch memory, used only for X^T X. */
static void multiply_gram(p4d_net *m, const gram_shape *s, void *gram, float *sums, const void *x)
{
	if (s->by_columns)
		m->d->linear_weight(m->d, m->type, sums, x, x, s->rows, s->columns, s->columns, false);
	else
		m->d->linear(m->d, m->type, gram, NULL, x, x, s->rows, s->rows, s->columns);
}

static int find_gram(p4d_net *m, const gram_shape *s, void *gram, const void *x, p4d_error *err)
{
	float *const sums = m->row[B_MUON_SUMS] ? p4d_buffers_at(m, B_MUON_SUMS) : gram;
	const uint64_t count = s->side * s->side;

	multiply_gram(m, s, gram, sums, x);
	if (!s->by_columns)
		return sum(m, gram, count, m->type, err);
	if (sum(m, sums, count, P4D_DT_FP32, err) < 0)
		return -1;
	if ((void *)sums != gram)
		m->d->cast(m->d, m->type, gram, P4D_DT_FP32, sums, count);
	return 0;
}

/* Computes y = polynomial * x, or x * polynomial if the Gram matrix is X^T X. */
static void apply(p4d_net *m, const gram_shape *s, void *y, const void *polynomial, const void *x)
{
	if (s->by_columns)
		m->d->linear(m->d, m->type, y, NULL, x, polynomial, s->rows, s->columns, s->columns);
	else
		m->d->linear_input(m->d, m->type, y, polynomial, x, s->rows, s->rows, s->columns, false);
}

static int iterate(p4d_net *m, const gram_shape *s, void *y, const void *x, p4d_error *err)
{
	void *const gram = half_of(m, B_MUON_GRAMS, 0), *const square = half_of(m, B_MUON_GRAMS, 1);

	if (find_gram(m, s, gram, x, err) < 0)
		return -1;
	m->d->linear(m->d, m->type, square, NULL, gram, gram, s->side, s->side, s->side);
	m->d->muon_polynomial(m->d, m->type, square, gram, s->side);
	apply(m, s, y, square, x);
	return 0;
}

const void *p4d_newton_schulz(p4d_net *m, const p4d_adapted *matrix, const float *gradient, p4d_error *err)
{
	const gram_shape s = shape_of(m, matrix);
	p4d_scalars *scalars = p4d_buffers_at(m, B_SCALARS);
	void *x = half_of(m, B_MUON_MATRICES, 0), *y = half_of(m, B_MUON_MATRICES, 1);

	m->d->zero(m->d, &scalars->matrix, sizeof(scalars->matrix));
	m->d->sum_squares(m->d, &scalars->matrix, gradient, s.rows * s.columns);
	if (sum(m, &scalars->matrix, 1, P4D_DT_FP64, err) < 0)
		return NULL;
	m->d->muon_begin(m->d, m->type, x, gradient, &scalars->matrix, s.rows * s.columns);
	for (int i = 0; i < P4D_MUON_STEPS; i++) {
		if (iterate(m, &s, y, x, err) < 0)
			return NULL;
		void *const last = x;
		x = y;
		y = last;
	}
	return x;
}

void p4d_newton_schulz__warm_up(p4d_net *m, void *any)
{
	for (unsigned i = 0; m->row[B_MUON_GRAMS] && i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted matrix = p4d_adapted_of(m->l, i);
		const gram_shape s = shape_of(m, &matrix);
		if (!matrix.out)
			continue;
		multiply_gram(m, &s, any, any, any);
		m->d->linear(m->d, m->type, any, NULL, any, any, s.side, s.side, s.side);
		apply(m, &s, any, any, any);
	}
}
