/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two steps with torchtitan's modules, simulated block by block on PyTorch's allocator. FSDP2's gathering and
 * reducing streams have separate pools (_fsdp_param_group.py, _fsdp_collectives.py). The tapes of
 * torchtitan_layer.c give a layer's blocks, torchtitan_fsdp.c the amounts. Compared with rehearsals in
 * test_rehearsed_memory.c.
 */
#include <stdlib.h>
#include <string.h>

#include "framework/torchtitan_reserved.h"
#include "plan/optimizer.h"

#define MIB ((uint64_t)1 << 20)

enum { CHUNKS = 8, DEPTH = 24 };

/* ---- parameters ---- */

static void list_matrices(p4d_titan *p)
{
	const p4d_layout *l = p->l;
	const uint64_t h = l->hidden, A = l->heads / l->tp * l->head_dim,
		       G = l->kv_heads / l->tp * l->head_dim;
	const uint64_t ffn = l->experts ? l->experts * p4d_torchtitan__expert_columns(l) : l->ffn / l->tp;
	const uint64_t all[P4D_TITAN_MATRICES] = {(A + 2 * G) * h, h * A,   l->experts * h,
						  ffn * h,         ffn * h, ffn * h};

	for (int i = 0; i < P4D_TITAN_MATRICES; i++)
		if (all[i])
			p->matrix[p->matrices++] = all[i];
}

static p4d_wide shard_of(const p4d_titan *p, uint64_t elements, unsigned element)
{
	return (p4d_wide)((elements + p->z.shards - 1) / p->z.shards) * element;
}

static void take_shard(p4d_titan *p, uint64_t elements, unsigned copies)
{
	while (copies-- > 0)
		p4d_titan__take(p, NULL, shard_of(p, elements, p->z.param));
}

static void take_shards_of_layer(p4d_titan *p, unsigned copies)
{
	for (unsigned m = 0; m < p->matrices; m++)
		take_shard(p, p->matrix[m], copies);
}

/*
 * to_empty() allocates each module's tensors. If two tables are tied, init_states() drops the first one.
 * init_states() also computes each layer's cosines and sines again.
 */
static void load(p4d_titan *p)
{
	const p4d_wide angles = p4d_torchtitan__angles(p->l);
	const p4d_allocated table =
	    p->first ? p4d_caching_allocator_take(&p->main, shard_of(p, p->table, p->z.param)) : 0;

	for (uint32_t i = 0; i < p->layers; i++) {
		p4d_titan__take(p, &p->some, angles);
		take_shards_of_layer(p, 1);
	}
	if (p->last)
		take_shard(p, p->table, 1);
	for (uint32_t i = 0; i < p->layers; i++) {
		p4d_titan__take(p, NULL, angles);
		p4d_caching_allocator_give(&p->main, p->some.of[i]);
	}
	p->some.count = 0;
	if (p->tables == 1)
		p4d_caching_allocator_give(&p->main, table);
}

/* Allocates both moments of each parameter, in the order of modules. */
static void take_moments(p4d_titan *p)
{
	const unsigned copies = p4d_optimizer_of(p->l)->states - 1;

	if (p->first)
		take_shard(p, p->table, copies);
	for (uint32_t i = 0; i < p->layers; i++)
		take_shards_of_layer(p, copies);
	if (p->last && p->tables > 1)
		take_shard(p, p->table, copies);
}

/* ---- units ---- */

/*
 * Copies a unit's shard into one tensor, and gathers all shards into another, which lives until the next
 * gather.
 */
void p4d_titan__gather(p4d_titan *p, p4d_wide bytes)
{
	const p4d_allocated shards = p4d_caching_allocator_take(&p->gathers, bytes / p->z.shards),
			    before = p->gathered;

	p->gathered = p4d_caching_allocator_take(&p->gathers, bytes);
	p4d_caching_allocator_give(&p->gathers, shards);
	p4d_caching_allocator_give(&p->gathers, before);
}

void p4d_titan__forget_gathered(p4d_titan *p)
{
	p4d_allocator_forget(&p->gathers, &p->gathered);
}

void p4d_titan__copy_layer(p4d_titan *p, p4d_torch_held_blocks *into)
{
	for (unsigned m = 0; m < p->matrices; m++)
		p4d_titan__take(p, into, (p4d_wide)p->matrix[m] * p->z.element);
}

void p4d_titan__copy_table(p4d_titan *p, p4d_torch_held_blocks *into, unsigned tables)
{
	for (unsigned i = 0; i < tables; i++)
		p4d_titan__take(p, into, (p4d_wide)p->table * p->z.element);
}

/*
 * Copies the gradients of a unit into one fp32 tensor and reduces it. The tensor lives until the next unit is
 * reduced.
 */
void p4d_titan__reduce(p4d_titan *p, p4d_wide bytes, bool accumulated)
{
	const p4d_wide reduced = bytes / p->z.element * p->z.reduced;

	p4d_caching_allocator_give(&p->main, p->reducing);
	p->reducing = p4d_caching_allocator_take(&p->main, reduced);
	p4d_titan__give(p, &p->grads, 0);
	const p4d_allocated shard = p4d_caching_allocator_take(&p->reduces, reduced / p->z.shards);
	if (accumulated) /* the reduced shard is added to that of earlier micro-batches */
		p4d_caching_allocator_give(&p->reduces, shard);
	else
		p4d_torch_blocks__hold(&p->reduced, shard);
}

/* Adds the gradients of a unit to those of earlier micro-batches, in the type of the reduction. */
void p4d_titan__add_up(p4d_titan *p, bool accumulated)
{
	for (unsigned i = 0; i < p->grads.count; i++) {
		if (!accumulated)
			p4d_titan__take(p, &p->sums,
					(p4d_wide)p->grad_bytes[i] / p->z.element * p->z.reduced);
		p4d_caching_allocator_give(&p->main, p->grads.of[i]);
	}
	p->grads.count = 0;
}

void p4d_titan__add_gradient(void *owner, uint64_t bytes)
{
	p4d_titan *p = owner;

	if (p->grads.count < P4D_TITAN_GRADIENTS)
		p->grad_bytes[p->grads.count] = bytes;
	p4d_titan__take(p, &p->grads, bytes);
}

/* ---- passes ---- */

/* Keeps the results that selective recomputation does not recompute. */
static void keep_selected(p4d_titan *p)
{
	for (unsigned i = 0; i < p->tape.operations; i++)
		if (p->tape.operation[i].stays && p->tape.operation[i].out >= 0)
			p4d_titan__take(p, p->saves, p->tape.value[p->tape.operation[i].out].bytes);
}

static unsigned selected(const p4d_titan *p)
{
	unsigned count = 0;

	for (unsigned i = 0; i < p->tape.operations; i++)
		count += p->tape.operation[i].stays && p->tape.operation[i].out >= 0 &&
			 p->tape.value[p->tape.operation[i].out].bytes > 0;
	return count;
}

/* The forward pass of a layer whose parameters are gathered. */
void p4d_titan__forward_of_layer(p4d_titan *p)
{
	const p4d_allocated input = p->state;

	if (p->again)
		p4d_torch_blocks__hold(p->saves, input);
	p->state = p4d_torch_blocks__forward(
	    &p->b, &p->tape, p->again ? P4D_TORCH_SAVES_NONE : P4D_TORCH_SAVES, input, true, NULL);
	p4d_titan__give(p, &p->copies, 0);
	if (p->again) {
		keep_selected(p);
		return;
	}
	if (!p->b.saved[0]) {
		p4d_caching_allocator_give(&p->main, input);
		p->b.value[0] = 0;
	}
	p4d_torch_blocks__put(&p->b, &p->tape, p->saves);
}

static void run_layer(p4d_titan *p)
{
	p4d_titan__gather(p, p->layer_bytes);
	p4d_titan__copy_layer(p, &p->copies);
	p4d_titan__forward_of_layer(p);
}

void p4d_titan__embed(p4d_titan *p)
{
	if (p->l->sequence_parallel)
		p4d_titan__take(p, &p->some, 2 * p4d_titan__wide(p) - p4d_titan__hidden(p));
	p->state = p4d_caching_allocator_take(&p->main, p4d_titan__hidden(p));
	p4d_titan__give(p, &p->some, 0);
}

static void run_forward(p4d_titan *p)
{
	const unsigned together = p->z.together;

	p4d_titan__gather(p, p->table_bytes * (together ? together : 1));
	p4d_titan__copy_table(p, together ? &p->tail : &p->copies, together ? together : 1);
	p4d_titan__embed(p);
	p4d_titan__give(p, &p->copies, 0);
	for (uint32_t i = 0; i < p->layers; i++)
		run_layer(p);
	if (!together) {
		p4d_titan__gather(p, p->table_bytes);
		p4d_titan__copy_table(p, &p->tail, 1);
	}
	p4d_titan__forget_gathered(p);
}

static void forget_logits(p4d_titan *p)
{
	p4d_allocator_forget(&p->main, &p->logits);
}

/*
 * Allocates the logits in 16 bits and in fp32, their log-softmax and two gradients; then runs the head's
 * backward pass.
 */
static void run_logits(p4d_titan *p, p4d_wide logits, bool sums, bool first)
{
	p4d_torch_held_blocks *s = &p->some;
	const unsigned before = s->count;
	const p4d_wide table = (p4d_wide)p->table;
	if (p->l->pp > 1 && !sums)
		forget_logits(p);
	const p4d_allocated logits_before = p->logits;

	p->logits = p4d_caching_allocator_take(&p->main, 2 * logits);
	p4d_caching_allocator_give(&p->main, logits_before);
	p4d_titan__take(p, s, 4 * logits);
	p4d_allocated result = p4d_caching_allocator_take(&p->main, 4 * logits);
	p4d_titan__give(p, s, before);
	if (!sums && p->l->pp == 1) /* with a pipeline, the schedule keeps its last stage's output */
		forget_logits(p);
	p4d_titan__take(p, s, (p->l->sequence_parallel ? 8 : 4) * logits);
	p4d_allocated gradient = p4d_caching_allocator_take(&p->main, 4 * logits);
	p4d_titan__give(p, s, before);
	p4d_caching_allocator_give(&p->main, result);
	p4d_titan__take(p, s, 2 * logits);
	p4d_caching_allocator_give(&p->main, gradient);
	if (!sums) {
		p4d_titan__add_gradient(p, (uint64_t)(table * p->z.element));
	} else { /* the gradients of chunks are summed in fp32 */
		p4d_titan__take(p, s, table * p->z.element);
		p4d_titan__take(p, first ? &p->grads : s, table * p->z.reduced);
	}
	p4d_titan__give(p, s, before);
}

void p4d_titan__loss(p4d_titan *p, bool accumulated)
{
	const p4d_layout *l = p->l;
	const p4d_wide logits = (p4d_wide)p->z.tokens * p->z.V;

	p4d_titan__take(p, &p->copies, p4d_titan__hidden(p)); /* result of the last norm */
	if (l->sequence_parallel)
		p4d_titan__take(p, &p->copies, p4d_titan__wide(p));
	if (l->torch.chunked_loss) {
		p4d_titan__take(p, &p->copies, p4d_titan__wide(p) / p->z.element * 4);
		if (l->micro_batch > 1)
			p4d_titan__take(p, &p->copies, p4d_titan__wide(p));
		for (int i = 0; i < CHUNKS; i++)
			run_logits(p, logits / CHUNKS, true, i == 0);
	} else {
		run_logits(p, logits, false, true);
	}
	if (l->torch.chunked_loss || (!p->z.together && l->pp == 1)) {
		/*
		 * in a pipeline, a later micro-batch also reduces the norm's gradient of the micro-batch
		 * before
		 */
		p4d_titan__reduce(p, l->pp > 1 && accumulated ? p->head_bytes : p->table_bytes, accumulated);
		p4d_titan__give(p, &p->tail, 0);
		if (l->pp > 1)
			p4d_titan__give(p, &p->gathered_units, p->gathered_units.count - 1);
	} else if (l->pp > 1) {
		p4d_titan__add_up(p, accumulated);
	}
	const p4d_allocated gradient = p4d_caching_allocator_take(&p->main, p4d_titan__hidden(p));
	p4d_titan__give(p, &p->copies, 0);
	if (l->pp == 1 || l->torch.chunked_loss)
		forget_logits(p);
	if (p->z.together &&
	    l->torch.chunked_loss) { /* the head's unit is gathered again for the last norm's backward pass */
		p4d_titan__gather(p, p->table_bytes * p->z.together);
		p4d_titan__copy_table(p, &p->tail, p->z.together);
		p4d_titan__forget_gathered(p);
	} else if (l->pp > 1 && l->torch.chunked_loss) {
		p4d_titan__gather(p, p->head_bytes);
		p4d_titan__copy_table(p, &p->gathered_units, 1);
		p4d_titan__forget_gathered(p);
	}
	const p4d_allocated before = p->state;
	p->state = p4d_caching_allocator_take(
	    &p->main, p4d_titan__hidden(p)); /* the gradient of the last layer's result */
	p4d_caching_allocator_give(&p->main, gradient);
	p4d_caching_allocator_give(&p->main, before);
}

void p4d_titan__backward_of_layer(p4d_titan *p)
{
	p4d_allocated input = 0;

	if (p->again) {
		const unsigned kept = selected(p);
		/* frees the results that selective recomputation kept; the simulation recomputes them with
		 * all others */
		p4d_titan__give(p, p->saves, p->saves->count > kept ? p->saves->count - kept : 0);
		input = p->saves->count ? p->saves->of[--p->saves->count] : 0;
		p4d_torch_blocks__forward(&p->b, &p->tape, P4D_TORCH_AGAIN, input, true, NULL);
	} else {
		p4d_torch_blocks__get(&p->b, &p->tape, p->saves);
	}
	p->state = p4d_torch_blocks__backward(&p->b, &p->tape, p->state, p->again);
	if (p->again)
		p4d_caching_allocator_give(&p->main, input);
}

static void run_backward_of_layer(p4d_titan *p, uint32_t i, bool accumulated)
{
	p4d_titan__copy_layer(p, &p->copies);
	p4d_titan__forget_gathered(p);
	p4d_titan__gather(p, i ? p->layer_bytes : p->table_bytes);
	p4d_titan__backward_of_layer(p);
	p4d_titan__give(p, &p->copies, 0);
	p4d_titan__reduce(p, p->layer_bytes, accumulated);
}

static void run_backward(p4d_titan *p, bool accumulated)
{
	p4d_torch_held_blocks tables = {.count = 0};
	const bool waits = p->z.together && !p->l->torch.chunked_loss;

	if (waits) { /* the head's gradient waits until the embedding's gradient exists */
		for (unsigned i = 0; i < p->grads.count; i++)
			p4d_torch_blocks__hold(&tables, p->grads.of[i]);
		p->grads.count = 0;
	}
	p4d_titan__gather(p, p->layer_bytes);
	for (uint32_t i = p->layers; i-- > 0;)
		run_backward_of_layer(p, i, accumulated);
	p4d_titan__forget_gathered(p);
	p4d_titan__add_gradient(p, (uint64_t)((p4d_wide)p->table * p->z.element));
	p4d_titan__take(p, &p->some, (p4d_wide)p->z.tokens * 32 + p4d_titan__wide(p));
	p4d_titan__give(p, &p->some, 0);
	p4d_caching_allocator_give(&p->main, p->state);
	for (unsigned i = 0; i < tables.count; i++)
		p4d_torch_blocks__hold(&p->grads, tables.of[i]);
	p4d_titan__give(p, &p->tail, 0);
	p4d_titan__reduce(p, p->table_bytes * (waits ? p->z.together : 1), accumulated);
	p4d_allocator_forget(&p->main, &p->reducing);
}

static void run_step(p4d_titan *p, bool first)
{
	const unsigned passes = p->l->micro_batches > 1 ? 2 : 1;

	if (p->l->pp > 1)
		p4d_titan__run_passes(p);
	for (unsigned i = 0; p->l->pp == 1 && i < passes; i++) {
		run_forward(p);
		p4d_titan__loss(p, i > 0);
		run_backward(p, i > 0);
	}
	if (first)
		take_moments(p);
	p4d_torch_blocks__release(&p->reduces, &p->reduced, 0);
}

/* ---- a layout ---- */

static void start(p4d_titan *p, const p4d_layout *l, uint32_t layers, uint64_t room)
{
	const p4d_torch_types types = p4d_torch__types(l);

	memset(p, 0, sizeof(*p));
	p->l = l;
	p->layers = layers;
	p->z = (p4d_torchtitan_sizes){.tokens = l->seq_len * l->micro_batch,
				      .h = l->hidden,
				      .V = (l->vocab + l->tp - 1) / l->tp,
				      .element = types.element,
				      .param = types.param,
				      .reduced = types.reduced,
				      .shards = l->shard_degree ? l->shard_degree : l->dp,
				      .together = l->tied ? 2 : 0};
	p->z.own = l->sequence_parallel ? p->z.tokens / l->tp : p->z.tokens;
	p->table = p->z.V * l->hidden;
	p->tables = l->tied ? 1 : 2;
	p->again = l->recompute != P4D_RECOMPUTE_NONE;
	list_matrices(p);
	const p4d_torchtitan_unit layer = p4d_torchtitan__layer_unit(l, &p->z, l->experts > 0),
				  table = p4d_torchtitan__table_unit(l, &p->z, 1, false),
				  head = p4d_torchtitan__table_unit(l, &p->z, 1, true);
	p->layer_bytes = (p4d_wide)p4d_torchtitan__gathered(&layer);
	p->table_bytes = (p4d_wide)p4d_torchtitan__gathered(&table);
	p->head_bytes = (p4d_wide)p4d_torchtitan__gathered(&head);
	p->t = p4d_torchtitan__writer(l, &p->tape);
	p4d_torchtitan__layer(&p->t, l->experts > 0);
	p->saves = &p->slot[0];
	p->b.allocator = &p->main;
	p->b.workspace = 32 * MIB;
	p->b.gradient = p4d_titan__add_gradient;
	p->b.owner = p;
	p4d_caching_allocator *const streams[] = {&p->main, &p->gathers, &p->reduces};
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		p4d_caching_allocator_start(streams[i], l->allocator == P4D_ALLOCATOR_EXPANDABLE);
		p4d_caching_allocator_add(&p->streams, streams[i]);
	}
	p->streams.room = room;
}

/* Whether the allocator can be simulated for this layout: layers are alike, and only some features are on. */
static bool is_played(const p4d_layout *l)
{
	return !l->memory.keys && (l->pp == 1 || (l->vpp == 1 && l->schedule == P4D_1F1B && !l->tied)) &&
	       l->cp == 1 && l->ep == 1 && !l->kv_rank && !l->offload && !l->torch.compile &&
	       l->precision == P4D_BF16 && l->optimizer == P4D_ADAMW &&
	       (!l->experts || p4d_expert_layers_before(l, l->layers) == l->layers);
}

typedef struct titan_depth {
	p4d_titan *p;
	const p4d_layout *l;
	uint32_t layers, stage, ahead;
} titan_depth;

static uint64_t play(void *of, uint64_t room, p4d_allocator_use *use)
{
	const titan_depth *depth = of;
	p4d_titan *p = depth->p;

	start(p, depth->l, depth->layers, room);
	p->first = depth->stage == 0;
	p->last = depth->stage + 1 == depth->l->pp;
	p->ahead = depth->ahead;
	load(p);
	run_step(p, true);
	run_step(p, false);
	*use = (p4d_allocator_use){p->streams.most_taken, p->streams.work};
	if (p->streams.exhausted)
		return UINT64_MAX;
	if (p->main.overflow || p->gathers.overflow || p->reduces.overflow || p->saves->overflow ||
	    p->tape.overflow || p->reduced.overflow || p->sums.overflow || p->gathered_units.overflow)
		return 0;
	return p->streams.most_reserved;
}

uint64_t p4d_torchtitan__reserved(const p4d_layout *l, uint32_t stage, const p4d_plan *plan, bool is_short)
{
	titan_depth of = {.l = l, .stage = stage, .ahead = plan->slots.activation};
	const uint32_t layers = p4d_chunk_layers(l, stage, 0);

	if (!layers || !p4d_transformers__countable(l) || !is_played(l) || of.ahead > P4D_TITAN_SLOTS)
		return 0;
	of.p = malloc(sizeof(*of.p)); /* allocated on the heap, because it is too large for the stacks of
					 slurmctld's threads */
	if (!of.p)
		return 0;
	const uint64_t bytes = p4d_torch_blocks__reserved(
	    play, &of, &of.layers, layers, l->pp > 1 ? 2 * DEPTH / (1 + of.ahead) : DEPTH, is_short);
	free(of.p);
	return bytes;
}
