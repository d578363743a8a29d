/* SPDX-License-Identifier: Apache-2.0 */
#include "model/norm.h"

#include "model/buffers.h"

void p4d_norm__forward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *y, float *statistics,
		       const void *x)
{
	const void *weight = p4d_buffers__weight(m, norm, layer);
	const float epsilon = m->set.norm_epsilon;

	if (m->l->norm_tensors > 1)
		m->d->layer_norm(m->d, m->type, y, statistics, x, weight,
				 p4d_buffers__weight(m, p4d_weights__bias_of(norm), layer), m->ns, m->h,
				 epsilon);
	else if (m->l->architecture->unit_norms)
		m->d->unit_norm(m->d, m->type, y, statistics, x, weight, m->ns, m->h, epsilon);
	else
		m->d->norm(m->d, m->type, y, statistics, x, weight, m->ns, m->h, epsilon);
}

void p4d_norm__backward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *dx, const void *dy,
			const void *x, const float *statistics)
{
	const void *weight = p4d_buffers__weight(m, norm, layer);
	float *dweight = p4d_buffers__gradient(m, norm, layer);

	if (m->l->norm_tensors > 1)
		m->d->layer_norm_backward(m->d, m->type, dx, dweight,
					  p4d_buffers__gradient(m, p4d_weights__bias_of(norm), layer), dy, x,
					  weight, statistics, m->ns, m->h);
	else if (m->l->architecture->unit_norms)
		m->d->unit_norm_backward(m->d, m->type, dx, dweight, dy, x, weight, statistics, m->ns, m->h);
	else
		m->d->norm_backward(m->d, m->type, dx, dweight, dy, x, weight, statistics, m->ns, m->h);
}
