/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FSDP2 as accelerate sets it up, block by block: the gathering and reducing streams have separate pools
 * (_fsdp_param_group.py, _fsdp_collectives.py). transformers_fsdp.c has the amounts.
 */
#include "framework/transformers_reserved.h"

static void take_shard(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, NULL, (p4d_wide)((elements + r->shards - 1) / r->shards) * r->stored);
}

/* Units are sharded when their parameters are on the GPU: layers first, then the tables. */
static void load(p4d_reserved *r)
{
	for (uint32_t i = 0; i < r->layers; i++) {
		p4d_reserved__each_of_unit(r, i + 1, p4d_reserved__hold);
		p4d_reserved__each_of_unit(r, i + 1, take_shard);
		p4d_reserved__give(r, &r->some, 0);
	}
	for (unsigned unit = 0; unit <= r->layers + 1; unit += r->layers + 1) {
		if (unit && r->l->tied)
			break;
		p4d_reserved__each_of_unit(r, unit, p4d_reserved__hold);
		p4d_reserved__each_of_unit(r, unit, take_shard);
	}
	p4d_reserved__give(r, &r->some, 0);
}

/*
 * Copies a unit's shard into one tensor, and gathers all shards into another, which lives until the next
 * gather.
 */
static void gather(p4d_reserved *r, unsigned unit)
{
	const p4d_wide bytes = p4d_reserved__unit_bytes(r, unit);
	const p4d_allocated shards = p4d_caching_allocator_take(&r->gathers, bytes / r->shards),
			    before = r->gathered;

	r->gathered = p4d_caching_allocator_take(&r->gathers, bytes);
	p4d_caching_allocator_give(&r->gathers, shards);
	p4d_caching_allocator_give(&r->gathers, before);
}

static void forget_gathered(p4d_reserved *r)
{
	p4d_allocator_forget(&r->gathers, &r->gathered);
}

static void copy_out(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, &r->copies, (p4d_wide)elements * r->w.weight);
}

static bool is_tail(const p4d_reserved *r, unsigned unit)
{
	return unit == (r->l->tied ? 0 : r->layers + 1);
}

static void before_forward(p4d_reserved *r, unsigned unit)
{
	if (unit > r->layers && r->l->tied)
		return; /* the table that embedding and head share is still gathered */
	gather(r, unit);
	p4d_reserved__each_of_unit(r, unit, copy_out);
}

static unsigned blocks_of_tail(const p4d_reserved *r)
{
	return r->l->tied || r->copies.count ? 1 : 0;
}

static void after_forward(p4d_reserved *r, unsigned unit)
{
	if (unit > r->layers)
		forget_gathered(r);
	else if (!is_tail(r, unit))
		p4d_reserved__give(r, &r->copies, r->l->tied ? blocks_of_tail(r) : 0);
}

/*
 * Called before a unit's backward pass, for which the unit was gathered ahead. Starts to gather the next
 * unit.
 */
static void before_backward(p4d_reserved *r, unsigned unit)
{
	if (unit <= r->layers && !is_tail(r, unit)) {
		p4d_reserved__each_of_unit(r, unit, copy_out);
		forget_gathered(r);
	}
	if (unit && (unit > 1 || !r->l->tied))
		gather(r, unit - 1);
}

/*
 * Copies the gradients of a unit into one tensor and reduces it to a shard. The tensor lives until the next
 * unit is reduced.
 */
static void reduce(p4d_reserved *r, unsigned unit)
{
	const p4d_wide bytes = p4d_reserved__unit_bytes(r, unit);
	/* fewer gradients remain only if the list had no room for all; the simulation then has no result */
	const unsigned held = r->grads.count - r->pending,
		       count = r->of_unit[unit] < held ? r->of_unit[unit] : held;

	p4d_caching_allocator_give(&r->main, r->reducing);
	r->reducing = p4d_caching_allocator_take(&r->main, bytes);
	for (unsigned i = 0; i < count; i++)
		p4d_caching_allocator_give(&r->main, r->grads.of[r->pending + i]);
	r->pending += count;
	const p4d_allocated shard = p4d_caching_allocator_take(&r->reduces, bytes / r->shards);
	if (r->trained > r->w.weight) {
		p4d_torch_blocks__hold(
		    &r->reduced,
		    p4d_caching_allocator_take(&r->reduces, bytes / r->shards * r->trained / r->w.weight));
		p4d_caching_allocator_give(&r->reduces, shard);
	} else {
		p4d_torch_blocks__hold(&r->reduced, shard);
	}
}

static void after_backward(p4d_reserved *r, unsigned unit)
{
	if (unit > r->layers && r->l->tied)
		return; /* the unit's gradients wait until the embedding's gradient exists */
	if (r->micro_batch == 0) {
		unsigned before = 0;
		for (unsigned i = unit + 1; i <= r->layers + 1; i++)
			before += r->of_unit[i];
		r->of_unit[unit] = r->grads.count > before ? r->grads.count - before : 0;
	}
	p4d_reserved__give(r, &r->copies, r->l->tied && unit ? 1 : 0);
	if (p4d_reserved__is_last(r))
		reduce(r, unit);
	if (unit)
		return;
	p4d_allocator_forget(&r->main, &r->reducing);
	if (r->l->tied)
		p4d_reserved__give(r, &r->copies, 0);
	if (p4d_reserved__is_last(r))
		r->grads.count = r->pending = 0;
}

static void update(p4d_reserved *r, bool first)
{
	r->grads.count = r->pending = 0; /* reset here because, with adapters, after_backward never reaches
					    the first unit, which has no gradients */
	p4d_reserved__update(r, first);
	p4d_torch_blocks__release(&r->reduces, &r->reduced, 0);
}

const p4d_reserved_engine p4d_reserved__units = {.load = load,
						 .before_forward = before_forward,
						 .after_forward = after_forward,
						 .before_backward = before_backward,
						 .gradient = p4d_reserved__add_gradient,
						 .after_backward = after_backward,
						 .update = update};
