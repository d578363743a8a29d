/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of experts in Megatron-LM's layers: grouped experts of Transformer Engine, the all-to-all
 * dispatcher, permutation by Megatron-Core.
 */
#include "framework/megatron_reserved_experts.h"
#include "request/routing.h"

bool p4d_megatron__plays_experts(const p4d_layout *l)
{
	const unsigned played = P4D_MODULE_CORE_ATTENTION | P4D_MODULE_MOE;

	return l->glu && l->megatron.expert_capacity <= 0 && l->megatron.dispatcher == P4D_ALL_TO_ALL &&
	       !l->megatron.shared_overlap && !(l->megatron.recompute_modules & ~played);
}

/* ---- experts ---- */

typedef struct routed {
	p4d_wide permuted, received, gathered, h, F; /* elements; F: columns of an expert's activation */
	bool exchanged, sorted, summed;              /* summed: over the ranks that share an expert */
} routed;

static routed routed_of(const p4d_megatron_step *p)
{
	const p4d_layout *l = p->l;
	const p4d_routed t = p4d_routed_of(l, p->z.own);

	return (routed){t.permuted * p->z.h,
			t.received * p->z.h,
			t.gathered,
			t.gathered * p->z.h,
			t.gathered * (l->expert_ffn / l->etp),
			t.exchanged,
			t.sorted,
			l->etp > 1};
}

static p4d_allocated forward_shared(p4d_megatron_step *p, p4d_allocated *kept)
{
	const p4d_wide S = (p4d_wide)p->z.tokens * (p->l->shared_ffn / p->l->tp);

	if (!S)
		return 0;
	p4d_allocated whole = p4d_megatron__gathered(p);
	kept[KEPT_SHARED_UP] = take(p, 2 * S);
	give(p, &whole);
	kept[KEPT_SHARED_ACTIVATION] = take(p, S);
	return p4d_megatron__summed(p);
}

/* Sends the experts' results back to the tokens' ranks. */
static p4d_allocated send_back(p4d_megatron_step *p, const routed *r, p4d_allocated result)
{
	if (r->summed)
		replace(p, &result, r->received);
	if (r->exchanged)
		replace(p, &result, r->permuted);
	return result;
}

/* Grouped matmuls run on four streams. Each has a workspace. */
static void make_workspaces(p4d_megatron_step *p)
{
	enum { STREAMS = 4 };
	const uint64_t bytes = p4d_megatron__named(p, "workspace.experts") / STREAMS;

	for (unsigned i = 0; i < STREAMS && !p->has_workspaces; i++)
		take_bytes(p, bytes);
	p->has_workspaces = true;
}

/*
 * Returns the block that the experts keep of their tokens. If the tokens are not sorted by expert into a new
 * block, this is *last, the block in which they were received.
 */
static p4d_allocated sort_tokens(p4d_megatron_step *p, const routed *r, p4d_allocated *last)
{
	if (r->sorted || r->summed)
		return take(p, r->h);
	const p4d_allocated tokens = *last;
	*last = 0;
	return tokens;
}

p4d_allocated p4d_megatron__forward_experts(p4d_megatron_step *p, p4d_allocated *kept, bool saves)
{
	const routed r = routed_of(p);

	p4d_megatron__once(p, "workspace.torch"); /* workspace of the router's matmul */
	p4d_allocated shared = forward_shared(p, kept), permuted = take(p, r.permuted);
	p4d_allocated received = r.exchanged ? take(p, r.received) : 0;
	kept[KEPT_EXPERT_INPUT] = sort_tokens(p, &r, r.exchanged ? &received : &permuted);
	kept[KEPT_UP] = take(p, 2 * r.F);
	make_workspaces(p);
	kept[KEPT_ACTIVATION] = take(p, r.F);
	p4d_allocated result = take(p, r.h);
	for (int i = KEPT_UP; !saves && i <= KEPT_SHARED_ACTIVATION; i++)
		give(p, &kept[i]);
	if (r.sorted)
		replace(p, &result, r.h);
	if (!saves)
		give(p, &kept[KEPT_EXPERT_INPUT]);
	result = send_back(p, &r, result);
	p4d_allocated sum = take(p, p4d_megatron__narrow(p)),
		      all = shared ? take(p, p4d_megatron__narrow(p)) : 0;
	give(p, &shared);
	give(p, &result);
	if (!all)
		give(p, &received);
	give(p, &permuted);
	if (all)
		give(p, &sum);
	give(p, &received);
	return all ? all : sum;
}

static void backward_shared(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated *sum)
{
	const p4d_wide S = (p4d_wide)p->z.tokens * (p->l->shared_ffn / p->l->tp);

	if (!S)
		return;
	p4d_allocated whole = p4d_megatron__gathered(p), up = take(p, S);
	p4d_megatron__once(p, "dummy.shared_down");
	give(p, &whole);
	give(p, &kept[KEPT_SHARED_ACTIVATION]);
	replace(p, &up, 2 * S);
	give(p, &kept[KEPT_SHARED_UP]);
	whole = p4d_megatron__gathered(p);
	p4d_allocated input = take(p, p4d_megatron__wide(p));
	p4d_allocated own = p->z.gathers ? take(p, p4d_megatron__narrow(p)) : 0;
	give(p, &whole);
	p4d_megatron__once(p, "dummy.shared_up");
	if (own)
		give(p, &input);
	give(p, &up);
	give(p, &kept[KEPT_SECOND_NORM]);
	replace(p, sum, p4d_megatron__narrow(p));
	give(p, &input);
	give(p, &own);
}

/*
 * Backward pass of the router. Its gradient of the layer's input is added to `of_experts`, which the experts'
 * backward pass made.
 */
static p4d_allocated backward_router(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated of_experts)
{
	p4d_allocated of_router = take(p, p4d_megatron__narrow(p));

	if (!p->l->shared_ffn)
		give(p, &kept[KEPT_SECOND_NORM]);
	replace(p, &of_experts, p4d_megatron__narrow(p));
	give(p, &of_router);
	return of_experts;
}

/* Returns the gradient of the norm's result. The caller frees the gradient of the layer's result. */
p4d_allocated p4d_megatron__backward_experts(p4d_megatron_step *p, p4d_allocated *kept)
{
	const routed r = routed_of(p);
	p4d_allocated g = take(p, r.permuted);

	if (r.exchanged)
		replace(p, &g, r.received);
	if (r.sorted || r.summed)
		replace(p, &g, r.h);
	p4d_allocated next = take(p, r.F);
	p4d_megatron__once(p, "dummy.expert_down");
	give(p, &g);
	g = next;
	give(p, &kept[KEPT_ACTIVATION]);
	replace(p, &g, 2 * r.F);
	give(p, &kept[KEPT_UP]);
	next = take(p, r.h);
	p4d_megatron__once(p, "dummy.expert_up");
	give(p, &g);
	g = next;
	give(p, &kept[KEPT_EXPERT_INPUT]);
	if (r.sorted)
		replace(p, &g, r.h);
	if (r.summed)
		replace(p, &g, r.received);
	if (r.exchanged)
		replace(p, &g, r.permuted);
	p4d_allocated zeros = p->l->recompute == P4D_RECOMPUTE_FULL ? 0 : take(p, p4d_megatron__narrow(p));
	p4d_allocated sum = take(p, p4d_megatron__narrow(p));
	give(p, &zeros);
	give(p, &g);
	sum = backward_router(p, kept, sum);
	backward_shared(p, kept, &sum);
	return sum;
}
