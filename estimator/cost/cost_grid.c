/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallelism in two and three dimensions (--tp-grid, arXiv 2305.13525). X splits heads and columns of
 * the feed-forward part, Y the hidden features, Z the rows of a layer's matrices. cost_layer.c has the sums
 * over X: they are those of one-dimensional tensor parallelism, on the hidden features that a rank of Y has.
 * This file has the costs of Y and Z. Over Y, ranks sum the results of matmuls over a part of the features;
 * nothing hides these sums. Over Z, ranks gather matrices and sum their gradients one layer ahead of the
 * passes. These collectives overlap with matmuls and other kernels, but not with other collectives, which use
 * the same links.
 */
#include "cost/cost_internal.h"
#include "plan/parameters.h"

static p4d_cost_ring ring_of_y(const p4d_layout *l)
{
	return p4d_cost__ring_of(l, l->tp_y, l->tp);
}

static p4d_cost_ring ring_of_z(const p4d_layout *l)
{
	return p4d_cost__ring_of(l, l->tp_z, l->tp * l->tp_y);
}

double p4d_cost__features_seconds(const p4d_layout *l, const p4d_cost_rates *r, double bytes)
{
	return 2 * p4d_cost__gather_seconds(r, ring_of_y(l), bytes);
}

/*
 * Adds the sums over Y: in both blocks of a layer, in each direction; and, for each row of a norm, the sum of
 * squares or of products.
 */
static void features(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, p4d_cost_part *y)
{
	const double e = r->element, n = z->n;
	const double norms = 2 * p4d_cost__features_seconds(l, r, 4 * z->residual / z->h);

	y->forward.tensor_comm += norms + p4d_cost__features_seconds(l, r, e * n * (z->A + 2 * z->G)) +
				  p4d_cost__features_seconds(l, r, e * n * z->up);
	y->backward_input.tensor_comm += norms + p4d_cost__features_seconds(l, r, e * n * z->A) +
					 p4d_cost__features_seconds(l, r, e * n * z->f);
}

/* The part of a collective's time that a concurrent pass does not hide. */
static double seen(double collective, const p4d_cost_share *pass)
{
	const double hides = p4d_cost_share_seconds(pass) - pass->tensor_comm - pass->context_comm;

	return collective > hides ? collective - hides : 0;
}

static void depth(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	const p4d_rank_sizes sizes = p4d_rank_sizes_of(l);
	const double elements = (double)p4d_layer_matrices(&sizes), sums = 4 * elements;
	const double gather = p4d_cost__gather_seconds(r, ring_of_z(l), r->element * elements),
		     reduce = p4d_cost__gather_seconds(r, ring_of_z(l), sums);
	p4d_cost_share back = y->backward_input;

	p4d_cost_share_add(&back, &y->backward_weight, 1);
	y->forward.tensor_comm += seen(gather, &y->forward);
	y->backward_input.tensor_comm += seen(gather + reduce, &back);
	/* the summed gradients are added to the gradient of this rank's rows */
	y->backward_input.memory_bound += p4d_cost__memory_seconds(r, 3 * sums / (double)l->tp_z);
}

void p4d_cost__grid(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, p4d_cost_part *y)
{
	if (l->tp_y > 1)
		features(l, r, z, y);
	if (l->tp_z > 1)
		depth(l, r, y);
}

double p4d_cost__tables_seconds(const p4d_layout *l, const p4d_cost_rates *r, double elements)
{
	return 2 * p4d_cost__gather_seconds(r, ring_of_z(l), 4 * elements);
}
