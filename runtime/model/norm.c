/* SPDX-License-Identifier: Apache-2.0 */
#include "model/norm.h"

#include "model/buffers.h"

/* The number that the norm adds to its weights (1 for unit norms, else 0). */
static float plus(const p4d_net *m)
{
	return m->l->architecture->unit_norms ? 1 : 0;
}

/* Sums a number for each row over the ranks of Y, each of which has some of the row's features. */
static int sum_rows(p4d_net *m, float *sums, p4d_error *err)
{
	return p4d_comm_all_reduce(m->tp_y, sums, m->ns, P4D_DT_FP32, P4D_SUM, err);
}

static int split_forward(p4d_net *m, const void *weight, void *y, float *rstd, const void *x, p4d_error *err)
{
	m->d->row_dots(m->d, m->type, rstd, x, x, NULL, m->ns, m->h, 1);
	if (sum_rows(m, rstd, err) < 0)
		return -1;
	m->d->split_norm(m->d, m->type, y, rstd, x, weight, m->ns, m->h, m->l->hidden, m->set.norm_epsilon,
			 plus(m));
	return 0;
}

static int split_backward(p4d_net *m, const void *weight, float *dweight, void *dx, const void *dy,
			  const void *x, const float *rstd, p4d_error *err)
{
	float *dots = p4d_buffers_at(m, B_NORM_DOTS);

	m->d->row_dots(m->d, m->type, dots, dy, x, weight, m->ns, m->h, plus(m));
	if (sum_rows(m, dots, err) < 0)
		return -1;
	m->d->split_norm_backward(m->d, m->type, dx, dweight, dy, x, weight, rstd, dots, m->ns, m->h,
				  m->l->hidden, plus(m));
	return 0;
}

int p4d_norm__forward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *y, float *statistics,
		      const void *x, p4d_error *err)
{
	const void *weight = p4d_buffers__weight(m, norm, layer);
	const float epsilon = m->set.norm_epsilon;

	if (m->tp_y)
		return split_forward(m, weight, y, statistics, x, err);
	if (m->l->norm_tensors > 1)
		m->d->layer_norm(m->d, m->type, y, statistics, x, weight,
				 p4d_buffers__weight(m, p4d_weights__bias_of(norm), layer), m->ns, m->h,
				 epsilon);
	else if (m->l->architecture->unit_norms)
		m->d->unit_norm(m->d, m->type, y, statistics, x, weight, m->ns, m->h, epsilon);
	else
		m->d->norm(m->d, m->type, y, statistics, x, weight, m->ns, m->h, epsilon);
	return 0;
}

int p4d_norm__backward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *dx, const void *dy,
		       const void *x, const float *statistics, p4d_error *err)
{
	const void *weight = p4d_buffers__weight(m, norm, layer);
	float *dweight = p4d_buffers__gradient(m, norm, layer);

	if (m->tp_y)
		return split_backward(m, weight, dweight, dx, dy, x, statistics, err);
	if (m->l->norm_tensors > 1)
		m->d->layer_norm_backward(m->d, m->type, dx, dweight,
					  p4d_buffers__gradient(m, p4d_weights__bias_of(norm), layer), dy, x,
					  weight, statistics, m->ns, m->h);
	else if (m->l->architecture->unit_norms)
		m->d->unit_norm_backward(m->d, m->type, dx, dweight, dy, x, weight, statistics, m->ns, m->h);
	else
		m->d->norm_backward(m->d, m->type, dx, dweight, dy, x, weight, statistics, m->ns, m->h);
	return 0;
}
