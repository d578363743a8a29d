/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FSDP1 as accelerate sets it up, block by block (_flat_param.py, _runtime_utils.py). Separate streams cast
 * shards, gather units and reduce gradients. A unit's gradients become one tensor on the stream that gathered
 * the unit, since autograd runs an operation's backward pass on the stream of its forward pass.
 * transformers_flat.c has the amounts. Unit 0 is the root, with everything outside of layers.
 */
#include "framework/transformers_reserved.h"

static p4d_wide elements_of(const p4d_reserved *r, unsigned unit)
{
	const p4d_wide one = p4d_reserved__unit_bytes(r, unit) / r->w.weight;

	return unit || r->l->tied ? one : one + r->l->vocab * r->l->hidden;
}

static p4d_wide shard_of(const p4d_reserved *r, unsigned unit)
{
	return (elements_of(r, unit) + r->shards - 1) / r->shards;
}

/*
 * Rank 0 broadcasts its tensors in buckets. It copies tensors into a bucket, except a tensor that fills a
 * bucket alone. Two buckets are in flight at a time (c10d's broadcast_coalesced).
 */
#define BUCKET ((p4d_wide)250 << 20)

static void send_bucket(p4d_reserved *r)
{
	p4d_reserved_buckets *b = &r->buckets;

	p4d_allocator_forget(&r->main, &b->sent[0]);
	b->sent[0] = b->sent[1];
	b->sent[1] = b->tensors > 1 ? p4d_caching_allocator_take(&r->main, b->bytes) : 0;
	b->bytes = b->tensors = 0;
}

static void add_to_bucket(p4d_reserved *r, uint64_t elements)
{
	r->buckets.bytes += (p4d_wide)elements * r->stored;
	r->buckets.tensors++;
	if (r->buckets.bytes >= BUCKET)
		send_bucket(r);
}

/* Broadcasts a unit. Norms and the root's buffers are small, but they are separate tensors. */
static void broadcast(p4d_reserved *r, unsigned unit)
{
	r->buckets = (p4d_reserved_buckets){.tensors = !unit};
	p4d_reserved__each_of_unit(r, unit, add_to_bucket);
	add_to_bucket(r, r->l->hidden);
	if (!unit && !r->l->tied)
		p4d_reserved__each_of_unit(r, unit, add_to_bucket);
	send_bucket(r);
	p4d_allocator_forget(&r->main, &r->buckets.sent[0]);
	p4d_allocator_forget(&r->main, &r->buckets.sent[1]);
}

/*
 * Loads the model. Each unit's parameters become one tensor, which is then sharded: layers first, then the
 * root.
 */
static void load(p4d_reserved *r)
{
	for (unsigned i = 1; i <= r->layers + 1; i++) {
		const unsigned unit = i <= r->layers ? i : 0;
		p4d_reserved__each_of_unit(r, unit, p4d_reserved__hold);
		if (!unit && !r->l->tied)
			p4d_reserved__each_of_unit(r, unit, p4d_reserved__hold);
		broadcast(r, unit);
		p4d_allocated whole = p4d_caching_allocator_take(&r->main, elements_of(r, unit) * r->stored);
		p4d_reserved__take(r, NULL, shard_of(r, unit) * r->stored);
		p4d_allocator_forget(&r->main, &whole);
		p4d_reserved__give(r, &r->some, 0);
	}
	for (unsigned unit = 0; unit <= r->layers;
	     unit++) { /* FSDP1 does this before the first forward pass (_lazy_init) */
		p4d_allocator_touch(&r->main, shard_of(r, unit) * r->w.weight);
		p4d_allocator_touch(&r->main, elements_of(r, unit) * r->w.weight);
		p4d_allocator_touch(&r->main, elements_of(r, unit) * r->stored);
	}
}

static void gather(p4d_reserved *r, unsigned unit)
{
	if (r->unit[unit])
		return;
	p4d_allocated shard = r->stored > r->w.weight
				  ? p4d_caching_allocator_take(&r->casts, shard_of(r, unit) * r->w.weight)
				  : 0;

	r->unit[unit] = p4d_caching_allocator_take(&r->gathers, elements_of(r, unit) * r->w.weight);
	p4d_allocator_forget(&r->casts, &shard);
}

static void before_forward(p4d_reserved *r, unsigned unit)
{
	if (unit > r->layers)
		return; /* this table belongs to the root unit */
	gather(r, unit);
	if (unit && unit < r->layers && r->l->fsdp.prefetches_forward)
		gather(r, unit + 1);
}

static void after_forward(p4d_reserved *r, unsigned unit)
{
	if (unit && unit <= r->layers && !r->l->fsdp.keeps_gathered)
		p4d_allocator_forget(&r->gathers, &r->unit[unit]);
}

static void before_backward(p4d_reserved *r, unsigned unit)
{
	if (unit && unit <= r->layers)
		gather(r, unit);
	if (unit > 1 && !r->l->fsdp.never_prefetches)
		gather(r, unit - 1);
}

static void add_gradient(void *owner, uint64_t bytes)
{
	p4d_reserved *r = owner;

	p4d_reserved__take(r, &r->grads, bytes);
}

static void after_backward(p4d_reserved *r, unsigned unit)
{
	if (unit > r->layers) {
		r->pending = r->grads.count; /* the head's gradients wait for the embedding's gradients */
		return;
	}
	p4d_allocated whole = p4d_caching_allocator_take(&r->gathers, elements_of(r, unit) * r->w.weight);
	p4d_reserved__give(r, &r->grads, unit ? r->pending : 0);
	if (p4d_reserved__is_last(r) || !r->l->fsdp.keeps_gathered)
		p4d_allocator_forget(&r->gathers, &r->unit[unit]);
	if (!p4d_reserved__is_last(r)) {
		r->unreduced[unit] = whole;
		return;
	}
	p4d_allocator_forget(&r->gathers, &r->unreduced[unit]);
	const p4d_allocated shard = p4d_caching_allocator_take(&r->reduces, shard_of(r, unit) * r->w.weight);
	if (r->trained > r->w.weight) {
		p4d_torch_blocks__hold(
		    &r->reduced, p4d_caching_allocator_take(&r->reduces, shard_of(r, unit) * r->trained));
		p4d_caching_allocator_give(&r->reduces, shard);
	} else {
		p4d_torch_blocks__hold(&r->reduced, shard);
	}
	p4d_allocator_forget(&r->gathers, &whole);
}

static void update(p4d_reserved *r, bool first)
{
	for (unsigned unit = 0; first && unit <= r->layers; unit++)
		for (int i = 0; i < 2; i++)
			p4d_reserved__take(r, NULL, shard_of(r, unit) * r->trained);
	for (unsigned unit = 0; r->l->torch.optimizer_foreach && unit <= r->layers; unit++)
		p4d_reserved__take(r, &r->some, shard_of(r, unit) * r->trained);
	p4d_reserved__give(r, &r->some, 0);
	p4d_torch_blocks__release(&r->reduces, &r->reduced, 0);
}

const p4d_reserved_engine p4d_reserved__flat = {.load = load,
						.before_forward = before_forward,
						.after_forward = after_forward,
						.before_backward = before_backward,
						.gradient = add_gradient,
						.after_backward = after_backward,
						.update = update};
