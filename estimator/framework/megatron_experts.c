/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM: the peaks of passes of layers with experts or latent attention. Derived from the code of
 * Megatron-Core 0.16.1 (transformer/moe, multi_latent_attention.py) and, except for DeepEP, compared with
 * what that code allocates (tests/data/megatron_experts.csv). Experts are Transformer Engine's grouped
 * matmuls; permutation is Megatron's own code, not fused.
 */
#include "framework/megatron_memory.h"
#include "request/routing.h"

/*
 * Peak of the forward pass on top of saved tensors. Until the end of the layer, variables refer to the copies
 * of tokens, and to received tokens unless these are themselves the experts' input (MoELayer.forward).
 * Gathered tokens are in a permanent buffer. In addition there are, one after another: the experts' results,
 * as computed and sorted back, before a reduce-scatter over etp; the results that are sent back; their sum.
 * Dispatchers other than all-to-all first sum the results of each received token, and then exchange the sums.
 * The shared experts' result exists from the beginning.
 */
static p4d_wide forward_of_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_routed t = p4d_routed_of(l, z->own);
	const bool copied = l->megatron.dispatcher == P4D_ALL_TO_ALL;
	/* the received tokens are themselves the experts' input */
	const bool input = copied && !t.sorted && l->etp == 1;
	const bool variable = t.exchanged && !input && l->megatron.dispatcher != P4D_ALL_GATHER;
	const bool fp8 = p4d_megatron__fp8(l); /* a variable also holds the experts' input after its cast */
	const p4d_wide held = t.permuted + (variable ? t.received : 0) + (fp8 ? t.gathered : 0);
	const p4d_wide second = /* the second matmul's input, copies of it, and its result */
	    fp8 ? t.gathered * (z->h + 2 * (p4d_wide)(l->expert_ffn / l->etp)) : 0;
	const p4d_wide results = copied ? t.gathered * (t.sorted ? 2 : 1) + (l->etp > 1 ? t.received : 0)
					: t.gathered + t.received;
	const p4d_wide back = t.received + (!t.exchanged ? 0 : copied ? t.permuted : t.own);
	/* recomputation drops these tensors, but only when their matmul, or the layer, is done */
	const p4d_wide activation = p4d_megatron__again(l, P4D_MODULE_MOE_ACTIVATION)
					? t.gathered * (z->h + l->expert_ffn / l->etp)
					: 0;

	/* scores of all experts, for all tokens */
	const p4d_wide scores =
	    l->megatron.dispatcher == P4D_ALL_GATHER && t.exchanged ? t.received * l->experts : 0;

	return scores +
	       (held + (l->shared_ffn && !l->megatron.shared_overlap ? z->own : 0) +
		(p4d_megatron__again(l, P4D_MODULE_LAYERNORM) ? z->own : 0)) *
		   z->h +
	       P4D_MOST(P4D_MOST(results, back) * z->h, P4D_MOST(activation, second));
}

/*
 * Peak of the backward pass: gradients of the results as returned, received, gathered and sorted; the
 * gradient of the second matmul; the gradient of the activation function. The activation function's result is
 * free by then.
 */
static p4d_wide backward_of_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_routed t = p4d_routed_of(l, z->own);
	const p4d_wide F = l->expert_ffn / l->etp, g = t.gathered, h = z->h;
	const unsigned more = p4d_megatron__again(l, P4D_MODULE_MOE_ACTIVATION)
				  ? TWICE
				  : 0;         /* the recomputed result of the activation function */
	const bool fp8 = p4d_megatron__fp8(l); /* gradients are cast to FP8, into at most two copies */
	p4d_wide widest = fp8 ? P4D_MOST(g * (2 * h + (1 + more) * F), g * (h + 2 * F) + g * F / 2)
			      : P4D_MOST(g * (h + (1 + more) * F), g * (2 + more) * F);

	if (l->megatron.dispatcher != P4D_ALL_TO_ALL)
		widest = P4D_MOST(widest, (g + t.received) * h);
	else if (t.exchanged)
		widest = P4D_MOST(widest, (t.permuted + t.received) * h);
	if (t.sorted)
		widest = P4D_MOST(widest, 2 * g * h);
	return widest;
}

/*
 * Backward pass of latent attention: gradients of its output, queries, keys and values. In a ring, keys and
 * values are sent and received together with their gradients, each in a double buffer, and the gradients of
 * queries are summed over the steps.
 */
static p4d_wide backward_of_latent(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_wide Q = l->heads / l->tp * (l->head_dim + l->rope_dim);
	/*
	 * with recomputation: queries, keys and values; the tensors that a ring keeps; the result of the norm
	 */
	const bool ring = p4d_megatron__again(l, P4D_MODULE_MLA_UP) &&
			  p4d_megatron__again(l, P4D_MODULE_CORE_ATTENTION) && l->cp > 1;
	const p4d_wide more =
	    (p4d_megatron__again(l, P4D_MODULE_MLA_UP) ? TWICE * z->tokens * (Q + 2 * z->G) : 0) +
	    (ring ? z->tokens * (z->A + 2 * z->G) : 0) +
	    (p4d_megatron__again(l, P4D_MODULE_LAYERNORM) && l->kv_rank ? TWICE * (p4d_wide)z->own * z->h
									: 0);

	return more + z->tokens * (l->cp > 1 ? z->A + 2 * Q + 10 * z->G : z->A + Q + 2 * z->G);
}

/*
 * The dispatcher of a layer keeps its last probabilities until the layer's next forward pass. If the layer or
 * its experts are recomputed, the dispatcher also keeps the checkpoint's detached input and the gradient of
 * this input.
 */
static uint64_t layers_left(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const uint64_t with =
	    p4d_parameters_expert_layers_of_stage(l, rows->stage) + p4d_megatron__further(rows);

	if (l->recompute == P4D_RECOMPUTE_FULL)
		return (with + l->megatron.recompute_layers - 1) / l->megatron.recompute_layers;
	return p4d_megatron__again(l, P4D_MODULE_MOE) ? with : 0;
}

void p4d_megatron__size_experts(const p4d_rows *rows, p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const bool dense =
	    p4d_parameters_expert_layers_of_stage(l, rows->stage) < l->stage_layers[rows->stage];

	z->mixed = l->experts || l->kv_rank;
	if (l->kv_rank) {
		z->A = l->heads / l->tp * l->v_dim;
		z->G = l->heads / l->tp * (l->head_dim + l->rope_dim + l->v_dim) / 2;
	}
	if (with)
		z->ffn = (p4d_megatron__again(l, P4D_MODULE_LAYERNORM) ? 1 : 2) * (p4d_wide)z->own * z->h +
			 (dense ? P4D_LEAST(z->tokens * (p4d_wide)(z->up + z->product),
					    p4d_megatron__saved_by_experts(l, z))
				: p4d_megatron__saved_by_experts(l, z));
	if (l->kv_rank)
		z->attention = backward_of_latent(l, z);
	z->left = layers_left(rows) * (p4d_wide)z->own * z->h;
	if (!with)
		return;
	z->forward = forward_of_experts(l, z);
	z->backward = backward_of_experts(l, z);
}
