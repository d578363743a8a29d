/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experts and latent attention in transformers 5.23. Experts' weights are one three-dimensional parameter;
 * tokens are copied for each expert and multiplied in groups (integrations/moe.py,
 * grouped_mm_experts_forward; the modeling files of Mixtral, Qwen 2 and 3, OLMoE, DeepSeek V2 and V3,
 * gpt-oss). PEFT adapts experts by adding the product of an adapter's factors to such a parameter in each
 * forward pass (ParamWrapper).
 */
#include "framework/transformers.h"

enum { INDEX = 8 }; /* bytes */

/* Whether experts have adapters. PEFT names experts' matmuls like those of a dense layer. */
static bool adapted(const p4d_layout *l)
{
	return l->finetune != P4D_TUNE_FULL && !p4d_transformers__gates_shared(l) &&
	       !l->architecture->experts_unadapted &&
	       l->lora.targets & (P4D_TARGET_GATE | P4D_TARGET_UP | P4D_TARGET_DOWN);
}

/* Parameters of the experts' adapters. Gate and up are one parameter, so their factors have twice the
 * rank. */
uint64_t p4d_transformers__expert_adapters(const p4d_layout *l)
{
	const uint64_t h = l->hidden, F = l->expert_ffn, rank = l->lora.rank;
	const uint64_t router = l->lora.targets == P4D_TARGET_ALL ? rank * (h + l->experts) : 0;

	if (!adapted(l))
		return 0;
	return l->experts * (2 * rank * (h + 2 * F) + rank * (F + h)) + router;
}

static unsigned adapter_bytes(const p4d_layout *l)
{
	return p4d_framework_shares(l, P4D_SHARES_UNITS) ? 2 : l->lora.fp32 ? 4 : 2;
}

/* A parameter of `elements` elements to which the product of its factors (`factors` elements) is added. */
static p4d_tape_tensor with_adapters(p4d_tape_writer *w, uint64_t elements, uint64_t factors)
{
	const unsigned stored = adapter_bytes(w->layout);
	const p4d_tape_tensor out = p4d_op_made(w, elements, w->weight, true);
	p4d_tape_operation *o = p4d_tape_append(w->tape);

	o->out = out.value;
	o->weight = factors * stored;
	if (stored != w->weight) /* the factors have the type of the parameter */
		o->kept = o->lowered = factors * w->weight;
	return out;
}

/* A matmul of tokens by expert. weight: the adapted parameter; below 0: none. */
static p4d_tape_tensor grouped(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
			       p4d_tape_tensor weight)
{
	const uint64_t elements = w->layout->experts * in * out;
	const bool given = weight.value >= 0;

	x = p4d_op_cast(w, x, given ? weight.element : w->weight);
	const p4d_tape_tensor y =
	    p4d_op_made(w, p4d_op_rows(w, x, in) * out, x.element, p4d_op_needs(w, x) || w->trains || given);
	p4d_tape_operation *o = p4d_op_append(w, x, y, P4D_NEW_GRADIENT);
	o->saved[0] = w->trains || given ? x.value : -1;
	o->weight = w->trains ? elements * w->weight : 0;
	if (w->gathers) { /* both parameters, one of them twice; in the backward pass, one of them with
			   * gradients */
		const uint64_t up = p4d_transformers__experts_up(w->layout) * w->weight;
		o->scratch = up + up / 2;
		o->back_scratch = w->trains ? up / 2 : up + up / 2;
	}
	if (given) {
		o->in[1] = weight.value;
		o->gradient[1] = P4D_NEW_GRADIENT;
		o->saved[1] = p4d_op_needs(w, x) ? weight.value : -1;
	}
	return y;
}

/* Copies rows of x in another order; some rows occur several times. */
static p4d_tape_tensor picked(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t rows, uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_made(w, elements, x.element, p4d_op_needs(w, x));

	p4d_op_append(w, x, out, P4D_NEW_GRADIENT)->kept = p4d_op_needs(w, x) ? rows * INDEX : 0;
	return out;
}

/*
 * Multiplies each row of x by its score. In the backward pass, both gradients have the result's size, before
 * one of them is summed and the other one is cast.
 */
static p4d_tape_tensor weighted(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor scores)
{
	const unsigned element = x.element > scores.element ? x.element : scores.element;
	const p4d_tape_tensor out =
	    p4d_op_made(w, x.elements, element, p4d_op_needs(w, x) || p4d_op_needs(w, scores));
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->in[1] = scores.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	o->saved[0] = x.value;
	o->saved[1] = p4d_op_needs(w, x) ? scores.value : -1;
	o->back_scratch = x.elements * (2 * element - x.element);
	return out;
}

/* gpt-oss's router: a softmax of only the best scores, in the type of the scores. */
static p4d_tape_tensor routed_by_best(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t chosen = w->tokens * l->experts_per_token;
	const p4d_tape_tensor logits = p4d_op_product(w, x, l->hidden, l->experts, w->weight, w->trains);
	const p4d_tape_tensor top = p4d_op_made(w, chosen, logits.element, p4d_op_needs(w, logits));

	p4d_op_append(w, logits, top, P4D_NEW_GRADIENT)->kept = p4d_op_needs(w, logits) ? chosen * INDEX : 0;
	const p4d_tape_tensor scores = p4d_op_map(w, top, false, true);
	p4d_op_hold(w, logits);
	return scores;
}

/* Granite's router: a softmax of only the best scores, in fp32. */
static p4d_tape_tensor routed_by_best_in_fp32(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t chosen = w->tokens * l->experts_per_token;
	const p4d_tape_tensor product = p4d_op_product(w, x, l->hidden, l->experts, w->weight, w->trains);

	const p4d_tape_tensor logits = p4d_op_cast(w, product, 4);
	const p4d_tape_tensor top = p4d_op_made(w, chosen, 4, p4d_op_needs(w, product));
	p4d_op_append(w, logits, top, P4D_NEW_GRADIENT)->kept = p4d_op_needs(w, product) ? chosen * INDEX : 0;
	const p4d_tape_tensor scores = p4d_op_cast(w, p4d_op_map(w, top, false, true), x.element);
	p4d_op_hold(w, logits);
	return scores;
}

/*
 * Phi-3.5-MoE's sparsemixer: for each of a token's experts a mask of all experts, a softmax of the scores
 * that are not masked, whose result is kept, and the index, score and factor of the sampled expert.
 */
static p4d_tape_tensor routed_by_sparse_mixer(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t all = w->tokens * l->experts, chosen = w->tokens * l->experts_per_token;
	const p4d_tape_tensor logits = p4d_op_product(w, x, l->hidden, l->experts, w->weight, w->trains);
	p4d_tape_tensor gates = logits;

	for (uint64_t i = 0; i < l->experts_per_token; i++) {
		gates = p4d_op_map(w, logits, false, false);
		p4d_op_last(w)->kept = p4d_op_needs(w, logits) ? all : 0;
		gates = p4d_op_map(w, gates, false, true);
	}
	const p4d_tape_tensor top = p4d_op_made(w, chosen, gates.element, p4d_op_needs(w, gates));
	p4d_op_append(w, gates, top, P4D_NEW_GRADIENT)->kept =
	    p4d_op_needs(w, gates) ? chosen * (INDEX + gates.element) : 0;
	p4d_op_hold(w, logits);
	return top;
}

static p4d_router router_of(const p4d_layout *l)
{
	const p4d_router router = l->architecture->router;

	return router == P4D_ROUTER_USUAL && l->kv_rank ? P4D_ROUTER_FP32 : router;
}

/*
 * Scores of the chosen experts. DeepSeek's and Nemotron's routers compute in fp32. The others' scores come
 * from an fp32 softmax; most cast them to the type of the logits.
 */
static p4d_tape_tensor routed(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t chosen = w->tokens * l->experts_per_token, all = w->tokens * l->experts;
	const bool deepseek = router_of(l) == P4D_ROUTER_FP32, groups = !l->architecture->router_in_fp32,
		   mixtral = !deepseek && !l->qk_norm && !l->biased;
	p4d_tape_tensor logits, scores;

	if (router_of(l) == P4D_ROUTER_BEST)
		return routed_by_best(w, x);
	if (router_of(l) == P4D_ROUTER_SPARSE_MIXER)
		return routed_by_sparse_mixer(w, x);
	if (router_of(l) == P4D_ROUTER_BEST_FP32)
		return routed_by_best_in_fp32(w, x);
	if (deepseek) {
		logits = p4d_op_product(w, p4d_op_cast(w, x, 4), l->hidden, l->experts, w->weight, w->trains);
		p4d_tape_operation *o = p4d_op_last(w);
		if (w->weight < 4 && groups) { /* the weight, cast to fp32 */
			o->copy = l->experts * l->hidden * 4;
			o->lowered = w->trains ? o->copy : 0;
		}
		scores = p4d_op_map(w, logits, false, true); /* sigmoid or softmax */
	} else {
		const bool adapts = adapted(l) && l->lora.targets == P4D_TARGET_ALL;
		logits = p4d_op_product(w, x, l->hidden, l->experts, w->weight, w->trains || adapts);
		scores = p4d_op_map(w, p4d_op_cast(w, logits, 4), false, true);
	}
	const p4d_tape_tensor top = p4d_op_made(w, chosen, scores.element, p4d_op_needs(w, scores));
	p4d_tape_operation *o = p4d_op_append(w, scores, top, P4D_NEW_GRADIENT);
	o->kept = p4d_op_needs(w, scores) ? chosen * (INDEX + 4) : 0;
	o->scratch =
	    deepseek && groups ? 3 * all * scores.element : 0; /* scores of groups of experts, and masks */
	p4d_op_hold(w, logits);
	return deepseek || mixtral ? top : p4d_op_cast(w, top, logits.element);
}

/*
 * A row of biases for each row of a matmul's result, added in place. In the backward pass, result and biases
 * have the same gradient.
 */
static p4d_tape_tensor bias_rows(p4d_tape_writer *w, uint64_t rows, uint64_t columns)
{
	const p4d_tape_tensor out = p4d_op_made(w, rows * columns, w->weight, w->trains);
	p4d_tape_operation *o = p4d_tape_append(w->tape);

	o->out = out.value;
	o->weight = w->trains ? w->layout->experts * columns * w->weight : 0;
	return out;
}

static p4d_tape_tensor with_bias(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor bias)
{
	const p4d_tape_tensor out = p4d_op_view(w, x, x.elements);
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_SAME_GRADIENT);

	o->in[1] = bias.value;
	o->gradient[1] = P4D_SAME_GRADIENT;
	return out;
}

/* gpt-oss's gate (_apply_gate): gate and up in alternating columns, clamped. */
static p4d_tape_tensor limited(p4d_tape_writer *w, p4d_tape_tensor both)
{
	const uint64_t half = both.elements / 2;
	p4d_tape_tensor gate = p4d_op_slice(w, both, half), up = p4d_op_slice(w, both, half);

	gate = p4d_op_map(w, gate, true, false);
	p4d_op_last(w)->back_scratch = half;
	up = p4d_op_map(w, up, true, false);
	p4d_op_last(w)->back_scratch = 2 * half;
	const p4d_tape_tensor share = p4d_op_map(w, p4d_op_map(w, gate, false, false), false, true);
	const p4d_tape_tensor glu = p4d_op_times(w, gate, share);
	const p4d_tape_tensor more = p4d_op_map(w, up, false, false);
	p4d_op_last(w)->gradient[0] = P4D_SAME_GRADIENT; /* + 1 */
	const p4d_tape_tensor out = p4d_op_times(w, more, glu);
	const p4d_tape_tensor named[] = {both, gate, up, glu};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return out;
}

/* Like experts(), for experts with biases, which also keep the index of each row's expert. */
static p4d_tape_tensor biased_experts(p4d_tape_writer *w, p4d_tape_tensor in, p4d_tape_tensor own)
{
	const uint64_t h = w->layout->hidden, F = w->layout->expert_ffn, copies = own.elements;
	const p4d_tape_tensor none = {.value = -1};

	const p4d_tape_tensor first = bias_rows(w, copies, 2 * F);
	p4d_op_last(w)->kept = w->trains ? copies * INDEX : 0;
	p4d_tape_tensor y = limited(w, with_bias(w, grouped(w, in, h, 2 * F, none), first));
	const p4d_tape_tensor second = bias_rows(w, copies, h);
	p4d_op_hold(w, first);
	const p4d_tape_tensor down = with_bias(w, grouped(w, y, F, h, none), second);
	y = picked(w, weighted(w, down, own), copies, copies * h);
	p4d_op_hold(w, second);
	p4d_op_hold(w, down);
	return y;
}

/* The routed experts, and the sum of the results for each token. */
static p4d_tape_tensor experts(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor scores)
{
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, F = l->expert_ffn, rank = l->lora.rank;
	const uint64_t copies = w->tokens * l->experts_per_token;
	const p4d_tape_tensor none = {.value = -1};
	p4d_tape_tensor up = none, down = none;

	if (adapted(l))
		up = with_adapters(w, l->experts * 2 * F * h, l->experts * 2 * rank * (2 * F + h));
	const p4d_tape_tensor in = picked(w, x, copies, copies * h);
	const p4d_tape_tensor own = picked(w, scores, copies, copies);
	p4d_tape_tensor y;
	if (l->architecture->expert_bias) {
		y = biased_experts(w, in, own);
	} else if (!l->glu) {
		y = p4d_transformers__activated(w, grouped(w, in, h, F, none));
		y = weighted(w, grouped(w, y, F, h, none), own);
		y = picked(w, y, copies, y.elements);
	} else {
		const p4d_tape_tensor both = grouped(w, in, h, 2 * F, up);
		const p4d_tape_tensor gate = p4d_op_view(w, both, both.elements / 2),
				      second = p4d_op_view(w, both, both.elements / 2);
		p4d_op_append(w, both, gate, P4D_NEW_GRADIENT)->others[0] = second.value; /* chunk() */
		y = p4d_op_times(w, p4d_op_map(w, gate, true, false), second);
		if (adapted(l))
			down = with_adapters(w, l->experts * F * h, l->experts * rank * (F + h));
		y = weighted(w, grouped(w, y, F, h, down), own);
		y = picked(w, y, copies, y.elements);
	}
	/* autocast computes the sum over a token's experts in fp32 */
	const p4d_tape_tensor sum =
	    p4d_op_made(w, w->tokens * h, w->autocast ? 4 : y.element, p4d_op_needs(w, y));
	p4d_op_append(w, y, sum, P4D_NEW_GRADIENT);
	p4d_op_hold(w, in);
	p4d_op_hold(w, own);
	p4d_op_hold(w, y);
	if (adapted(l)) {
		p4d_op_hold(w, up);
		p4d_op_hold(w, down);
	}
	return p4d_op_cast(w, sum, x.element);
}

p4d_tape_tensor p4d_transformers__experts(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const bool gated = p4d_transformers__gates_shared(l),
		   first = gated || (l->shared_ffn && l->architecture->shared_first);
	p4d_tape_tensor shared = {.value = -1};

	if (first)
		shared = p4d_transformers__mlp(w, x, l->shared_ffn);
	p4d_tape_tensor y = experts(w, x, routed(w, x));
	if (gated) { /* Qwen 2's shared expert has a gate with one column */
		const p4d_tape_tensor gate =
		    p4d_op_map(w, p4d_transformers__linear(w, x, l->hidden, 1, P4D_TARGET_UP), false, true);
		shared = weighted(w, shared, gate);
	} else if (l->shared_ffn && !first)
		shared = p4d_transformers__mlp(w, x, l->shared_ffn);
	if (l->shared_ffn)
		y = p4d_op_plus(w, y, shared);
	p4d_op_hold(w, x);
	return y;
}

/* ---- latent attention ---- */

/* Rotary positions of a separate part of a head: apply_rotary_pos_emb_interleave. */
static p4d_tape_tensor turned(p4d_tape_writer *w, p4d_tape_tensor x)
{
	p4d_tape_tensor half[2], sum[2];

	for (int i = 0; i < 2; i++)
		half[i] = p4d_op_slice(w, x, x.elements / 2);
	for (int i = 0; i < 2; i++) {
		const p4d_tape_tensor cosines = p4d_op_map(w, half[i], false, false);
		sum[i] = p4d_op_plus(w, cosines, p4d_op_map(w, half[1 - i], false, false));
	}
	return p4d_op_joined(w, sum[0], sum[1]);
}

/*
 * Keys: two copies into one empty tensor. (The backward pass of such a copy, CopySlices, also copies the
 * whole gradient.)
 */
static p4d_tape_tensor filled(p4d_tape_writer *w, p4d_tape_tensor from_latent, p4d_tape_tensor rotated,
			      uint64_t elements)
{
	const unsigned element = from_latent.element;
	const p4d_tape_tensor part =
	    p4d_op_made(w, elements, element, p4d_op_needs(w, from_latent) || p4d_op_needs(w, rotated));
	p4d_tape_operation *o = p4d_op_append(w, from_latent, part, P4D_NEW_GRADIENT);

	o->back_scratch = elements * element;
	const p4d_tape_tensor all = p4d_op_view(w, part, elements);
	o = p4d_op_append(w, part, all, P4D_NEW_GRADIENT);
	o->in[1] = rotated.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	o->back_scratch = (elements - from_latent.elements) * element;
	return all;
}

p4d_tape_tensor p4d_transformers__latent_attention(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, H = l->heads, plain = H * l->head_dim, turns = H * l->rope_dim;
	const uint64_t t = w->tokens;
	p4d_tape_tensor q = x, q_plain, q_turned, latent, k_turned, k_plain, v;

	if (l->q_rank)
		q = p4d_transformers__norm(w, p4d_transformers__linear(w, x, h, l->q_rank, P4D_TARGET_Q),
					   l->q_rank);
	q = p4d_transformers__linear(w, q, l->q_rank ? l->q_rank : h, plain + turns, P4D_TARGET_Q);
	p4d_op_parted(w, q, t * plain, &q_plain, &q_turned);
	const p4d_tape_tensor both =
	    p4d_transformers__linear(w, x, h, l->kv_rank + l->rope_dim, P4D_TARGET_K);
	p4d_op_parted(w, both, t * l->kv_rank, &latent, &k_turned);
	latent = p4d_transformers__norm(w, latent, l->kv_rank);
	const p4d_tape_tensor of_queries = turned(w, q_turned), of_keys = turned(w, k_turned);
	const p4d_tape_tensor queries = p4d_op_joined(w, q_plain, of_queries);
	p4d_op_parted(w, p4d_transformers__linear(w, latent, l->kv_rank, plain + H * l->v_dim, P4D_TARGET_V),
		      t * plain, &k_plain, &v);
	const p4d_tape_tensor keys = filled(w, k_plain, of_keys, t * (plain + turns));
	p4d_tape_tensor y = l->flash_attention ? p4d_transformers__fused(w, queries, keys, v)
					       : p4d_transformers__eager(w, queries, keys, v);
	y = p4d_transformers__linear(w, y, H * l->v_dim, h, P4D_TARGET_O);
	const p4d_tape_tensor named[] = {q, both, latent, of_queries, of_keys, queries, keys, v, x};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return y;
}
