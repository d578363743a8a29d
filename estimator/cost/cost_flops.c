/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of a step: what the model needs, and what the hardware executes. */
#include "cost/cost_internal.h"

static double query_width(const p4d_layout *l)
{
	return (double)l->heads * (double)l->head_dim;
}

static double up_matrices(const p4d_layout *l)
{
	return (l->glu ? 2.0 : 1.0) * (double)l->hidden * (double)l->ffn;
}

double p4d_cost__layer_matrices(const p4d_layout *l)
{
	double A = query_width(l), G = (double)l->kv_heads * (double)l->head_dim, h = (double)l->hidden;

	return h * (A + 2 * G) + A * h + up_matrices(l) + (double)l->ffn * h;
}

static double tokens(const p4d_layout *l)
{
	return (double)l->global_batch * (double)l->seq_len;
}

double p4d_cost_model_flops(const p4d_layout *l)
{
	double L = (double)l->layers, s = (double)l->seq_len;
	double matrices = L * p4d_cost__layer_matrices(l) + (double)l->vocab * (double)l->hidden;

	return tokens(l) * (6 * matrices + 6 * L * query_width(l) * s);
}

double p4d_cost__recomputed_share(const p4d_layout *l)
{
	const double chunk = (double)l->layers / (double)(l->pp * l->vpp), n = (double)l->recompute_layers;

	return l->recompute_block && n < chunk ? n / chunk : 1;
}

/* Per token and layer: what the backward pass recomputes. */
static double recomputed_flops(const p4d_layout *l)
{
	double scores = 4 * query_width(l) * (double)l->seq_len;
	const p4d_framework_cost *framework = &p4d_framework_of(l->framework)->cost;

	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		return p4d_cost__recomputed_share(l) * (2 * p4d_cost__layer_matrices(l) + scores);
	case P4D_RECOMPUTE_MLP:
		return 2 * (up_matrices(l) +
			    (framework->recomputes_whole_mlp ? (double)l->ffn * (double)l->hidden : 0));
	case P4D_RECOMPUTE_SELECTIVE:
		return framework->recomputes_attention ? scores : 0;
	default:
		return 0;
	}
}

double p4d_cost_hardware_flops(const p4d_layout *l)
{
	double L = (double)l->layers, s = (double)l->seq_len, table = (double)l->vocab * (double)l->hidden;
	/* the gradient pass of vocabulary parallelism recomputes its logits */
	double head = (l->vocab_parallel ? 8 : 6) * table;

	return tokens(l) *
	       (L * (6 * p4d_cost__layer_matrices(l) + 12 * query_width(l) * s + recomputed_flops(l)) + head);
}
