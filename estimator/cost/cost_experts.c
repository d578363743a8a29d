/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes of a layer's experts for one micro-batch on one rank, as Megatron-LM runs them. The router
 * chooses experts. Tokens are permuted, sent to their experts' ranks (all-to-all; gathered over etp), sorted
 * by expert, multiplied by grouped matmuls, and sent back. The fullest rank gets `imbalance` times its share
 * and sets the pace for all.
 */
#include <math.h>

#include "cost/cost_internal.h"
#include "request/routing.h"

/*
 * Kernels that permute tokens reach this share of the memory rate of other kernels (SimuMax, B200: 0.50 of
 * the peak against 0.75).
 */
#define PERMUTED 0.67

/*
 * Time of the host, for both passes. The host waits for the numbers of tokens before it can launch later
 * kernels, and the GPU waits for the host: dozens of small kernels, and Transformer Engine's preparations for
 * each expert. Derived from how the steps of DeepSeek V2 and V3 with 4 layers grow with their micro-batches
 * on 8 B200 (SimuMax, 20 to 64 experts a rank).
 */
#define ROUTER_SECONDS 0.3e-3
#define EXPERT_SECONDS 30e-6

/*
 * If experts are padded to their capacity, numbers of tokens are known (token_dispatcher.py: drop_and_pad),
 * and the host runs ahead. Then only the gaps between the router's small kernels remain, about a dozen per
 * pass.
 */
#define ROUTER_KERNELS 12

/* Seconds in which the GPU waits for the host, in both passes together. */
static double waits_of(const p4d_layout *l, double groups)
{
	return l->megatron.pads_experts ? 2 * ROUTER_KERNELS * P4D_LAUNCH_SECONDS
					: ROUTER_SECONDS + EXPERT_SECONDS * groups;
}

/* Numbers of token-expert pairs: sent by this rank, received by its experts, and gathered over etp. */
typedef struct dispatched {
	double own, permuted, received, gathered;
	double groups, rows; /* number of this rank's experts, and of tokens for each */
	double F;            /* columns of one expert on this rank */
} dispatched;

static dispatched routed_of(const p4d_layout *l, const p4d_cost_sizes *z)
{
	const p4d_routed of = p4d_routed_of(l, (uint64_t)(z->residual / z->h));
	dispatched t = {.own = (double)of.own,
			.permuted = (double)of.permuted,
			.received = (double)of.received,
			.gathered = (double)of.gathered,
			.groups = (double)(l->experts / l->ep)};

	t.rows = t.gathered / t.groups;
	t.F = (double)l->expert_ffn / (double)l->etp;
	return t;
}

static double permuted(const p4d_cost_rates *r, double bytes)
{
	return p4d_cost__memory_seconds(r, bytes / PERMUTED);
}

/*
 * DeepEP sends a token once to each node with experts of it, and forwards it inside that node over NVLink at
 * the same time (DeepSeek-V3, arXiv 2412.19437, section 3.2.2). The router may limit the number of nodes per
 * token.
 */
static double deepep_seconds(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_ring ring,
			     const dispatched *t, double row)
{
	const double nodes = ring.ranks / ring.in_node;

	if (nodes <= 1)
		return p4d_cost__exchange_seconds(r, ring, row * t->received);
	const double any = nodes * (1 - pow(1 - 1 / nodes, (double)l->experts_per_token)),
		     limit = l->megatron.token_nodes ? (double)l->megatron.token_nodes : nodes;
	const double away = (any < limit ? any : limit) * (1 - 1 / nodes);
	const p4d_cost_ring node = {.ranks = ring.in_node, .in_node = ring.in_node};
	/* of the nodes to which a token is sent, the share on other leaf switches */
	const double beyond =
			 ring.in_leaf > 0 ? (ring.ranks - ring.in_leaf) / (ring.ranks - ring.in_node) : 0,
		     slower = beyond * r->excess > 1 ? beyond * r->excess : 1;
	const double across = p4d_cost__exchange_seconds(r, node, 0) + row * t->own * away * r->net * slower,
		     inside = p4d_cost__exchange_seconds(r, node, row * t->received);

	return inside > across ? inside : across;
}

static double exchange_seconds(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_ring all,
			       const dispatched *t, double row)
{
	if (l->megatron.dispatcher == P4D_ALL_GATHER)
		return p4d_cost__gather_seconds(r, all, row * t->received);
	return deepep_seconds(l, r, all, t, row);
}

/*
 * Adds the time to send tokens in one direction, to the experts or back. One kernel writes the tokens that
 * are sent or received, and the next kernel reads them. All-gather and DeepEP exchange tokens and copy them
 * for each expert afterwards.
 */
static void dispatch(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		     const dispatched *t, p4d_cost_share *out)
{
	const double row = r->element * z->h;
	const p4d_cost_ring experts = p4d_cost__ring_of(l, l->ep, l->etp),
			    sharded = p4d_cost__ring_of(l, l->etp, 1),
			    all = p4d_cost__ring_of(l, l->ep * l->etp, 1);

	if (l->megatron.dispatcher != P4D_ALL_TO_ALL) {
		out->memory_bound += permuted(r, row * (t->received + t->gathered));
		out->tensor_comm += exchange_seconds(l, r, all, t, row);
		return;
	}
	out->memory_bound += permuted(r, row * (t->own + t->permuted));
	if (t->groups > 1)
		out->memory_bound += permuted(r, 2 * row * t->gathered);
	out->tensor_comm += p4d_cost__exchange_seconds(r, experts, row * t->received) +
			    p4d_cost__gather_seconds(r, sharded, row * t->gathered);
}

static void grouped(const p4d_layout *l, const p4d_cost_rates *r, const dispatched *t, double in, double out,
		    p4d_cost_part *y)
{
	const double gradient = l->grad_dtype == P4D_GRAD_FP32 ? 4 : 2;

	y->forward.gemm += p4d_cost__grouped_seconds(r, t->groups, t->rows, out, in, r->element);
	y->backward_input.gemm += p4d_cost__grouped_seconds(r, t->groups, t->rows, in, out, r->element);
	y->backward_weight.gemm += p4d_cost__grouped_seconds(r, t->groups, out, in, t->rows, 2 * gradient);
}

static void shared(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, p4d_cost_part *y)
{
	const double S = (double)l->shared_ffn / (double)l->tp, e = r->element, up = l->glu ? 2 * S : S;

	if (!l->shared_ffn)
		return;
	y->forward.gemm +=
	    p4d_cost__product_seconds(r, z->n, up, z->h, e) + p4d_cost__product_seconds(r, z->n, z->h, S, e);
	y->backward_input.gemm +=
	    p4d_cost__product_seconds(r, z->n, z->h, up, e) + p4d_cost__product_seconds(r, z->n, S, z->h, e);
	y->backward_weight.gemm +=
	    p4d_cost__product_seconds(r, up, z->h, z->n, 8) + p4d_cost__product_seconds(r, z->h, S, z->n, 8);
	y->forward.memory_bound +=
	    p4d_cost__cast_seconds(l, r, z->residual) + p4d_cost__cast_seconds(l, r, z->n * S);
	y->backward_input.memory_bound +=
	    p4d_cost__cast_seconds(l, r, z->residual) + p4d_cost__cast_seconds(l, r, z->n * up);
	y->forward.memory_bound += p4d_cost__memory_seconds(r, (l->glu ? 3 : 2) * e * z->n * S) +
				   p4d_cost__memory_seconds(r, 3 * e * z->residual);
	y->backward_input.memory_bound += p4d_cost__memory_seconds(r, (l->glu ? 5 : 3) * e * z->n * S) +
					  p4d_cost__memory_seconds(r, 3 * e * z->residual);
}

double p4d_cost__experts(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			 p4d_cost_part *y)
{
	const dispatched t = routed_of(l, z);
	const double experts = (double)l->experts, e = r->element;
	const double waits = waits_of(l, t.groups);
	p4d_cost_share one_way = {0};

	dispatch(l, r, z, &t, &one_way);
	y->forward.memory_bound += 2 * one_way.memory_bound;
	y->forward.tensor_comm += 2 * one_way.tensor_comm;
	y->backward_input.memory_bound += 2 * one_way.memory_bound;
	y->backward_input.tensor_comm += 2 * one_way.tensor_comm;
	y->forward.host += waits / 2;
	y->backward_input.host += waits / 2;
	y->forward.gemm += p4d_cost__gemm_seconds(r, 1, t.own, experts, z->h, 4);
	y->backward_input.gemm += p4d_cost__gemm_seconds(r, 1, t.own, z->h, experts, e);
	y->backward_weight.gemm += p4d_cost__gemm_seconds(r, 1, experts, z->h, t.own, 8);
	grouped(l, r, &t, z->h, (l->glu ? 2 : 1) * t.F, y);
	grouped(l, r, &t, t.F, z->h, y);
	y->forward.memory_bound += p4d_cost__memory_seconds(r, (l->glu ? 3 : 2) * e * t.gathered * t.F);
	y->backward_input.memory_bound +=
	    p4d_cost__memory_seconds(r, (l->glu ? 5 : 3) * e * t.gathered * t.F);
	/* casts to FP8: forward the inputs of both matmuls, backward the gradients of their results */
	y->forward.memory_bound +=
	    p4d_cost__cast_seconds(l, r, t.gathered * z->h) + p4d_cost__cast_seconds(l, r, t.gathered * t.F);
	y->backward_input.memory_bound += p4d_cost__cast_seconds(l, r, t.gathered * z->h) +
					  p4d_cost__cast_seconds(l, r, t.gathered * (l->glu ? 2 : 1) * t.F);
	shared(l, r, z, y);
	return 2 * one_way.tensor_comm + waits / 2;
}
