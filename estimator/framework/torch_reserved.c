/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "framework/torch.h"
#include "framework/transformers_reserved.h"
#include "plan/caching_allocator.h"
#include "plan/optimizer.h"

/*
 * What PyTorch's allocator reserves beyond what is allocated, by playing two steps on it: the first one
 * without the optimizer's states, the second one with them. A plan says how much is held; here it is cut into
 * tensors of the sizes that the model has, in the order in which a step takes and frees them. Two things then
 * decide: states that the first update takes go into blocks that the loss has left, so that the next loss
 * needs new ones; and other streams' blocks serve these streams alone. Held against rehearsals in
 * test_rehearsed_memory.c.
 */
/* stage3_max_live_parameters */
#define ZERO_LIVE ((uint64_t)1000000000)

enum { WEIGHTS = 8, TAKEN = 2048, FEW = 24, DEPTH = 24 };

typedef struct taken {
	p4d_allocated of[TAKEN];
	unsigned count;
} taken;

typedef struct play {
	p4d_caching_allocator a;
	const p4d_layout *l;
	uint32_t layers;
	bool fsdp, flat, zero, full, autocasts;
	unsigned micro_batches;                 /* of a step that are played */
	unsigned stays;                         /* ZeRO-3: layers that stay gathered until the pass ends */
	unsigned element;                       /* bytes of a gradient */
	uint64_t weight[WEIGHTS], layer, table; /* parameters, in elements */
	unsigned weights, tables;
	uint64_t hidden, ffn, logits;      /* bytes of activations of a micro-batch */
	uint64_t saved, forward, backward; /* bytes of activations of a layer */
	uint64_t params, master, moments, buckets, update, gradients; /* bytes in all */
	uint64_t others;                                              /* of other streams */
	taken saves, some, grads, gathered, waiting;
} play;

static void take(play *p, taken *into, p4d_wide bytes)
{
	const p4d_allocated block =
	    bytes && bytes >> 50 == 0 ? p4d_caching_allocator_take(&p->a, (uint64_t)bytes) : 0;

	if (into && into->count < TAKEN)
		into->of[into->count++] = block;
	else
		p->a.overflow = p->a.overflow || into;
}

/* Gives back what was taken after the first `count`. */
static void give(play *p, taken *from, unsigned count)
{
	for (unsigned i = count; i < from->count; i++)
		p4d_caching_allocator_give(&p->a, from->of[i]);
	from->count = from->count > count ? count : from->count;
}

/* So many bytes in blocks of two sizes: at most `wide` of the feed-forward part, at most `narrow` of the
 * hidden state, one rest. */
static void take_blocks(play *p, taken *into, uint64_t bytes, unsigned wide, unsigned narrow)
{
	for (unsigned i = 0; i < wide && bytes >= p->ffn; i++, bytes -= p->ffn)
		take(p, into, p->ffn);
	for (unsigned i = 0; i < narrow && bytes >= p->hidden; i++, bytes -= p->hidden)
		take(p, into, p->hidden);
	if (bytes > 512)
		take(p, into, bytes);
}

static bool recomputes(const play *p)
{
	return p->l->recompute == P4D_RECOMPUTE_FULL;
}

/* ---- sizes ---- */

static uint64_t at_point(const p4d_plan *plan, p4d_live_point point, p4d_memory_class part)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].lifetime == P4D_LIVES_IN_RANGE && plan->tensor[i].part == part &&
		    plan->tensor[i].live_range >> point & 1)
			sum += plan->tensor[i].bytes;
	return sum;
}

static uint64_t named(const p4d_plan *plan, const char *name)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (!strcmp(plan->tensor[i].name, name))
			return plan->tensor[i].bytes;
	return 0;
}

static uint64_t in_slots(const p4d_plan *plan)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].lifetime == P4D_LIVES_IN_SLOT)
			sum += plan->tensor[i].bytes * plan->tensor[i].layers * plan->tensor[i].slots;
	return sum;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void list_weights(play *p)
{
	const p4d_layout *l = p->l;
	const uint64_t h = l->hidden, q = l->heads * l->head_dim / l->tp,
		       k = l->kv_heads * l->head_dim / l->tp;
	const uint64_t f = (l->experts ? l->expert_ffn * (l->experts / l->ep) : l->ffn / l->tp) * h;
	const uint64_t all[] = {
	    q * h, k * h, k * h, q * h, l->glu && l->experts ? 2 * f : f, f, l->glu && !l->experts ? f : 0};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]) {
			p->weight[p->weights++] = all[i];
			p->layer += all[i];
		}
	p->table = l->vocab / l->tp * h;
	p->tables = l->tied ? 1 : 2;
}

static uint64_t elements(const play *p)
{
	return p->layers * p->layer + p->tables * p->table;
}

static void measure_activations(play *p, const p4d_plan *plan)
{
	const p4d_layout *l = p->l;
	const uint64_t loss = at_point(plan, P4D_AT_LOSS, P4D_PART_ACTIVATIONS), slots = in_slots(plan);
	const uint64_t held = loss ? loss : slots, tokens = l->seq_len / l->cp * l->micro_batch;
	const uint64_t gathered = p->fsdp ? 4 * p->layer : 2 * p->stays * p->layer,
		       root = p->fsdp ? 2 * p->tables * p->table : 0;
	const unsigned element = l->framework == P4D_FRAMEWORK_DDP && !l->autocast ? p->element : 2;

	p->hidden = tokens * l->hidden * element;
	p->ffn = tokens * (l->experts ? l->experts_per_token * l->expert_ffn : l->ffn / l->tp) * element;
	p->logits = tokens * (l->vocab / l->tp) * 2;
	p->forward = less(at_point(plan, P4D_AT_FORWARD, P4D_PART_ACTIVATIONS), held + gathered);
	p->backward =
	    less(at_point(plan, P4D_AT_BACKWARD_FFN, P4D_PART_ACTIVATIONS), held + gathered + p->others);
	if (p->fsdp) { /* the rest are parameters and gradients of other units */
		const uint64_t few = 2 * p->ffn + 4 * p->hidden;
		p->forward = p->forward < few ? p->forward : few;
		p->backward = recomputes(p) || p->backward < few ? p->backward : few;
	}
	p->saved = (l->recompute == P4D_RECOMPUTE_FULL ? held : less(held, root)) / p->layers;
	p->saved = p->fsdp ? larger(p->saved, p->hidden) : p->saved;
}

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + (2 << 20) - 1) >> 21 << 21;
}

/*
 * FSDP2: streams that gather (two of the larger unit, one of the smaller, and the shards that are sent) and
 * that reduce, which also has the shards of all gradients. _fsdp_collectives.py
 */
static uint64_t streams_of_units(const play *p, uint64_t shards)
{
	const uint64_t layer = 2 * p->layer, table = 2 * p->table, most = larger(layer, table);
	const uint64_t least = layer + table - most;
	const uint64_t gather =
	    2 * rounded(most) + rounded(least) + rounded(most / shards) + rounded(least / shards);
	const uint64_t kept =
	    p->layers * rounded(2 * layer / shards) + p->tables * rounded(2 * table / shards);
	const uint64_t reduced = rounded(layer / 2 / shards) + rounded(table / shards);

	const uint64_t tied = p->tables == 1 ? rounded(2 * table / shards) + rounded(table / shards) : 0;

	return gather + (p->full ? kept + reduced + tied : 0);
}

/* FSDP1: flat parameters of two layers and of the root, and gradients that accumulate unsharded.
 * _flat_param.py */
static uint64_t streams_of_flat_units(const play *p, uint64_t shards)
{
	const uint64_t layer = 2 * p->layer, root = 2 * p->tables * p->table;
	const uint64_t gradients = p->full ? 4 * elements(p) / shards : 0;
	const uint64_t waiting = p->full && p->micro_batches > 1 ? p->layers * layer + root : 0;

	return 2 * root + 2 * layer + gradients + 2 * (root + layer) / shards + waiting;
}

static void measure_streams(play *p)
{
	const p4d_layout *l = p->l;
	const uint64_t shards = l->shard_degree ? l->shard_degree : l->dp * l->cp;

	if (p->fsdp)
		p->others = p->flat ? streams_of_flat_units(p, shards) : streams_of_units(p, shards);
	else if (p->zero && l->overlap_dp && l->zero_stage < 3) {
		const uint64_t bucket = 2 * l->zero_bucket;
		p->others = bucket < p->params ? bucket : p->params;
	}
}

static void measure(play *p, const p4d_layout *l, const p4d_plan *plan, uint32_t layers)
{
	memset(p, 0, offsetof(play, saves));
	p->saves.count = p->some.count = p->grads.count = p->gathered.count = p->waiting.count = 0;
	p->l = l;
	p->layers = (uint32_t)l->layers;
	p->fsdp = l->framework == P4D_FRAMEWORK_FSDP;
	p->flat = l->flat_parameters;
	p->zero = l->framework == P4D_FRAMEWORK_DEEPSPEED && l->zero_stage > 0;
	p->full = l->finetune == P4D_TUNE_FULL;
	/* torchtitan reduces after each micro-batch */
	p->micro_batches =
	    l->micro_batches > 1 && (!p->fsdp || at_point(plan, P4D_AT_LOSS, P4D_PART_GRADS)) ? 2 : 1;
	p->element = l->param_dtype == P4D_PARAM_FP32 || l->precision == P4D_FP32 ? 4 : 2;
	p->autocasts = l->autocast && p->element == 4 && l->framework == P4D_FRAMEWORK_DDP;
	p->params = named(plan, "parameters");
	p->master = named(plan, "optimizer.master");
	p->moments = named(plan, "optimizer.moments");
	p->buckets = named(plan, "reducer.buckets");
	p->update = at_point(plan, P4D_AT_OPTIMIZER, P4D_PART_WORKING_SET);
	p->gradients = at_point(plan, P4D_AT_BACKWARD_FFN, P4D_PART_GRADS);
	list_weights(p);
	if (p->zero && l->zero_stage == 3)
		p->stays = (unsigned)(p->layer * layers < ZERO_LIVE ? layers : ZERO_LIVE / p->layer);
	if (!p->fsdp)
		measure_streams(p);
	measure_activations(p, plan);
	/* of fewer layers, their share */
	const uint64_t all = elements(p);
	p->layers = layers;
	const uint64_t some = elements(p);
	uint64_t *const shared[] = {&p->params,  &p->master, &p->moments,
				    &p->buckets, &p->update, &p->gradients};
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		*shared[i] = (uint64_t)((p4d_wide)*shared[i] * some / all);
	if (p->fsdp)
		measure_streams(p);
	else if (p->others && l->zero_stage == 2) { /* shards of gradients, too, and another bucket */
		p->others = 2 * p->others + p->gradients;
		p->gradients = 0;
	}
}

/* ---- a step ---- */

/* Takes `copies` blocks of `bytes` each. */
static void take_copies(play *p, taken *into, p4d_wide bytes, unsigned copies)
{
	for (unsigned i = 0; i < copies; i++)
		take(p, into, bytes);
}

/*
 * Tensors for each parameter, `copies` of them, each of `bytes` in all: parameters, states. As one where they
 * are flat. FSDP1 has one of each layer, and one of the tables.
 */
static void take_all(play *p, taken *into, p4d_wide bytes, unsigned copies)
{
	const uint64_t all = elements(p);

	if (p->zero) {
		take_copies(p, into, bytes, copies);
		return;
	}
	take_copies(p, into, bytes * p->table * (p->flat ? p->tables : 1) / all, copies);
	for (uint32_t i = 0; i < p->layers; i++) {
		if (p->flat)
			take_copies(p, into, bytes * p->layer / all, copies);
		for (unsigned w = 0; !p->flat && w < p->weights; w++)
			take_copies(p, into, bytes * p->weight[w] / all, copies);
	}
	if (p->tables > 1 && !p->flat)
		take_copies(p, into, bytes * p->table / all, copies);
}

static void load(play *p)
{
	const p4d_layout *l = p->l;

	if (p->fsdp) { /* parameters come whole, one by one */
		take(p, &p->some, p->table * p->element);
		give(p, &p->some, 0);
	}
	take_all(p, NULL, p->params, 1);
	if (l->framework == P4D_FRAMEWORK_DDP && l->dp > 1 && p->full)
		for (uint64_t left = p->params, one = 25 << 20; left; left = less(left, one))
			take(p, NULL, left < one ? left : one);
	if (p->zero)
		take(p, NULL, p->master);
	take(p, NULL, 32 << 20); /* cuBLAS's workspace */
	take(p, NULL, p->zero ? p->buckets : 0);
	if (p->zero && l->zero_stage == 3)
		take(p, NULL, 2 * elements(p) / l->dp);
	if (l->framework == P4D_FRAMEWORK_DEEPSPEED && !p->zero) { /* updates once before it trains */
		take_all(p, &p->some, p->params, 1);
		take_all(p, &p->some, p->update, 1);
		take_all(p, NULL, p->master, 1);
		take_all(p, NULL, p->moments / 2, 2);
		give(p, &p->some, 0);
	}
}

static void gather_layer(play *p)
{
	const bool gathers = p->stays || (p->fsdp && !p->flat);

	for (unsigned w = 0; gathers && w < p->weights; w++)
		take(p, &p->gathered, 2 * p->weight[w]);
}

static void run_forward(play *p)
{
	const unsigned wide = recomputes(p) ? 0 : p->l->glu ? 4 : 2;

	for (uint32_t i = 0; i < p->layers; i++) {
		gather_layer(p);
		take_blocks(p, &p->some, p->forward, 2, 4);
		take_blocks(p, &p->saves, p->saved, wide, FEW);
		give(p, &p->some, 0);
		if (i >= p->stays)
			give(p, &p->gathered, p->stays * p->weights);
	}
	give(p, &p->gathered, 0);
}

/*
 * Logits in 16 bits and in fp32, the probabilities, and their gradients in fp32 and in 16 bits, which stay
 * until the head's backward pass is done (loss_utils.py; ATen's log_softmax).
 */
static void run_loss(play *p)
{
	taken *s = &p->some, *kept = &p->gathered;
	const bool converts = p->l->framework != P4D_FRAMEWORK_DDP || p->l->autocast;

	if ((p->fsdp && !p->flat) || p->autocasts)
		take(p, kept, 2 * p->table);
	if (p->l->chunked_loss)
		return;
	take(p, s, p->logits);
	take(p, s, 2 * p->logits);
	take(p, kept, 2 * p->logits); /* probabilities */
	give(p, s, 1);
	if (converts)
		take(p, s, 2 * p->logits);
	give(p, s, 0);
	take(p, s, 2 * p->logits);
	take(p, kept, 2 * p->logits);
	give(p, s, 0);
	p4d_caching_allocator_give(&p->a, kept->of[kept->count - 2]);
	kept->of[kept->count - 2] = 0;
	take(p, s, p->logits);
	p4d_caching_allocator_give(&p->a, kept->of[kept->count - 1]);
	kept->count--;
	take(p, s, p->hidden);
}

/* A gradient of `elements`: it stays until the update, or is added to that which is there. */
static void make_gradient(play *p, unsigned micro_batch, p4d_wide n)
{
	if (!p->full || (p->zero && p->l->zero_stage == 3))
		return;
	const p4d_wide bytes = p->zero ? n * p->gradients / elements(p) : n * p->element;
	if (micro_batch == 0) {
		take(p, &p->grads, bytes);
		return;
	}
	const unsigned before = p->waiting.count;
	take(p, &p->waiting, bytes);
	give(p, &p->waiting, before);
}

/* FSDP: gradients of a unit, which are copied into one buffer to be reduced, two at a time; or kept for the
 * last micro-batch. */
static void reduce_unit(play *p, unsigned micro_batch, const uint64_t *weight, unsigned weights)
{
	taken unit = {.count = 0};
	uint64_t sum = 0;

	if (!p->full)
		return;
	for (unsigned w = 0; w < weights; w++) {
		take(p, p->micro_batches > 1 && !micro_batch ? &p->grads : &unit, 2 * weight[w]);
		sum += weight[w];
	}
	if (micro_batch + 1 < p->micro_batches)
		return;
	const bool waits = p->waiting.count > 0;
	const p4d_allocated before = waits ? p->waiting.of[0] : 0;
	p->waiting.count = 0;
	give(p, &unit, p->micro_batches > 1 ? 0 : unit.count);
	take(p, &p->waiting, 2 * sum);
	give(p, &unit, 0);
	if (waits)
		p4d_caching_allocator_give(&p->a, before);
}

static void run_backward_of_layer(play *p, unsigned micro_batch, unsigned saves)
{
	const uint64_t again = recomputes(p) ? p->backward * 7 / 10 : 0; /* the rest: gradients */

	gather_layer(p);
	take_blocks(p, &p->some, again, p->l->glu ? 4 : 2, 16);
	take_blocks(p, &p->some, p->backward - again, 2, 4);
	for (unsigned w = p->weights; !p->fsdp && w-- > 0;)
		make_gradient(p, micro_batch, p->weight[w]);
	if (p->fsdp)
		reduce_unit(p, micro_batch, p->weight, p->weights);
	give(p, &p->some, 0);
	give(p, &p->saves, saves);
	if (p->gathered.count > p->stays * p->weights)
		give(p, &p->gathered, p->stays * p->weights);
}

static void run_micro_batch(play *p, unsigned micro_batch)
{
	const uint64_t tables[] = {p->table, p->table};
	taken first = {.count = 0};

	run_forward(p);
	run_loss(p);
	if (p->flat && p->full)
		take(p, &first, 2 * p->table);
	else if (p->fsdp)
		reduce_unit(p, micro_batch, tables, 1);
	else if (!p->autocasts)
		make_gradient(p, micro_batch, p->table);
	else /* in 16 bits first, and in fp32 when the logits' gradient is gone */
		take(p, &first, 2 * p->table);
	give(p, &p->some, 0);
	give(p, &p->gathered, 0);
	if (p->autocasts) {
		make_gradient(p, micro_batch, p->table);
		give(p, &first, 0);
	}
	const unsigned each = p->saves.count / p->layers;
	for (uint32_t i = p->layers; i-- > 0;)
		run_backward_of_layer(p, micro_batch, i * each);
	if (p->flat)
		reduce_unit(p, micro_batch, tables, p->tables);
	else if (p->tables > 1 && p->fsdp)
		reduce_unit(p, micro_batch, tables, 1);
	else if (p->tables > 1 && !p->zero)
		make_gradient(p, micro_batch, p->table);
	give(p, &first, 0);
	give(p, &p->gathered, 0);
	give(p, &p->waiting, 0);
}

static void run_step(play *p, bool first)
{
	const bool updated = p->l->framework == P4D_FRAMEWORK_DEEPSPEED && !p->zero;

	for (unsigned i = 0; i < p->micro_batches; i++)
		run_micro_batch(p, i);
	if (p->fsdp)
		give(p, &p->grads, 0);
	if (first && !updated)
		take_all(p, NULL, p->moments / 2, 2);
	if (p->update)
		take_all(p, &p->some, p->update, 1);
	give(p, &p->some, 0);
	give(p, &p->grads, 0);
}

static uint64_t played(play *p, const p4d_layout *l, const p4d_plan *plan, uint32_t layers)
{
	if (l->framework != P4D_FRAMEWORK_FSDP || !l->flat_parameters)
		return p4d_transformers__reserved(l, layers);
	measure(p, l, plan, layers);
	p4d_caching_allocator_start(&p->a, l->allocator == P4D_ALLOCATOR_EXPANDABLE);
	load(p);
	run_step(p, true);
	run_step(p, false);
	return p->a.overflow ? 0 : p4d_caching_allocator_reserved(&p->a) + p->others;
}

uint64_t p4d_torch__reserved(const p4d_layout *l, const p4d_plan *plan)
{
	play p;

	if (l->model_code != P4D_MODEL_CODE_TRANSFORMERS || l->compile || !l->layers)
		return 0;
	if (l->layers <= DEPTH)
		return played(&p, l, plan, (uint32_t)l->layers);
	/* of deep ones, each further layer takes as much */
	const uint64_t some = played(&p, l, plan, DEPTH), half = played(&p, l, plan, DEPTH / 2);
	return half && some > half ? some + (some - half) / (DEPTH / 2) * (l->layers - DEPTH) : 0;
}
