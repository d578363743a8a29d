/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded parameters and gradients: the time of gathers and reductions that does not overlap with passes. */
#include "cost/cost_internal.h"
#include "plan/offload.h"
#include "plan/parameters.h"
#include "request/framework.h"

bool p4d_cost__gathers_for_passes(const p4d_layout *l)
{
	return p4d_framework_of(l->framework)->plans_transfers ? p4d_windows_parameters(l)
							       : l->zero_stage > 2 && l->pp == 1;
}

bool p4d_cost__reduces_for_passes(const p4d_layout *l)
{
	return p4d_framework_of(l->framework)->plans_transfers ? p4d_shards_gradients(l)
							       : p4d_cost__gathers_for_passes(l);
}

bool p4d_cost__adds_copies_once(const p4d_layout *l)
{
	return p4d_framework_of(l->framework)->plans_transfers;
}

double p4d_cost__gradient_bytes(const p4d_layout *l)
{
	return l->grad_dtype == P4D_GRAD_FP32 ? 4 : 2;
}

/*
 * A group of parameters that is gathered and reduced together: its number of elements, the ranks that share
 * it, and the distance `apart` between two of these ranks.
 */
typedef struct sharded_group {
	double elements;
	uint64_t shards, apart;
} sharded_group;

static double gather_seconds(const p4d_layout *l, const p4d_cost_rates *r, sharded_group g)
{
	const double bytes = r->element * g.elements;

	if (!p4d_cost__gathers_for_passes(l))
		return 0;
	return p4d_cost__gather_seconds(r, p4d_cost__ring_of(l, g.shards, g.apart), bytes) +
	       (p4d_streams_parameters(l) ? bytes / (double)g.shards * r->lift : 0);
}

/*
 * Seconds to reduce gradients over the ranks of the group, and then each rank's shard over the replicas of
 * the model.
 */
static double reduce_seconds(const p4d_layout *l, const p4d_cost_rates *r, sharded_group g)
{
	const uint64_t shards = p4d_optimizer_shards(l),
		       copies = p4d_cost__adds_copies_once(l) ? 1 : l->dp * l->cp / shards;
	const double bytes = p4d_cost__gradient_bytes(l) * g.elements;
	const p4d_cost_ring group = p4d_cost__ring_of(l, g.shards, g.apart),
			    others = p4d_cost__ring_of(l, copies, l->tp * shards);

	return p4d_cost__gather_seconds(r, group, bytes) +
	       2 * p4d_cost__gather_seconds(r, others, bytes / (double)g.shards);
}

/*
 * For a layer whose parameters form two groups; the second may be empty. Extends its passes by the
 * communication that they do not hide. Without overlap_dp this is all communication. Returns the seconds that
 * were added.
 */
static double hidden_behind(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_passes *layer,
			    sharded_group first, sharded_group second)
{
	double gather = gather_seconds(l, r, first), reduce = reduce_seconds(l, r, first);

	if (second.elements > 0) {
		gather += gather_seconds(l, r, second);
		reduce += reduce_seconds(l, r, second);
	}
	const double hides = l->overlap_dp ? 1 : 0, forward = gather - hides * layer->forward,
		     backward = gather + reduce - hides * (layer->input + layer->weight);
	const double seen[2] = {forward > 0 ? forward : 0, backward > 0 ? backward : 0};
	const double lost[2] = {p4d_cost__beside_seconds(l, r, gather - seen[0]),
				p4d_cost__beside_seconds(l, r, gather + reduce - seen[1])};

	layer->forward += seen[0] + lost[0];
	layer->input += seen[1] + lost[1];
	return seen[0] + lost[0] + seen[1] + lost[1];
}

/*
 * Like hidden_behind, for p4d-train's layers. In schedules with a split backward pass, each half reduces the
 * layer's gradients, and the second half needs the parameters again, for norms and adapters. With adapters,
 * only these have gradients.
 */
static double hidden_behind_halves(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_passes *layer,
				   sharded_group g)
{
	const double gather = gather_seconds(l, r, g) * p4d_offload_misses(l);
	double exposed[3] = {gather - layer->forward};

	if (p4d_cost__freezes(l))
		g.elements = p4d_cost__adapters(l) / (double)l->tp;
	const double reduce = p4d_cost__reduces_for_passes(l) ? reduce_seconds(l, r, g) : 0;
	const bool halves = p4d_is_split(l->schedule) && l->recompute != P4D_RECOMPUTE_FULL;
	const bool reads =
	    p4d_cost__freezes(l) || l->recompute != P4D_RECOMPUTE_KEEP || p4d_fp8_keeps_norms(l);
	const double again = reads ? gather : 0;
	exposed[1] = gather + reduce - layer->input - (halves ? 0 : layer->weight);
	exposed[2] = halves ? reduce + again - layer->weight : 0;
	for (int i = 0; i < 3; i++)
		exposed[i] = exposed[i] > 0 ? exposed[i] : 0;
	layer->forward += exposed[0];
	layer->input += exposed[1];
	layer->weight += exposed[2];
	return exposed[0] + exposed[1] + exposed[2];
}

/*
 * Seconds to gather or reduce, in bf16, the columns of memory layers' values over the ranks that have the
 * same columns. This occurs once per pass of the model, and nothing hides it.
 */
static double values_seconds(const p4d_layout *l, const p4d_cost_rates *r)
{
	if (!l->memory.keys)
		return 0;
	const p4d_cost_ring ring =
	    p4d_cost__ring_of(l, l->dp * l->cp / l->memory.parallel, l->memory.parallel);

	return p4d_cost__gather_seconds(r, ring, 2 * p4d_cost__columns(l));
}

/*
 * Sharded parameters. Both passes gather a layer's parameters during the previous layer's pass. A layer's
 * gradients are reduced during the passes that follow. Only the time that these passes do not hide is added.
 * Experts are sharded over the ranks with the same experts. Nothing hides the embedding's communication: its
 * parameters are needed first, and its gradients are reduced last.
 */
void p4d_cost__add_gathers(const p4d_layout *l, p4d_cost_terms *t)
{
	const p4d_cost_rates *r = &t->rates;
	const double tp = (double)l->tp, here = (double)(l->experts / l->ep);
	const uint64_t shards = p4d_optimizer_shards(l), of_experts = shards > l->ep ? shards / l->ep : 1;
	const sharded_group table = {(double)l->vocab * (double)l->hidden / tp, shards, l->tp};

	t->layer_data = t->expert_layer_data = t->table_data = 0;
	if (!p4d_cost__gathers_for_passes(l) && !p4d_cost__reduces_for_passes(l))
		return;
	const double values = values_seconds(l, r);
	const double first = gather_seconds(l, r, table) + values,
		     last = (p4d_cost__reduces_for_passes(l) ? reduce_seconds(l, r, table) : 0) + values;

	const sharded_group layer = {p4d_cost__layer_matrices(l) / tp, shards, l->tp};

	t->layer_data = p4d_framework_of(l->framework)->plans_transfers
			    ? hidden_behind_halves(l, r, &t->layer, layer)
			    : hidden_behind(l, r, &t->layer, layer, (sharded_group){0, 1, 1});
	if (l->experts)
		t->expert_layer_data = hidden_behind(
		    l, r, &t->expert_layer,
		    (sharded_group){p4d_cost__expert_layer_matrices(l) / tp, shards, l->tp},
		    (sharded_group){p4d_cost__expert_matrices(l) * here, of_experts, l->tp * l->ep});
	t->embedding.forward += first;
	t->embedding.input += last;
	t->table_data = first + last;
}
