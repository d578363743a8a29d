/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that PyTorch's allocator reserves for Megatron-LM. p4d simulates the allocator during two steps,
 * as transformers_reserved.c does for PyTorch's own frameworks. A row of the plan stands for one tensor, or
 * for a few of known sizes. The first update allocates the moments in blocks that activations have freed, so
 * the second step needs new blocks. Compared with rehearsals of Megatron-Core in test_rehearsed_memory.c.
 */
#include <stdlib.h>
#include <string.h>

#include "framework/megatron_reserved.h"

void p4d_megatron__take(p4d_megatron_step *p, p4d_megatron_blocks *into, uint64_t bytes)
{
	if (!bytes)
		return;
	const p4d_allocated block = p4d_caching_allocator_take(&p->a, bytes);

	if (into && into->count < P4D_MEGATRON_TAKEN)
		into->of[into->count++] = block;
	else
		p->a.overflow = p->a.overflow || into;
}

void p4d_megatron__give(p4d_megatron_step *p, p4d_megatron_blocks *from, unsigned count)
{
	for (unsigned i = count; i < from->count; i++)
		p4d_caching_allocator_give(&p->a, from->of[i]);
	from->count = from->count > count ? count : from->count;
}

/* ---- tensors of a row ---- */

/*
 * Rows that stand for several tensors: two equal ones; one per hidden state; or tensors of the feed-forward
 * part, of the first matmul's width and narrower ones. Each other row is one tensor.
 */
static const struct {
	const char *name;
	p4d_megatron_cut as;
} of_several[] = {{"layer.query_and_output", INTO_HALVES},
		  {"layer.key_and_value", INTO_HALVES},
		  {"layer.ffn", INTO_COLUMNS},
		  {"group.inputs", INTO_HIDDEN},
		  {"again.inputs", INTO_HIDDEN},
		  {"backward.gradients", INTO_COLUMNS},
		  {"forward.output", INTO_HIDDEN},
		  {"schedule.inputs", INTO_HIDDEN},
		  {"schedule.left", INTO_HIDDEN},
		  {"loss.hidden", INTO_HIDDEN},
		  {"head.hidden", INTO_HIDDEN}};

static void find_cuts(p4d_megatron_step *p)
{
	for (unsigned i = 0; i < p->plan->count; i++)
		for (size_t k = 0; k < sizeof(of_several) / sizeof(of_several[0]); k++)
			if (!strcmp(p->plan->tensor[i].name, of_several[k].name))
				p->as[i] = of_several[k].as;
}

static void take_pieces(p4d_megatron_step *p, p4d_megatron_blocks *into, uint64_t bytes, uint64_t piece)
{
	for (; piece && bytes > piece && !p->a.overflow; bytes -= piece)
		p4d_megatron__take(p, into, piece);
	p4d_megatron__take(p, into, bytes);
}

/* Allocates the tensors of a row. bytes: bytes of the row, or of a part of it. */
static void take_row(p4d_megatron_step *p, p4d_megatron_blocks *into, unsigned row, uint64_t bytes)
{
	const uint64_t hidden = p->z.own * p->z.h * p->element, columns = p->z.tokens * p->z.F * p->element;
	const uint64_t product = p->z.tokens * p->z.up * p->element;

	if (p->as[row] == INTO_COLUMNS && bytes > product) {
		p4d_megatron__take(p, into, product);
		bytes -= product;
	}
	if (p->as[row] == WHOLE)
		p4d_megatron__take(p, into, bytes);
	else
		take_pieces(p, into, bytes,
			    p->as[row] == INTO_HALVES   ? bytes / 2
			    : p->as[row] == INTO_HIDDEN ? hidden
							: columns);
}

static void take_at(p4d_megatron_step *p, p4d_megatron_blocks *into, p4d_live_point point)
{
	for (unsigned i = 0; i < p->plan->count; i++) {
		const p4d_tensor *row = &p->plan->tensor[i];
		if (row->lifetime == P4D_LIVES_IN_RANGE && row->live_range >> point & 1 &&
		    row->part != P4D_PART_OPTIMIZER)
			take_row(p, into, i, row->bytes);
	}
}

/*
 * Allocates the tensors that a layer saves for a micro-batch. With recomputation: the tensors of the whole
 * stage, scaled to the number of simulated layers.
 */
static void take_saved(p4d_megatron_step *p, p4d_megatron_blocks *into, bool of_layers)
{
	for (unsigned i = 0; i < p->plan->count; i++) {
		const p4d_tensor *row = &p->plan->tensor[i];
		if (row->lifetime != P4D_LIVES_IN_SLOT ||
		    (row->layers > 1 || p->all_layers == 1) != of_layers)
			continue;
		take_row(p, into, i, of_layers ? row->bytes : row->bytes / p->all_layers * p->layers);
	}
}

/* ---- states ---- */

static uint64_t named(const p4d_megatron_step *p, const char *name)
{
	for (unsigned i = 0; i < p->plan->count; i++)
		if (!strcmp(p->plan->tensor[i].name, name))
			return p->plan->tensor[i].bytes;
	return 0;
}

/*
 * Elements of each matrix of a layer, from the layer's end to its beginning: the order in which gradients
 * arise and in which they are in the buffer.
 */
static unsigned matrices_of(const p4d_megatron_step *p, uint64_t matrix[4])
{
	const p4d_megatron_sizes *z = &p->z;

	matrix[0] = z->h * z->F;
	matrix[1] = z->up * z->h;
	matrix[2] = z->h * z->A;
	matrix[3] = (z->A + 2 * z->G) * z->h;
	return 4;
}

static uint64_t table_of(const p4d_megatron_step *p)
{
	return (p->l->vocab + p->l->tp - 1) / p->l->tp * p->z.h;
}

static uint64_t layer_of(const p4d_megatron_step *p)
{
	uint64_t matrix[4], sum = 0;

	if (p->l->experts)
		return p4d_megatron__expert_layer(p);

	for (unsigned m = matrices_of(p, matrix); m-- > 0;)
		sum += matrix[m];
	return sum;
}

static unsigned count_tables(const p4d_megatron_step *p, uint32_t layers)
{
	const uint64_t all = named(p, "parameters") / p->element,
		       of_layers = layer_of(p) * layers * p->chunks;

	return all < of_layers ? 0 : (unsigned)((all - of_layers + table_of(p) / 2) / table_of(p));
}

/* Bytes of a state (a row of the plan), for the layers that are simulated. */
static uint64_t state(const p4d_megatron_step *p, const char *name)
{
	const uint64_t tables = p->tables * table_of(p), layer = layer_of(p);

	return (uint64_t)((p4d_wide)named(p, name) * (tables + layer * p->layers * p->chunks) /
			  (tables + layer * p->all_layers * p->chunks));
}

static uint64_t take_part(p4d_megatron_step *p, p4d_megatron_blocks *into, uint64_t left, uint64_t bytes,
			  unsigned copies)
{
	const uint64_t part = left < bytes ? left : bytes;

	while (copies-- > 0)
		p4d_megatron__take(p, into, part);
	return left - part;
}

/*
 * Allocates this many bytes of states: as one tensor, or as one tensor for each parameter that the rank has a
 * part of.
 */
static void take_states(p4d_megatron_step *p, p4d_megatron_blocks *into, uint64_t bytes, unsigned element,
			unsigned copies)
{
	uint64_t matrix[4], left = bytes;
	const unsigned matrices = matrices_of(p, matrix);
	unsigned tables = p->tables;

	if (p->last && tables-- > 0)
		left = take_part(p, into, left, table_of(p) * element, copies);
	for (uint32_t i = 0; i < p->layers * p->chunks; i++)
		for (unsigned m = 0; m < matrices; m++)
			left = take_part(p, into, left, matrix[m] * element, copies);
	if (tables)
		left = take_part(p, into, left, table_of(p) * element, copies);
	take_part(p, into, left, left, copies);
}

static void load_libraries(p4d_megatron_step *p)
{
	for (unsigned i = 0; i < p->plan->count; i++)
		if (p->plan->tensor[i].part == P4D_PART_LIBRARIES)
			p4d_megatron__take(p, NULL, p->plan->tensor[i].bytes);
}

void p4d_megatron__make_dummy(p4d_megatron_step *p, const char *name)
{
	for (unsigned i = 0; i < p->plan->count; i++)
		if (!p->exists[i] && !strcmp(p->plan->tensor[i].name, name)) {
			p4d_megatron__take(p, NULL, p->plan->tensor[i].bytes);
			p->exists[i] = true;
		}
}

static void make_dummies(p4d_megatron_step *p)
{
	for (unsigned i = 0; i < p->plan->count; i++)
		if (p->plan->tensor[i].part == P4D_PART_WEIGHT_GRAD)
			p4d_megatron__make_dummy(p, p->plan->tensor[i].name);
}

static void load(p4d_megatron_step *p)
{
	const uint64_t parameters = state(p, "parameters"), gradients = state(p, "gradients");

	if (p->l->experts) {
		p4d_megatron__load_experts(p);
		load_libraries(p);
		return;
	}

	/* the distributed optimizer gathers parameters into one buffer, and moves the parameters there */
	take_states(p, &p->some, parameters, p->element, 1);
	p4d_megatron__take(p, NULL, gradients);
	if (p->sharded) {
		p4d_megatron__take(p, NULL, parameters);
		p4d_megatron__give(p, &p->some, 0);
	}
	p->some.count = 0;
	load_libraries(p);
	take_states(p, NULL, state(p, "optimizer.master"), 4, 1);
}

/* Allocates both moments of each parameter, one parameter after the other. */
static void take_moments(p4d_megatron_step *p)
{
	const unsigned element = p->l->half_moments ? 2 : 4;

	if (p->l->experts)
		p4d_megatron__expert_states(p, NULL, element, 2);
	else
		take_states(p, NULL, state(p, "optimizer.first_moment"), element, 2);
}

/* ---- a step ---- */

static void run_forward(p4d_megatron_step *p, unsigned slot)
{
	p4d_megatron_blocks *saved = &p->saved[slot];
	const uint64_t product = p->z.tokens * (p->z.A + 2 * p->z.G) * p->element;

	if (p->l->experts) {
		p4d_megatron__expert_forward(p, slot);
		return;
	}
	take_saved(p, saved, false);
	for (uint32_t i = 0; i < p->layers; i++) {
		p4d_megatron__take(p, &p->some, product);
		take_saved(p, saved, true);
		p4d_megatron__give(p, &p->some, 0);
	}
	take_at(p, &p->some, P4D_AT_FORWARD);
	p4d_megatron__give(p, &p->some, 0);
}

static void run_loss(p4d_megatron_step *p)
{
	take_at(p, &p->some, P4D_AT_LOSS);
	p4d_megatron__give(p, &p->some, 0);
	take_at(p, &p->some, P4D_AT_HEAD);
	p4d_megatron__make_dummy(p, "dummy.head");
	p4d_megatron__give(p, &p->some, 0);
}

static void run_backward(p4d_megatron_step *p, unsigned slot, unsigned chunk)
{
	p4d_megatron_blocks *saved = &p->saved[slot];
	const unsigned each = saved->count / p->layers;

	if (p->last && chunk + 1 == p->chunks)
		run_loss(p);
	if (p->l->experts)
		p4d_megatron__expert_backward(p, slot);
	for (uint32_t i = p->l->experts ? 0 : p->layers; i-- > 0;) {
		take_at(p, &p->some, P4D_AT_BACKWARD_FFN);
		make_dummies(p);
		p4d_megatron__give(p, &p->some, 0);
		p4d_megatron__give(p, saved, i * each);
	}
	if (!chunk)
		take_at(p, &p->some, P4D_AT_EMBED);
	p4d_megatron__give(p, &p->some, 0);
	p4d_megatron__give(p, saved, 0);
}

/*
 * The interleaved schedule (pipeline_parallel/schedules.py): pp micro-batches of a chunk, then the next
 * chunk. slot: the slots of each chunk's micro-batches; used: a mask of used slots. The other members are
 * hidden states that are being sent or were received ahead.
 */
typedef struct interleaved {
	p4d_megatron_step *p;
	unsigned char slot[P4D_MEGATRON_CHUNKS][P4D_MEGATRON_PLAYED_SLOTS];
	uint32_t used;
	p4d_megatron_blocks output, gradient, of_input;
} interleaved;

static unsigned char *slot_of(interleaved *s, uint32_t chunk, uint32_t pass)
{
	const uint32_t pp = (uint32_t)s->p->l->pp, micro_batch = pass / (pp * s->p->chunks) * pp + pass % pp;

	return &s->slot[chunk][micro_batch % P4D_MEGATRON_PLAYED_SLOTS];
}

/* Allocates a hidden state and frees the previous one of its kind. */
static void exchange(p4d_megatron_step *p, p4d_megatron_blocks *last)
{
	p4d_megatron__take(p, last, p->z.own * p->z.h * p->element);
	if (last->count < 2)
		return;
	p4d_caching_allocator_give(&p->a, last->of[0]);
	last->of[0] = last->of[--last->count];
}

static void forward_pass(interleaved *s, uint32_t pass)
{
	p4d_megatron_step *p = s->p;
	unsigned slot = 0;

	while (s->used >> slot & 1)
		slot++;
	if (slot >= P4D_MEGATRON_PLAYED_SLOTS) {
		p->a.overflow = true;
		return;
	}
	s->used |= 1u << slot;
	*slot_of(s, pass / (uint32_t)p->l->pp % p->chunks, pass) = (unsigned char)slot;
	run_forward(p, slot);
	exchange(p, &s->output);
}

static void backward_pass(interleaved *s, uint32_t pass)
{
	p4d_megatron_step *p = s->p;
	const uint32_t chunk = p->chunks - 1 - pass / (uint32_t)p->l->pp % p->chunks;
	const unsigned slot = *slot_of(s, chunk, pass);

	exchange(p, &s->gradient);
	run_backward(p, slot, chunk);
	exchange(p, &s->of_input);
	s->used &= ~(1u << slot);
}

static void run_interleaved(p4d_megatron_step *p)
{
	const uint32_t pp = (uint32_t)p->l->pp, all = (uint32_t)P4D_LEAST(p->l->micro_batches, 2 * pp);
	const uint32_t passes = all * p->chunks, warm_up = 2 * (pp - 1 - p->stage) + (p->chunks - 1) * pp;
	const uint32_t ahead = warm_up < passes ? warm_up : passes;
	interleaved s = {.p = p};

	for (uint32_t k = 0; k < passes + ahead && !p->a.overflow; k++) {
		if (k < passes)
			forward_pass(&s, k);
		if (k >= ahead && !p->a.overflow)
			backward_pass(&s, k - ahead);
	}
	p4d_megatron__give(p, &s.output, 0);
	p4d_megatron__give(p, &s.gradient, 0);
	p4d_megatron__give(p, &s.of_input, 0);
}

/* Runs forward passes until the pipeline is full. Then a forward pass follows each backward pass. */
static void run_passes(p4d_megatron_step *p)
{
	const uint64_t all = p->l->micro_batches;
	const unsigned ahead = all > p->slots ? p->slots : (unsigned)all;

	if (p->chunks > 1) {
		run_interleaved(p);
		return;
	}
	for (unsigned i = 0; i + 1 < ahead; i++)
		run_forward(p, i);
	for (unsigned i = 0; i < 2;
	     i++) { /* two micro-batches are enough, because later ones are like the second */
		run_forward(p, ahead - 1);
		run_backward(p, ahead - 1, 0);
	}
	for (unsigned i = 0; i + 1 < ahead; i++)
		run_backward(p, i, 0);
}

static void run_update(p4d_megatron_step *p, bool first)
{
	if (p->l->experts && named(p, "optimizer.gradients"))
		p4d_megatron__expert_states(p, &p->gradients, 4, 1);
	if (!p->l->experts)
		take_states(p, &p->gradients, state(p, "optimizer.gradients"), 4, 1);
	if (first)
		take_moments(p);
	take_at(p, &p->some, P4D_AT_OPTIMIZER);
	p4d_megatron__give(p, &p->some, 0);
	p4d_megatron__give(p, &p->gradients, 0); /* zero_grad() of the next step */
}

static bool is_played(const p4d_layout *l, const p4d_plan *plan)
{
	return l->flash_attention && (!l->experts || p4d_megatron__plays_experts(l)) && !l->kv_rank &&
	       !l->pattern_length &&
	       (l->vpp == 1 ||
		(l->micro_batches % l->pp == 0 && l->vpp <= P4D_MEGATRON_CHUNKS && l->pp <= 64)) &&
	       !l->uneven_chunks && l->precision != P4D_FP8 && !l->megatron.graphs && !l->mtp_layers &&
	       plan->slots.activation <= P4D_MEGATRON_PLAYED_SLOTS;
}

static void begin(p4d_megatron_step *p, const p4d_layout *l, uint32_t stage, const p4d_plan *plan)
{
	memset(p, 0, sizeof(*p));
	p->l = l;
	p->plan = plan;
	p->z = p4d_framework__megatron_sizes(l, l->micro_batch);
	p->chunks = (uint32_t)l->vpp;
	p->stage = stage;
	p->all_layers = (uint32_t)(l->layers / l->pp / l->vpp);
	p->slots = plan->slots.activation;
	p->last = named(p, "loss.logits") > 0;
	p->sharded = p4d_optimizer_shards(l) > 1;
	p->element = l->precision == P4D_FP32 ? 4 : 2;
	p->tables = count_tables(p, p->all_layers);
	find_cuts(p);
}

static uint64_t played(p4d_megatron_step *p, uint32_t layers)
{
	p->layers = layers;
	memset(p->exists, 0, sizeof(p->exists));
	p4d_caching_allocator_start(&p->a, p->l->allocator == P4D_ALLOCATOR_EXPANDABLE);
	load(p);
	for (int step = 0; step < 2; step++) {
		run_passes(p);
		run_update(p, step == 0);
	}
	return p->a.overflow ? 0 : p4d_caching_allocator_reserved(&p->a);
}

static uint64_t played_to_depth(p4d_megatron_step *p)
{
	const uint32_t depth = p->l->experts ? p4d_megatron__expert_depth(p->l) : P4D_MEGATRON_DEPTH;

	if (p->all_layers <= depth)
		return played(p, p->all_layers);
	if (depth < 2)
		return 0;
	/* in deep models, each layer beyond `depth` adds the same amount */
	const uint64_t some = played(p, depth), half = played(p, depth / 2);
	return half && some > half ? some + (some - half) / (depth - depth / 2) * (p->all_layers - depth) : 0;
}

uint64_t p4d_megatron__reserved(const p4d_layout *l, uint32_t stage, const p4d_plan *plan, bool is_short)
{
	/* the allocator's layout of blocks on a nearly full GPU was not compared with real runs */
	if (is_short || !is_played(l, plan) || l->layers < l->pp * l->vpp)
		return 0;
	p4d_megatron_step *p = malloc(sizeof(*p));
	if (!p)
		return 0;
	begin(p, l, stage, plan);
	const uint64_t bytes = played_to_depth(p);
	free(p);
	return bytes;
}
