/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that PyTorch's allocator reserves beyond the allocated memory. p4d simulates the allocator
 * during two steps with transformers' modules. Optimizer states exist from the end of the first step on.
 * Tapes give the blocks that layers allocate and free; the functions for sharding (p4d_reserved_engine) add
 * theirs. The order of blocks was compared with what the allocator records in rehearsals;
 * test_rehearsed_memory.c compares the totals.
 */
#include "framework/transformers_reserved.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "framework/torch.h"
#include "plan/optimizer.h"

#define MIB ((uint64_t)1 << 20)

/* bitsandbytes: a matrix is loaded in 16 bits, and has a scale per 64 weights, which is quantized as well. */
static void load_quantized(p4d_reserved *r, uint64_t elements)
{
	const unsigned before = r->some.count;

	p4d_reserved__take(r, &r->some, (p4d_wide)2 * elements);
	p4d_reserved__take(r, &r->some, elements / 64 * 4);
	p4d_reserved__take(r, NULL, r->l->quant == P4D_QUANT_NF4 ? elements / 2 : elements);
	p4d_reserved__take(r, NULL, elements / 64);
	p4d_reserved__take_for_a_while(r, elements / 64 * 4);
	p4d_reserved__give(r, &r->some, before);
}

static void load_frozen(p4d_reserved *r)
{
	const bool quantized = r->l->quant != P4D_QUANT_NONE;
	/* prepare_model_for_kbit_training casts everything that is not quantized to fp32 */
	const unsigned loaded = quantized ? 2 : r->stored;
	p4d_torch_held_blocks *tables = &r->grads;

	if (quantized) /* transformers first allocates memory for all parameters in one block, and frees it */
		p4d_reserved__take_for_a_while(r, r->quantized_bytes);
	p4d_reserved__take(r, tables, (p4d_wide)loaded * p4d_reserved__table_of(r->l));
	if (!r->l->tied && quantized)
		p4d_reserved__take(r, tables, (p4d_wide)loaded * p4d_reserved__table_of(r->l));
	for (uint32_t i = 0; i < r->layers; i++)
		for (unsigned k = 0; k < r->parameters.count; k++) {
			if (quantized)
				load_quantized(r, r->parameters.of[k].elements);
			else
				p4d_reserved__load(r, r->parameters.of[k].elements);
		}
	if (!r->l->tied && !quantized)
		p4d_reserved__take(r, tables, (p4d_wide)loaded * p4d_reserved__table_of(r->l));
	const unsigned count = tables->count;
	for (unsigned i = 0; quantized && r->stored == 4 && i < count; i++) {
		p4d_reserved__take(r, NULL, (p4d_wide)4 * p4d_reserved__table_of(r->l));
		p4d_caching_allocator_give(&r->main, tables->of[i]);
	}
	tables->count = 0;
}

static void load_adapter(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, NULL, (p4d_wide)elements * r->trained);
}

/* DDP: buckets of 25 MiB or one parameter, from the end of the model (reducer.cpp). */
static void take_buckets(p4d_reserved *r)
{
	const p4d_wide whole = (p4d_wide)r->trained * p4d_reserved__table_of(r->l);
	p4d_wide bucket = 0;

	if (!r->full) {
		p4d_wide left = (p4d_wide)r->trained * p4d_transformers__adapters(r->l);
		for (; left > 0 && !r->main.overflow; left -= bucket) {
			bucket = left < 25 * MIB ? left : 25 * MIB;
			p4d_reserved__take(r, NULL, bucket);
		}
		return;
	}
	if (!r->l->tied)
		p4d_reserved__take(r, NULL, whole);
	for (uint32_t i = 0; i < r->layers; i++)
		for (unsigned k = r->parameters.count; k-- > 0;) {
			bucket += (p4d_wide)r->trained * r->parameters.of[k].elements;
			if (bucket >= 25 * MIB) {
				p4d_reserved__take(r, NULL, bucket);
				bucket = 0;
			}
		}
	p4d_reserved__take(r, NULL, bucket + whole);
}

static void load(p4d_reserved *r)
{
	if (r->full)
		p4d_reserved__each_trained(r, p4d_reserved__load);
	else {
		load_frozen(r);
		p4d_reserved__each_trained(r, load_adapter);
	}
	if (r->l->dp > 1)
		take_buckets(r);
}

/* ---- a step ---- */

static void call(p4d_reserved *r, void (*hook)(p4d_reserved *r, unsigned unit), unsigned unit)
{
	if (hook)
		hook(r, unit);
}

static void write_layer(p4d_reserved *r, uint32_t i)
{
	r->w.kind = p4d_transformers__kind_of(r->l, i);
	p4d_transformers__layer(&r->w, i > 0 || r->all_need);
}

static void begin(p4d_reserved *r)
{
	const uint64_t inputs = p4d_transformers__inputs(&r->w),
		       angles = r->w.length * r->l->head_dim * r->w.stream,
		       ids = r->w.tokens * P4D_TRANSFORMERS_IDS;

	if (inputs > 2 * angles + ids)
		p4d_reserved__take(r, &r->inputs, inputs - 2 * angles - ids);
	p4d_reserved__take(r, &r->inputs, r->w.tokens * r->l->hidden * r->w.between);
	p4d_reserved__take(r, &r->inputs, angles);
	p4d_reserved__take(r, &r->inputs, angles);
}

static void run_forward(p4d_reserved *r)
{
	const p4d_torch_pass pass = r->again ? P4D_TORCH_SAVES_NONE : P4D_TORCH_SAVES;
	/* the model's code refers to the first layer's input until its forward pass is done */
	p4d_allocated state = 0;

	call(r, r->engine->before_forward, 0);
	begin(r);
	call(r, r->engine->after_forward, 0);
	state = r->inputs.count >= 3 ? r->inputs.of[r->inputs.count - 3] : 0;
	for (uint32_t i = 0; i < r->layers; i++) {
		if (i < 2)
			write_layer(r, i);
		if (r->again)
			p4d_torch_blocks__hold(&r->saves, state);
		const p4d_allocated input = state;
		call(r, r->engine->before_forward, i + 1);
		/* a unit's parameters are freed before Python drops its input */
		state = p4d_torch_blocks__forward(&r->b, &r->tape, pass, state, true, &r->cached);
		call(r, r->engine->after_forward, i + 1);
		if (!r->again && i && !r->b.saved[0]) {
			p4d_caching_allocator_give(&r->main, input);
			r->b.value[0] = 0;
		}
		if (!r->again)
			p4d_torch_blocks__put(&r->b, &r->tape, &r->saves);
	}
	r->state = state;
}

/*
 * Forward and backward passes of the last norm, head and loss. Returns the gradient of the last layer's
 * result.
 */
static p4d_allocated run_end(p4d_reserved *r)
{
	call(r, r->engine->before_forward, r->layers + 1);
	p4d_transformers__end(&r->w);
	p4d_torch_blocks__forward(&r->b, &r->tape, P4D_TORCH_SAVES, r->state, false, NULL);
	p4d_reserved__give(r, &r->cached, 0);
	call(r, r->engine->after_forward, r->layers + 1);
	call(r, r->engine->before_backward, r->layers + 1);
	const p4d_allocated gradient = p4d_torch_blocks__backward(&r->b, &r->tape, 0, false);
	call(r, r->engine->after_backward, r->layers + 1);
	return gradient;
}

/*
 * Bytes of temporaries for the embedding's gradient, which is summed in fp32, in groups of 10 tokens, and for
 * each distinct word.
 */
static p4d_wide sums_of_rows(const p4d_reserved *r)
{
	const uint64_t tokens = r->w.tokens, words = tokens < r->l->vocab ? tokens : r->l->vocab;

	return (p4d_wide)((tokens + 9) / 10 + words) * r->l->hidden * 4;
}

static void run_backward_of_embedding(p4d_reserved *r, p4d_allocated gradient)
{
	const p4d_wide bytes = (p4d_wide)p4d_reserved__table_of(r->l) * r->element;

	call(r, r->engine->before_backward, 0);
	if (r->l->tied) /* the head's gradient exists */
		p4d_reserved__take(r, &r->some, bytes);
	else
		r->b.gradient(r, (uint64_t)bytes);
	p4d_reserved__take_for_a_while(r, sums_of_rows(r));
	p4d_caching_allocator_give(&r->main, gradient);
	p4d_reserved__give(r, &r->some, 0);
	call(r, r->engine->after_backward, 0);
}

static void run_backward(p4d_reserved *r, p4d_allocated gradient)
{
	for (uint32_t i = r->layers; i-- > 0;) {
		const bool first = i == 0 && !r->all_need;
		if (i + 1 == r->layers || i == 0)
			write_layer(r, i);
		p4d_allocated input = 0;
		call(r, r->engine->before_backward, i + 1);
		if (r->again) {
			input = r->saves.of[--r->saves.count];
			p4d_torch_blocks__forward(&r->b, &r->tape, P4D_TORCH_AGAIN, input, true, NULL);
		} else {
			p4d_torch_blocks__get(&r->b, &r->tape, &r->saves);
		}
		gradient = p4d_torch_blocks__backward(&r->b, &r->tape, gradient, r->again || i == 0);
		if (r->again && i)
			p4d_caching_allocator_give(&r->main, input);
		call(r, r->engine->after_backward, i + 1);
		if (first)
			break;
	}
	r->saves.count = 0;
	if (r->full)
		run_backward_of_embedding(r, gradient);
	else if (gradient)
		p4d_caching_allocator_give(&r->main, gradient);
	p4d_reserved__give(r, &r->inputs, 0);
}

static uint64_t shard_of(const p4d_reserved *r, uint64_t elements)
{
	return (elements + r->shards - 1) / r->shards;
}

static void make_states(p4d_reserved *r, uint64_t elements)
{
	const p4d_optimizer *o = p4d_optimizer_of(r->l);

	elements = shard_of(r, elements);
	const p4d_wide each = o->bits ? (p4d_wide)elements * o->bits / 8 : (p4d_wide)elements * r->trained;
	if (o->paged || o->factored)
		return;
	/* the Trainer keeps the moments of embeddings in fp32 */
	const bool embeds = r->full && o->bits == 8 && r->visited++ < (r->places ? 2 : 1);
	for (unsigned i = 1; i < o->states; i++)
		p4d_reserved__take(r, NULL, embeds ? (p4d_wide)elements * 4 : each);
	for (unsigned i = 1; !embeds && o->bits && i < o->states; i++)
		p4d_reserved__take(r, NULL, elements / o->block * 4);
}

static void make_roots(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, &r->some, (p4d_wide)shard_of(r, elements) * r->trained);
}

/* An update with Adafactor: squares of gradients in fp32, their factors, and the update. */
static void update_by_factors(p4d_reserved *r, uint64_t elements)
{
	const unsigned before = r->some.count;

	for (unsigned i = 0; i < (r->trained < 4 ? 3 : 2); i++)
		p4d_reserved__take(r, &r->some, (p4d_wide)4 * elements);
	p4d_reserved__give(r, &r->some, before);
}

void p4d_reserved__update(p4d_reserved *r, bool first)
{
	if (first)
		p4d_reserved__each_trained(r, make_states);
	if (p4d_optimizer_of(r->l)->factored)
		p4d_reserved__each_trained(r, update_by_factors);
	else if (r->l->torch.optimizer_foreach)
		p4d_reserved__each_trained(r, make_roots);
	p4d_reserved__give(r, &r->some, 0);
	p4d_reserved__give(r, &r->grads, 0);
}

static void run_step(p4d_reserved *r, bool first)
{
	for (r->micro_batch = 0; r->micro_batch < r->micro_batches; r->micro_batch++) {
		run_forward(r);
		run_backward(r, run_end(r));
	}
	if (r->engine->update)
		r->engine->update(r, first);
	else
		p4d_reserved__update(r, first);
}

static const p4d_reserved_engine one_copy = {.gradient = p4d_reserved__add_gradient};

static const p4d_reserved_engine *engine_of(const p4d_layout *l)
{
	if (p4d_framework_shares(l, P4D_SHARES_UNITS))
		return l->fsdp.flat ? &p4d_reserved__flat : &p4d_reserved__units;
	if (p4d_framework_shares(l, P4D_SHARES_BY_STAGE))
		return l->zero_stage > 2 ? &p4d_reserved__zero3
		       : l->zero_stage   ? &p4d_reserved__zero
					 : &p4d_reserved__bf16;
	return &one_copy;
}

static void start(p4d_reserved *r, const p4d_layout *l, uint32_t layers, uint64_t room)
{
	memset(r, 0, offsetof(p4d_reserved, saves));
	memset(r->of_unit, 0, sizeof(r->of_unit));
	p4d_torch_held_blocks *const all[] = {&r->saves,  &r->some,   &r->grads,  &r->inputs,
					      &r->cached, &r->copies, &r->reduced};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		all[i]->count = 0;
		all[i]->overflow = false;
	}
	const p4d_torch_types z = p4d_torch__types(l);
	r->l = l;
	r->layers = layers;
	r->full = l->finetune == P4D_TUNE_FULL;
	r->again = l->recompute == P4D_RECOMPUTE_FULL;
	r->all_need = r->full || r->again;
	r->stored = p4d_framework_shares(l, P4D_SHARES_BY_STAGE) ? z.element : z.param;
	r->trained = r->full ? r->stored : l->lora.fp32 ? 4 : 2;
	r->micro_batches = l->micro_batches > 1 ? 2 : 1;
	r->places = l->positions * l->hidden;
	r->w = p4d_transformers__writer(l, &r->tape);
	p4d_reserved__list_parameters(l, p4d_transformers__kind_of(l, 0), &r->parameters);
	r->quantized_bytes =
	    p4d_transformers__parameter_bytes(l, 2) - p4d_transformers__adapters(l) * r->trained;
	r->b.allocator = &r->main;
	r->b.workspace = 32 * MIB;
	r->engine = engine_of(l);
	r->shards = r->engine == &one_copy || r->engine == &p4d_reserved__bf16 ? 1
		    : l->shard_degree                                          ? l->shard_degree
									       : l->dp;
	r->element = r->full ? r->w.weight : r->trained;
	r->b.gradient = r->engine->gradient;
	r->b.owner = r;
	p4d_caching_allocator *const streams[] = {&r->main, &r->gathers, &r->reduces, &r->casts};
	r->streams = (p4d_allocator_streams){.room = room};
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		p4d_caching_allocator_start(streams[i], l->allocator == P4D_ALLOCATOR_EXPANDABLE);
		p4d_caching_allocator_add(&r->streams, streams[i]);
	}
}

/*
 * Decides whether this can be simulated: decoders whose layers are alike; no reference model; nothing on the
 * host except DeepSpeed's optimizer.
 */
static bool is_played(const p4d_layout *l)
{
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);

	const unsigned offload = p4d_framework_shares(l, P4D_SHARES_BY_STAGE) ? P4D_OFFLOAD_OPTIMIZER : 0;

	if (l->layer_groups || l->finetune == P4D_TUNE_ALPHA ||
	    (l->fsdp.flat && l->finetune != P4D_TUNE_FULL))
		return false; /* each of an adapter's two matrices is then a unit of its own */
	return l->architecture->kind == P4D_DECODER && !l->pairs && !l->reference &&
	       !(l->offload & ~offload) && kinds.layers[p4d_transformers__kind_of(l, 0)] == l->layers;
}

static bool overflows(const p4d_reserved *r)
{
	const p4d_torch_held_blocks *const held[] = {&r->saves,  &r->some,   &r->grads,  &r->inputs,
						     &r->cached, &r->copies, &r->reduced};
	bool overflow = r->main.overflow || r->gathers.overflow || r->reduces.overflow || r->casts.overflow;

	for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		overflow = overflow || held[i]->overflow;
	return overflow;
}

typedef struct reserved_depth {
	p4d_reserved *r;
	const p4d_layout *l;
	uint32_t layers;
} reserved_depth;

static uint64_t play(void *of, uint64_t room, p4d_allocator_use *use)
{
	const reserved_depth *depth = of;
	p4d_reserved *r = depth->r;

	start(r, depth->l, depth->layers, room);
	if (r->engine->load)
		r->engine->load(r);
	else
		load(r);
	run_step(r, true);
	run_step(r, false);
	*use = (p4d_allocator_use){r->streams.most_taken, r->streams.work};
	if (r->streams.exhausted)
		return UINT64_MAX;
	return overflows(r) ? 0 : r->streams.most_reserved;
}

uint64_t p4d_torch__reserved(const p4d_layout *l, uint32_t stage, const p4d_plan *plan, bool is_short)
{
	(void)stage; /* these frameworks have no pipelines, so there is one stage */
	reserved_depth of = {.l = l};

	(void)plan;
	if (l->torch.model_code != P4D_MODEL_CODE_TRANSFORMERS || l->torch.compile || !l->layers ||
	    !p4d_transformers__countable(l) || !is_played(l))
		return 0;
	of.r = malloc(sizeof(*of.r)); /* allocated on the heap, because it is too large for the stacks of
					 slurmctld's threads */
	if (!of.r)
		return 0;
	const uint64_t bytes =
	    p4d_torch_blocks__reserved(play, &of, &of.layers, l->layers, P4D_RESERVED_LAYERS, is_short);
	free(of.r);
	return bytes;
}
