/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of Muon's Newton-Schulz iterations (plan/muon.h). */
#include "cost/cost_internal.h"
#include "plan/muon.h"
#include "plan/parameters.h"

/* Seconds of an iteration's matmuls and of its polynomial. element: bytes per element. */
static double products_seconds(const p4d_cost_rates *r, double element, double rows, double columns,
			       double side)
{
	const double depth = rows * columns / side;

	return p4d_cost__gemm_seconds(r, 1, side, side, depth, element) +
	       p4d_cost__gemm_seconds(r, 1, side, side, side, element) +
	       p4d_cost__gemm_seconds(r, 1, depth, side, side, element) + 3 * element * side * side * r->hbm;
}

/* Seconds to sum Gram matrices over tensor-parallel ranks, which nothing hides. */
static double sums_seconds(const p4d_layout *l, const p4d_cost_rates *r, double bytes)
{
	return 2 * p4d_cost__gather_seconds(r, p4d_cost__ring_of(l, l->tp, 1), bytes);
}

static double matrix_seconds(const p4d_layout *l, const p4d_cost_rates *r, const p4d_adapted *m)
{
	const bool by_columns = p4d_muon_by_columns(l, m);
	const double element = r->element, rows = (double)m->out, columns = (double)m->in,
		     side = by_columns ? columns : rows;
	/* the normalized matrix is written before the iterations; the result is read for the update */
	const double around = (4 + 2 * element) * rows * columns * r->hbm;

	return around + P4D_MUON_STEPS * (products_seconds(r, element, rows, columns, side) +
					  sums_seconds(l, r, (by_columns ? 4 : element) * side * side));
}

double p4d_cost__muon_seconds(const p4d_layout *l, const p4d_cost_rates *r)
{
	const double shards = (double)p4d_optimizer_shards(l),
		     elements = p4d_cost__layer_matrices(l) / (double)l->tp;
	double sum = 0;

	if (l->optimizer != P4D_MUON || !p4d_framework_of(l->framework)->cost.orthogonalizes)
		return 0;
	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted m = p4d_adapted_of(l, i);
		/* probability that a rank's shard of the layer has a part of the matrix */
		const double part = 1 / shards + (double)(m.in * m.out) / elements;
		sum += m.out ? P4D_LEAST(part, 1.0) * matrix_seconds(l, r, &m) : 0;
	}
	if (shards > 1) /* the gathered directions of the update, in fp32 */
		sum += p4d_cost__gather_seconds(
		    r, p4d_cost__ring_of(l, p4d_optimizer_shards(l), p4d_tp_ranks(l)), 4 * elements);
	return sum;
}
