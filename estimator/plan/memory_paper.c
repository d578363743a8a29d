/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closed form of arXiv 2411.06465 (Fujii, Watanabe, Yokota): parameters and activations of the first
 * pipeline stage, compared with 80 % of the nominal memory. Kept as published, for comparison and for sites
 * that trust it.
 */
#include "plan/memory_paper.h"

static p4d_wide rounded(double bytes)
{
	/* inputs are bounded, so the number is far below 2^127 */
	return (p4d_wide)(bytes + 0.5);
}

void p4d_memory__paper(const p4d_layout *l, p4d_wide part[P4D_PART_COUNT])
{
	double h = (double)l->hidden, f = (double)l->ffn, a = (double)l->heads, k = (double)l->kv_heads;
	double V = (double)l->vocab, L = (double)l->layers, s = (double)l->seq_len,
	       b = (double)l->micro_batch;
	double t = (double)l->tp, c = (double)l->cp, p = (double)l->pp, D = (double)l->dp;

	double tables = p == 1 && !l->tied ? 2 * h * V / t : h * V / t;
	double N = tables + 2 * L / p * h * h * ((1 + k / a + 1.5 * f / h) / t + 1 / h);
	double last = p == 1 ? 4 * (1 + V / h) : 0;
	double activations = s * b * h / (t * c) * ((12 + 4 * k / a + 8 * f / h) * L + 8 * p / h + last);

	part[P4D_PART_PARAMS] = rounded(2 * N);
	part[P4D_PART_GRADS] = rounded(4 * N);
	part[P4D_PART_OPTIMIZER] = rounded(12 * N / (l->optimizer_sharding ? D * c : 1));
	part[P4D_PART_ACTIVATIONS] = rounded(activations);
}
