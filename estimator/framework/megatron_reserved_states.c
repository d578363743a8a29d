/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of Megatron-LM's parameters, gradients and optimizer states. DistributedDataParallel has buffers for
 * each chunk of the model and, with expert parallelism, others for experts (param_and_grad_buffer.py). They
 * are filled from the end of the chunk. The distributed optimizer shards each buffer (distrib_optimizer.py).
 */
#include <string.h>

#include "framework/megatron_reserved_states.h"
#include "plan/parameters.h"

typedef struct matrix {
	uint64_t elements, count;
	bool experts;
} matrix;
enum { MATRICES = 6 };

/* Lists the matrices of a layer in the order in which modules make them. */
static void list_matrices(const p4d_megatron_step *p, bool routed, matrix of[MATRICES])
{
	const p4d_layout *l = p->l;
	const uint64_t h = p->z.h, n = routed ? l->experts / l->ep : 0,
		       F = routed ? l->expert_ffn / l->etp : 0;
	const uint64_t S = routed ? l->shared_ffn / l->tp : 0;
	const matrix all[MATRICES] = {{h * p->z.A, 1, false},
				      {(p->z.A + 2 * p->z.G) * h, 1, false},
				      {2 * F * h, n, true},
				      {F * h, n, true},
				      {routed ? 2 * S * h : p->z.up * h, 1, false},
				      {routed ? S * h : p->z.F * h, 1, false}};

	for (unsigned i = 0; i < MATRICES; i++)
		of[i] = all[i];
}

uint64_t p4d_megatron__table(const p4d_megatron_step *p)
{
	return (p->l->vocab + p->l->tp - 1) / p->l->tp * p->z.h;
}

static bool has_embedding(const p4d_megatron_step *p, uint32_t chunk)
{
	return p->first && !chunk;
}

/* A tied head on the stage of the embedding has no table of its own. */
static bool has_head(const p4d_megatron_step *p, uint32_t chunk)
{
	return p->last && chunk + 1 == p->chunks && !(p->first && p->l->tied);
}

/* ---- groups of parameters ---- */

/* Without expert parallelism, experts are in the same buffers as all other parameters. */
static int groups_of(const p4d_megatron_step *p)
{
	return p->l->experts && p->l->ep > 1 ? 2 : 1;
}

static bool in_group(const p4d_megatron_step *p, bool of_experts, int experts)
{
	return groups_of(p) == 1 || of_experts == experts;
}

/* How a state is allocated for each parameter, while states are allocated. */
typedef struct state {
	unsigned bytes, copies; /* bytes of an element; number of copies */
	bool clones;            /* the rank's part of a parameter is copied before it is cast */
	bool stays;    /* true: it is never freed; false: its blocks are in p->block until zero_grad() */
	p4d_wide left; /* elements of the shard that the rank still has to get */
} state;

static void remember(p4d_megatron_step *p, p4d_allocated block)
{
	if (p->blocks < P4D_ALLOCATOR_BLOCKS)
		p->block[p->blocks++] = block;
	else
		p->main.overflow = true;
}

static void take_part(p4d_megatron_step *p, state *s, uint64_t elements)
{
	const uint64_t part = s->left < elements ? (uint64_t)s->left : elements;
	p4d_allocated clone = s->clones ? take(p, part) : 0;

	for (unsigned i = 0; i < s->copies && part; i++) {
		const p4d_allocated block = take_bytes(p, (p4d_wide)part * s->bytes);
		if (!s->stays)
			remember(p, block);
	}
	give(p, &clone);
	s->left -= part;
}

/* Called for each parameter of a chunk's group. */
typedef void visit(p4d_megatron_step *p, state *s, uint64_t elements);

static void visit_layer(p4d_megatron_step *p, bool routed, int experts, visit *do_this, state *s)
{
	matrix of[MATRICES];

	list_matrices(p, routed, of);
	for (unsigned i = 0; i < MATRICES; i++) {
		const matrix *m = &of[p->l->optimizer_sharding ? MATRICES - 1 - i : i];
		for (uint64_t n = 0; m->elements && n < m->count && in_group(p, m->experts, experts); n++)
			do_this(p, s, m->elements);
	}
}

/*
 * Visits the parameters in the order of their buffers, which begins at the end of the chunk. Without buffers
 * (no distributed optimizer), visits them in the model's order.
 */
static void visit_group(p4d_megatron_step *p, uint32_t chunk, int experts, visit *do_this, state *s)
{
	const bool from_end = p->l->optimizer_sharding, others = in_group(p, false, experts);
	const bool head = others && has_head(p, chunk), embedding = others && has_embedding(p, chunk);

	if (from_end ? head : embedding)
		do_this(p, s, p4d_megatron__table(p));
	for (uint32_t i = 0; i < p->layers && !p4d_megatron__ends(p); i++)
		visit_layer(p, p->routed[chunk][from_end ? p->layers - 1 - i : i], experts, do_this, s);
	if (from_end ? embedding : head)
		do_this(p, s, p4d_megatron__table(p));
}

static void count_part(p4d_megatron_step *p, state *s, uint64_t elements)
{
	(void)p;
	s->left += elements;
}

static p4d_wide elements_of(p4d_megatron_step *p, uint32_t chunk, int experts)
{
	state sum = {.left = 0};

	visit_group(p, chunk, experts, count_part, &sum);
	return sum.left;
}

/* Each group has an optimizer for all chunks. */
static void take_states(p4d_megatron_step *p, state s)
{
	for (int experts = 0; experts < groups_of(p); experts++)
		for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
			s.left = p4d_div_up(elements_of(p, chunk, experts),
					    experts ? p4d_expert_shards(p->l) : p4d_optimizer_shards(p->l));
			visit_group(p, chunk, experts, take_part, &s);
		}
}

/* ---- at the start ---- */

static void load_parameters(p4d_megatron_step *p, uint32_t chunk)
{
	if (has_embedding(p, chunk))
		remember(p, take(p, p4d_megatron__table(p)));
	for (uint32_t i = 0; i < p->layers; i++) {
		matrix of[MATRICES];
		list_matrices(p, p->routed[chunk][i], of);
		for (unsigned m = 0; m < MATRICES; m++)
			for (uint64_t n = 0; n < of[m].count && !p->main.overflow; n++)
				remember(p, take(p, of[m].elements));
	}
	if (has_head(p, chunk))
		remember(p, take(p, p4d_megatron__table(p)));
}

/* The distributed optimizer moves parameters into their buffers. */
static void load_buffers(p4d_megatron_step *p, uint32_t chunk, unsigned first, unsigned end)
{
	const unsigned of_gradient = p->l->grad_dtype == P4D_GRAD_FP32 ? 4 : p->element;

	for (int experts = 0; experts < groups_of(p); experts++) {
		const p4d_wide elements = elements_of(p, chunk, experts);
		if (p->l->optimizer_sharding)
			take(p, elements);
		take_bytes(p, elements * of_gradient);
	}
	for (unsigned i = end; p->l->optimizer_sharding && i-- > first;)
		give(p, &p->block[i]);
}

void p4d_megatron__load(p4d_megatron_step *p)
{
	unsigned end[P4D_MEGATRON_CHUNKS];

	p->blocks = 0;
	for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
		load_parameters(p, chunk);
		end[chunk] = p->blocks;
	}
	for (uint32_t chunk = 0; chunk < p->chunks; chunk++)
		load_buffers(p, chunk, chunk ? end[chunk - 1] : 0, end[chunk]);
	p->blocks = 0;
	if (p4d_megatron__named(p, "optimizer.master"))
		take_states(p, (state){.bytes = 4, .copies = 1, .clones = true, .stays = true});
}

/* ---- the update ---- */

void p4d_megatron__update(p4d_megatron_step *p, bool first)
{
	const unsigned moments = (p4d_megatron__named(p, "optimizer.first_moment") > 0) +
				 (p4d_megatron__named(p, "optimizer.second_moment") > 0);

	if (p4d_megatron__named(p, "optimizer.gradients"))
		take_states(p, (state){.bytes = 4, .copies = 1});
	if (first)
		take_states(p,
			    (state){.bytes = p->l->half_moments ? 2 : 4, .copies = moments, .stays = true});
	for (unsigned i = 0; i < p->plan->count; i++)
		if (p->plan->tensor[i].lifetime == P4D_LIVES_IN_RANGE &&
		    p->plan->tensor[i].live_range >> P4D_AT_OPTIMIZER & 1 &&
		    p->plan->tensor[i].part == P4D_PART_OPTIMIZER &&
		    strcmp(p->plan->tensor[i].name, "optimizer.gradients") != 0) {
			p4d_allocated copy = take_bytes(p, p->plan->tensor[i].bytes);
			give(p, &copy);
		}
	while (p->blocks)
		give(p, &p->block[--p->blocks]);
}

/*
 * The largest number of layers for which the allocator has records. each: an upper bound on the records for
 * the matrices and activations of one layer.
 */
uint32_t p4d_megatron__depth(const p4d_megatron_step *p)
{
	const p4d_layout *l = p->l;
	const uint64_t matrices = l->experts ? 2 * (l->experts / l->ep) + 32 : 16;
	const uint64_t each = l->vpp * matrices + p->slots * (l->experts ? 0 : 8),
		       depth = P4D_ALLOCATOR_BLOCKS * 3 / 4 / each;

	return depth < P4D_MEGATRON_DEPTH ? (uint32_t)depth : P4D_MEGATRON_DEPTH;
}
