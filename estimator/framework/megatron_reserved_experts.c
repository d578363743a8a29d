/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of Megatron-LM's layers with experts, in the order in which PyTorch's allocator hands them out:
 * attention and grouped experts of Transformer Engine 2.11, the all-to-all dispatcher, permutation by
 * Megatron-Core 0.16.1. The order was compared with what the allocator records in rehearsals;
 * test_megatron_memory.c compares the totals.
 */
#include "framework/megatron_reserved.h"
#include "plan/parameters.h"
#include "request/routing.h"

/* Indices of the blocks that a layer keeps for its backward pass. */
enum kept {
	KEPT_INPUT,
	KEPT_NORM,
	KEPT_PRODUCT,
	KEPT_QUERY_BEFORE_NORM,
	KEPT_KEY_BEFORE_NORM,
	KEPT_QUERY,
	KEPT_KEY,
	KEPT_VALUE,
	KEPT_OUTPUT,
	KEPT_MIDDLE,
	KEPT_ROUTER_NORM,
	KEPT_EXPERT_INPUT,
	KEPT_UP,
	KEPT_ACTIVATION,
	KEPT_SHARED_UP,
	KEPT_SHARED_ACTIVATION,
	KEPT_BLOCKS
};
_Static_assert((int)KEPT_BLOCKS <= (int)P4D_MEGATRON_KEPT, "the header has too few");

static bool again(const p4d_layout *l, unsigned module)
{
	return l->megatron.recompute_modules & module;
}

bool p4d_megatron__plays_experts(const p4d_layout *l)
{
	const unsigned played = P4D_MODULE_CORE_ATTENTION | P4D_MODULE_MOE;

	return l->glu && l->cp == 1 && !l->dense_layers && l->expert_every == 1 &&
	       l->megatron.expert_capacity <= 0 && l->megatron.dispatcher == P4D_ALL_TO_ALL &&
	       !l->megatron.shared_overlap && !(l->megatron.recompute_modules & ~played) &&
	       (l->recompute != P4D_RECOMPUTE_FULL ||
		(l->megatron.recompute_layers <= 1 && !l->megatron.recompute_block));
}

/* ---- blocks ---- */

static p4d_allocated take(p4d_megatron_step *p, p4d_wide elements)
{
	p4d_megatron_blocks one = {.count = 0};

	p4d_megatron__take(p, &one, elements >> 48 ? UINT64_MAX : (uint64_t)elements * p->element);
	return one.count ? one.of[0] : 0;
}

static void give(p4d_megatron_step *p, p4d_allocated *block)
{
	p4d_caching_allocator_give(&p->a, *block);
	*block = 0;
}

/* Allocates a block and then frees the old one, which the new one replaces. */
static void replace(p4d_megatron_step *p, p4d_allocated *block, p4d_wide elements)
{
	p4d_allocated next = take(p, elements);

	give(p, block);
	*block = next;
}

static void take_for_a_while(p4d_megatron_step *p, p4d_wide elements)
{
	p4d_allocated block = take(p, elements);

	give(p, &block);
}

static p4d_wide narrow_of(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.own * p->z.h;
}

static p4d_wide wide_of(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * p->z.h;
}

/*
 * Allocates the result of a matmul that is summed over tensor-parallel ranks. With sequence parallelism, each
 * rank keeps only its tokens.
 */
static p4d_allocated summed(p4d_megatron_step *p)
{
	p4d_allocated sum = take(p, wide_of(p));

	if (p->z.gathers)
		replace(p, &sum, narrow_of(p));
	return sum;
}

static p4d_allocated gathered(p4d_megatron_step *p)
{
	return p->z.gathers ? take(p, wide_of(p)) : 0;
}

/* ---- parameters ---- */

typedef struct expert_matrices {
	uint64_t elements, count;
	bool experts;
} expert_matrices;
enum { MATRICES = 6 };

/* Lists the matrices of a layer in the order in which modules make them. */
static void list_matrices(const p4d_megatron_step *p, expert_matrices of[MATRICES])
{
	const p4d_layout *l = p->l;
	const uint64_t F = l->expert_ffn / l->etp, S = l->shared_ffn / l->tp, h = p->z.h,
		       n = l->experts / l->ep;
	const expert_matrices all[MATRICES] = {{h * p->z.A, 1, false}, {(p->z.A + 2 * p->z.G) * h, 1, false},
					       {2 * F * h, n, true},   {F * h, n, true},
					       {2 * S * h, 1, false},  {S * h, 1, false}};

	for (unsigned i = 0; i < MATRICES; i++)
		of[i] = all[i];
}

uint64_t p4d_megatron__expert_layer(const p4d_megatron_step *p)
{
	expert_matrices of[MATRICES];
	uint64_t sum = 0;

	list_matrices(p, of);
	for (unsigned i = 0; i < MATRICES; i++)
		sum += of[i].elements * of[i].count;
	return sum;
}

/*
 * The largest number of layers for which the allocator has records. each: an upper bound on the records for
 * the matrices and activations of one layer.
 */
uint32_t p4d_megatron__expert_depth(const p4d_layout *l)
{
	const uint64_t each = l->vpp * (2 * (l->experts / l->ep) + 32),
		       depth = P4D_ALLOCATOR_BLOCKS * 3 / 4 / each;

	return depth < P4D_MEGATRON_DEPTH ? (uint32_t)depth : P4D_MEGATRON_DEPTH;
}

static uint64_t table_of(const p4d_megatron_step *p)
{
	return (p->l->vocab + p->l->tp - 1) / p->l->tp * p->z.h;
}

/*
 * Whether experts have a buffer of their own. Without expert parallelism, they are in the same buffers as all
 * other parameters.
 */
static bool is_apart(const p4d_megatron_step *p)
{
	return p->l->ep > 1;
}

static int groups_of(const p4d_megatron_step *p)
{
	return is_apart(p) ? 2 : 1;
}

static bool in_group(const p4d_megatron_step *p, bool of_experts, bool experts)
{
	return !is_apart(p) || of_experts == experts;
}

/* Elements of a group of parameters: the experts, or all other parameters. */
static p4d_wide elements_of(const p4d_megatron_step *p, bool experts)
{
	expert_matrices of[MATRICES];
	p4d_wide sum = in_group(p, false, experts) ? (p4d_wide)p->tables * table_of(p) : 0;

	list_matrices(p, of);
	for (unsigned i = 0; i < MATRICES; i++)
		if (in_group(p, of[i].experts, experts))
			sum += (p4d_wide)of[i].elements * of[i].count * p->layers * p->chunks;
	return sum;
}

static void load_parameter(p4d_megatron_step *p, uint64_t elements)
{
	if (p->parameters < P4D_ALLOCATOR_BLOCKS)
		p->parameter[p->parameters++] = take(p, elements);
	else
		p->a.overflow = true;
}

static void load_parameters(p4d_megatron_step *p)
{
	expert_matrices of[MATRICES];

	list_matrices(p, of);
	p->parameters = 0;
	if (p->tables > p->last)
		load_parameter(p, table_of(p));
	for (uint32_t i = 0; i < p->layers * p->chunks; i++)
		for (unsigned m = 0; m < MATRICES; m++)
			for (uint64_t n = 0; n < of[m].count && !p->a.overflow; n++)
				load_parameter(p, of[m].elements);
	if (p->last && p->tables)
		load_parameter(p, table_of(p));
}

/* While states are allocated: bytes per element, and the part of a group that the rank still has to get. */
typedef struct of_group {
	p4d_wide left;
	unsigned element, copies;
	bool clones; /* the rank's part of a parameter is copied before it is cast */
} of_group;

static void take_part(p4d_megatron_step *p, p4d_megatron_blocks *into, of_group *g, uint64_t elements)
{
	const uint64_t part = g->left < elements ? (uint64_t)g->left : elements;
	p4d_allocated clone = g->clones ? take(p, part) : 0;

	for (unsigned i = 0; i < g->copies; i++)
		p4d_megatron__take(p, into, part * g->element);
	give(p, &clone);
	g->left -= part;
}

/* Allocates the states of a group from the end of the model to its beginning, the order of the buffers. */
static void take_group(p4d_megatron_step *p, p4d_megatron_blocks *into, bool experts, of_group g)
{
	const bool others = in_group(p, false, experts);
	expert_matrices of[MATRICES];

	list_matrices(p, of);
	if (others && p->last && p->tables)
		take_part(p, into, &g, table_of(p));
	for (uint32_t i = 0; i < p->layers * p->chunks; i++)
		for (unsigned m = MATRICES; m-- > 0;)
			for (uint64_t n = 0; n < of[m].count && g.left && !p->a.overflow; n++)
				if (in_group(p, of[m].experts, experts))
					take_part(p, into, &g, of[m].elements);
	if (others && p->tables > p->last)
		take_part(p, into, &g, table_of(p));
}

static void take_states(p4d_megatron_step *p, p4d_megatron_blocks *into, of_group g)
{
	for (int experts = 0; experts < groups_of(p); experts++) {
		g.left = p4d_div_up(elements_of(p, experts),
				    experts ? p4d_expert_shards(p->l) : p4d_optimizer_shards(p->l));
		take_group(p, into, experts, g);
	}
}

void p4d_megatron__expert_states(p4d_megatron_step *p, p4d_megatron_blocks *into, unsigned element,
				 unsigned copies)
{
	take_states(p, into, (of_group){.element = element, .copies = copies});
}

void p4d_megatron__load_experts(p4d_megatron_step *p)
{
	const bool gathers = p->l->optimizer_sharding;
	const unsigned of_gradient = p->l->grad_dtype == P4D_GRAD_FP32 ? 4 : p->element;

	load_parameters(p);
	for (int experts = 0; experts < groups_of(p); experts++) {
		const p4d_wide elements = elements_of(p, experts);
		if (gathers)
			take(p, elements);
		take(p, elements * of_gradient / p->element);
	}
	for (unsigned i = p->parameters; gathers && i-- > 0;)
		give(p, &p->parameter[i]);
	take_states(p, NULL, (of_group){.element = 4, .copies = 1, .clones = gathers});
}

/* ---- attention ---- */

static void forward_attention(p4d_megatron_step *p, p4d_allocated *kept)
{
	const p4d_layout *l = p->l;
	const p4d_wide A = (p4d_wide)p->z.tokens * p->z.A, G = (p4d_wide)p->z.tokens * p->z.G;
	p4d_allocated query = 0, key = 0;

	kept[KEPT_NORM] = take(p, narrow_of(p));
	p4d_allocated whole = gathered(p);
	kept[KEPT_PRODUCT] = take(p, A + 2 * G);
	give(p, &whole);
	if (l->qk_norm) {
		kept[KEPT_QUERY_BEFORE_NORM] = take(p, A);
		query = take(p, A);
		kept[KEPT_KEY_BEFORE_NORM] = take(p, G);
		key = take(p, G);
	} else {
		query = take(p, A);
	}
	kept[KEPT_QUERY] = take(p, A);
	kept[KEPT_KEY] = take(p, G);
	if (!again(l, P4D_MODULE_CORE_ATTENTION))
		kept[KEPT_VALUE] = take(p, G);
	kept[KEPT_OUTPUT] = take(p, A);
	p4d_allocated result = summed(p);
	give(p, &query);
	give(p, &key);
	if (!again(l, P4D_MODULE_CORE_ATTENTION))
		give(p, &kept[KEPT_PRODUCT]);
	kept[KEPT_MIDDLE] = take(p, narrow_of(p));
	give(p, &result);
}

static void backward_kernel(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated gradient[3])
{
	const p4d_wide A = (p4d_wide)p->z.tokens * p->z.A, G = (p4d_wide)p->z.tokens * p->z.G;
	p4d_allocated whole = gathered(p);
	p4d_allocated of_output = take(p, A);

	p4d_megatron__make_dummy(p, "dummy.output");
	give(p, &whole);
	if (again(p->l, P4D_MODULE_CORE_ATTENTION)) {
		p4d_allocated value = take(p, G), output = take(p, A);
		give(p, &value);
		give(p, &output);
	}
	take_for_a_while(p, 2 * A); /* the gradient of queries in fp32, freed at once */
	gradient[0] = take(p, A);
	gradient[1] = take(p, G);
	gradient[2] = take(p, G);
	give(p, &of_output);
	for (int i = KEPT_QUERY; i <= KEPT_OUTPUT; i++)
		give(p, &kept[i]);
}

/* Allocates the gradient of the layer's input and returns it; frees the gradient of attention's result. */
static p4d_allocated backward_attention(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated of_result)
{
	const p4d_wide A = (p4d_wide)p->z.tokens * p->z.A, G = (p4d_wide)p->z.tokens * p->z.G;
	p4d_allocated gradient[3];

	backward_kernel(p, kept, gradient);
	for (int norms = 0; norms <= (p->l->qk_norm ? 1 : 0);
	     norms++) { /* the rotation, and the norms before it */
		replace(p, &gradient[1], G);
		replace(p, &gradient[0], A);
	}
	give(p, &kept[KEPT_QUERY_BEFORE_NORM]);
	give(p, &kept[KEPT_KEY_BEFORE_NORM]);
	p4d_allocated product = take(p, A + 2 * G);
	for (int i = 0; i < 3; i++)
		give(p, &gradient[i]);
	give(p, &kept[KEPT_PRODUCT]);
	p4d_allocated input = gathered(p), of_input = take(p, wide_of(p));
	p4d_allocated own = p->z.gathers ? take(p, narrow_of(p)) : 0;
	p4d_megatron__make_dummy(p, "dummy.qkv");
	give(p, &kept[KEPT_NORM]);
	give(p, &input);
	p4d_allocated of_norm = take(p, narrow_of(p));
	give(p, &own);
	give(p, &of_input);
	give(p, &product);
	give(p, &kept[KEPT_INPUT]);
	p4d_allocated sum = take(p, narrow_of(p));
	give(p, &of_norm);
	give(p, &of_result);
	return sum;
}

/* ---- experts ---- */

typedef struct routed {
	p4d_wide permuted, received, gathered, h, F; /* elements; F: columns of an expert's activation */
	bool exchanged, sorted, summed; /* summed: a sum over the ranks that share an expert follows */
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
	p4d_allocated whole = gathered(p);
	kept[KEPT_SHARED_UP] = take(p, 2 * S);
	give(p, &whole);
	kept[KEPT_SHARED_ACTIVATION] = take(p, S);
	return summed(p);
}

/* Sends the experts' results back to the tokens' ranks, and sums them for each token. */
static p4d_allocated combine(p4d_megatron_step *p, const routed *r, p4d_allocated result)
{
	if (r->sorted)
		replace(p, &result, r->h);
	if (r->summed)
		replace(p, &result, r->received);
	if (r->exchanged)
		replace(p, &result, r->permuted);
	p4d_allocated sum = take(p, narrow_of(p));
	give(p, &result);
	return sum;
}

/* saves: keeps blocks for a backward pass. Returns the block of the result. */
static p4d_allocated forward_experts(p4d_megatron_step *p, p4d_allocated *kept, bool saves)
{
	const routed r = routed_of(p);
	p4d_allocated shared = forward_shared(p, kept), permuted = take(p, r.permuted), received = 0;

	if (r.exchanged)
		received = take(p, r.received);
	p4d_allocated *last = r.exchanged ? &received : &permuted;
	if (r.sorted || r.summed) {
		kept[KEPT_EXPERT_INPUT] = take(p, r.h);
	} else {
		kept[KEPT_EXPERT_INPUT] = *last;
		*last = 0;
	}
	kept[KEPT_UP] = take(p, 2 * r.F);
	kept[KEPT_ACTIVATION] = take(p, r.F);
	if (!saves)
		give(p, &kept[KEPT_UP]);
	p4d_allocated result = take(p, r.h);
	for (int i = KEPT_EXPERT_INPUT; !saves && i <= KEPT_SHARED_ACTIVATION; i++)
		give(p, &kept[i]);
	p4d_allocated sum = combine(p, &r, result);
	give(p, &received);
	give(p, &permuted);
	if (shared) {
		replace(p, &sum, narrow_of(p));
		give(p, &shared);
	}
	return sum;
}

static void backward_shared(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated *sum)
{
	const p4d_wide S = (p4d_wide)p->z.tokens * (p->l->shared_ffn / p->l->tp);

	if (!S)
		return;
	p4d_allocated whole = gathered(p), up = take(p, S);
	p4d_megatron__make_dummy(p, "dummy.shared_down");
	give(p, &whole);
	give(p, &kept[KEPT_SHARED_ACTIVATION]);
	replace(p, &up, 2 * S);
	give(p, &kept[KEPT_SHARED_UP]);
	whole = gathered(p);
	p4d_allocated input = summed(p);
	p4d_megatron__make_dummy(p, "dummy.shared_up");
	give(p, &whole);
	give(p, &up);
	replace(p, sum, narrow_of(p));
	give(p, &input);
}

/* Returns the gradient of the norm's result; the caller frees the gradient of the layer's result. */
static p4d_allocated backward_experts(p4d_megatron_step *p, p4d_allocated *kept)
{
	const routed r = routed_of(p);
	p4d_allocated g = take(p, r.permuted);

	if (r.exchanged)
		replace(p, &g, r.received);
	if (r.sorted || r.summed)
		replace(p, &g, r.h);
	p4d_allocated next = take(p, r.F);
	p4d_megatron__make_dummy(p, "dummy.expert_down");
	give(p, &g);
	g = next;
	give(p, &kept[KEPT_ACTIVATION]);
	replace(p, &g, 2 * r.F);
	give(p, &kept[KEPT_UP]);
	next = take(p, r.h);
	p4d_megatron__make_dummy(p, "dummy.expert_up");
	give(p, &g);
	g = next;
	give(p, &kept[KEPT_EXPERT_INPUT]);
	if (r.sorted)
		replace(p, &g, r.h);
	if (r.summed)
		replace(p, &g, r.received);
	if (r.exchanged)
		replace(p, &g, r.permuted);
	p4d_allocated zeros = take(p, narrow_of(p)), sum = take(p, narrow_of(p));
	give(p, &zeros);
	give(p, &g);
	backward_shared(p, kept, &sum);
	p4d_allocated of_router = take(p, narrow_of(p));
	give(p, &kept[KEPT_ROUTER_NORM]);
	replace(p, &sum, narrow_of(p));
	give(p, &of_router);
	return sum;
}

/* ---- layers ---- */

static p4d_allocated forward_layer(p4d_megatron_step *p, p4d_allocated *kept, bool saves)
{
	forward_attention(p, kept);
	for (int i = KEPT_NORM; !saves && i <= KEPT_OUTPUT; i++)
		give(p, &kept[i]);
	kept[KEPT_ROUTER_NORM] = take(p, narrow_of(p));
	p4d_allocated sum = forward_experts(p, kept, saves && !again(p->l, P4D_MODULE_MOE));
	p4d_allocated result = take(p, narrow_of(p));
	give(p, &sum);
	if (!saves) {
		give(p, &kept[KEPT_ROUTER_NORM]);
		give(p, &kept[KEPT_MIDDLE]);
	}
	return result;
}

static p4d_allocated backward_layer(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated gradient)
{
	p4d_allocated result = 0;

	if (p->l->recompute == P4D_RECOMPUTE_FULL)
		result = forward_layer(p, kept, true);
	else if (again(p->l, P4D_MODULE_MOE))
		result = forward_experts(p, kept, true);
	give(p, &result);
	p4d_allocated of_norm = backward_experts(p, kept);
	replace(p, &of_norm, narrow_of(p)); /* the norm's backward pass makes the gradient of its input */
	give(p, &kept[KEPT_MIDDLE]);
	p4d_allocated sum = take(p, narrow_of(p));
	give(p, &of_norm);
	give(p, &gradient);
	return backward_attention(p, kept, sum);
}

void p4d_megatron__expert_forward(p4d_megatron_step *p, unsigned slot)
{
	p4d_allocated state = take(p, narrow_of(p));

	for (uint32_t i = 0; i < p->layers; i++) {
		p->kept[slot][i][KEPT_INPUT] = state;
		state = forward_layer(p, p->kept[slot][i], p->l->recompute != P4D_RECOMPUTE_FULL);
	}
	give(p, &state); /* the result was sent, or it counts in the head's rows */
}

void p4d_megatron__expert_backward(p4d_megatron_step *p, unsigned slot)
{
	p4d_allocated gradient = take(p, narrow_of(p));

	for (uint32_t i = p->layers; i-- > 0;)
		gradient = backward_layer(p, p->kept[slot][i], gradient);
	give(p, &gradient);
}
