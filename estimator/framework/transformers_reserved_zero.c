/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DeepSpeed block by block: stage 0 (bf16_optimizer.py, and wrappers of other optimizers), stages 1 and 2
 * (stage_1_and_2.py). transformers_zero.c has the amounts. The last rank is simulated: the first reduced
 * gradients are its own, so it holds them longest.
 */
#include "framework/transformers_reserved.h"

/* ---- stage 0 ---- */

static void copy_to_fp32(p4d_reserved *r, uint64_t elements)
{
	p4d_allocated clone = p4d_caching_allocator_take(&r->main, (p4d_wide)elements * r->stored);

	p4d_reserved__take(r, NULL, (p4d_wide)4 * elements);
	p4d_allocator_forget(&r->main, &clone);
}

static void hold_gradient(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, &r->grads, (p4d_wide)elements * r->stored);
}

static void hold_fp32(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, &r->some, (p4d_wide)4 * elements);
}

static void make_moments(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, NULL, (p4d_wide)4 * elements);
	p4d_reserved__take(r, NULL, (p4d_wide)4 * elements);
}

/* Runs the optimizer once before the first step, with gradients of zeros, as DeepSpeed does. */
static void load_copies(p4d_reserved *r)
{
	p4d_reserved__each_trained(r, p4d_reserved__load);
	p4d_reserved__each_trained(r, copy_to_fp32);
	p4d_reserved__each_trained(r, hold_gradient);
	p4d_reserved__each_trained(r, hold_fp32);
	p4d_reserved__each_trained(r, make_moments);
	p4d_reserved__give(r, &r->grads, 0);
	p4d_reserved__give(r, &r->some, 0);
}

static void update_copies(p4d_reserved *r, bool first)
{
	(void)first;
	p4d_reserved__each_trained(r, hold_fp32);
	if (r->l->torch.optimizer_foreach)
		p4d_reserved__each_trained(r, hold_fp32);
	p4d_reserved__give(r, &r->some, 0);
	p4d_reserved__give(r, &r->grads, 0);
}

/* Averages a gradient over the ranks, in an fp32 copy. */
static void average(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take_for_a_while(r, (p4d_wide)4 * elements);
}

static void after_backward_of_copies(p4d_reserved *r, unsigned unit)
{
	if (!unit && p4d_reserved__is_last(r) && r->l->dp > 1)
		p4d_reserved__each_trained(r, average);
}

const p4d_reserved_engine p4d_reserved__bf16 = {.load = load_copies,
						.gradient = p4d_reserved__add_gradient,
						.after_backward = after_backward_of_copies,
						.update = update_copies};

/* ---- stages 1 and 2 ---- */

static void find_own(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved_zero *z = &r->zero;

	if (z->at < z->to && z->at + elements > z->from)
		z->own += elements;
	z->at += elements;
}

static void count(p4d_reserved *r, uint64_t elements)
{
	r->zero.all += elements;
}

static bool on_host(const p4d_reserved *r)
{
	return r->l->offload & P4D_OFFLOAD_OPTIMIZER;
}

/* Parameters become views of one tensor; the rank's part of it is copied to fp32. */
static void load_windows(p4d_reserved *r)
{
	p4d_reserved_zero *z = &r->zero;

	p4d_reserved__each_trained(r, count);
	z->share = (z->all + r->l->dp - 1) / r->l->dp;
	z->share = z->share ? z->share
			    : 1; /* 0 if only experts' adapters are trained, because those are not listed */
	z->from = z->share * (r->l->dp - 1);
	z->to = z->all;
	p4d_reserved__each_trained(r, find_own);
	p4d_reserved__each_trained(r, p4d_reserved__hold);
	p4d_caching_allocator_trim(&r->main);
	p4d_reserved__take(r, NULL, (p4d_wide)z->all * r->stored);
	p4d_reserved__give(r, &r->some, 0);
	if (!on_host(r))
		copy_to_fp32(r, z->share);
	p4d_caching_allocator_trim(&r->main);
	if (on_host(r)) /* a buffer for the largest gradient that is being copied to the host */
		p4d_reserved__take(r, NULL, (p4d_wide)r->l->vocab * r->l->hidden * r->stored);
	else
		p4d_reserved__take_for_a_while(r, (p4d_wide)4 * z->share);
}

static bool reduces_at_end(const p4d_reserved *r)
{
	return r->l->zero_stage == 1 && !r->l->overlap_dp;
}

/* The allocator of the stream on which gradients are reduced. */
static p4d_caching_allocator *reducing_stream(p4d_reserved *r)
{
	return r->l->overlap_dp ? &r->reduces : &r->main;
}

/*
 * Reduces each part of the bucket to its rank; from a copy, if the bucket has parts of several ranks. The
 * simulated rank keeps its own part.
 */
static void flush(p4d_reserved *r)
{
	p4d_reserved_zero *z = &r->zero;
	const uint64_t bucket = r->l->zero_bucket, groups = (bucket / z->share + 1) * z->share;
	const uint64_t copied = z->waiting <= bucket || z->waiting < groups ? z->waiting : groups;

	if (!z->waiting)
		return;
	const uint64_t from = z->upwards ? z->at - z->waiting : z->at, to = from + z->waiting;
	if (from / z->share != (to - 1) / z->share) {
		p4d_allocated copy =
		    p4d_caching_allocator_take(reducing_stream(r), (p4d_wide)copied * r->stored);
		p4d_allocator_forget(reducing_stream(r), &copy);
	}
	if (z->own_waits && !z->has_own && !on_host(r)) {
		const p4d_allocated own =
		    p4d_caching_allocator_take(reducing_stream(r), (p4d_wide)z->own * r->stored);
		if (z->kept) /* added to the gradients of earlier micro-batches */
			p4d_torch_blocks__hold(&r->reduced, own);
		else
			z->kept = own;
		z->has_own = true;
	}
	p4d_reserved__give(r, &r->copies, 0); /* copies of gradients that are larger than the bucket */
	z->waiting = 0;
	z->own_waits = false;
}

static void start_buckets(p4d_reserved *r)
{
	p4d_reserved_zero *z = &r->zero;

	for (unsigned i = 0; i < (r->l->overlap_dp ? 2 : 1) && !z->bucket[i]; i++)
		z->bucket[i] = p4d_caching_allocator_take(&r->main, (p4d_wide)r->l->zero_bucket * r->stored);
}

/* Copies a gradient into the bucket and frees its block. */
static void reduce(p4d_reserved *r, uint64_t elements, p4d_allocated block)
{
	p4d_reserved_zero *z = &r->zero;
	const uint64_t at = z->upwards ? z->at : z->at > elements ? z->at - elements : 0;

	start_buckets(r);
	if (z->waiting && z->waiting + elements > r->l->zero_bucket)
		flush(r);
	z->own_waits = z->own_waits || (at < z->to && at + elements > z->from);
	z->at = z->upwards ? at + elements : at;
	z->waiting += elements;
	if (elements > r->l->zero_bucket)
		p4d_torch_blocks__hold(&r->copies, block);
	else
		p4d_caching_allocator_give(&r->main, block);
}

static void add_to_bucket(void *owner, uint64_t bytes)
{
	p4d_reserved *r = owner;

	if (reduces_at_end(r) || (r->l->zero_stage == 1 && !p4d_reserved__is_last(r))) {
		p4d_reserved__add_gradient(r, bytes);
		start_buckets(r);
	} else if (r->l->zero_stage == 1 && r->micro_batch) { /* stage 1 reduces the sum over micro-batches */
		p4d_reserved__take_for_a_while(r, bytes);
		reduce(r, bytes / r->stored, r->pending < r->grads.count ? r->grads.of[r->pending++] : 0);
	} else {
		reduce(r, bytes / r->stored, p4d_caching_allocator_take(&r->main, bytes));
	}
}

static void reduce_next(p4d_reserved *r, uint64_t elements)
{
	const p4d_allocated block = r->pending ? r->grads.of[--r->pending] : 0;

	reduce(r, elements, block);
}

static void after_backward(p4d_reserved *r, unsigned unit)
{
	p4d_reserved_zero *z = &r->zero;

	if (unit)
		return;
	if (reduces_at_end(r)) {
		if (!p4d_reserved__is_last(r))
			return;
		z->upwards = true;
		z->at = 0;
		r->pending = r->grads.count;
		p4d_reserved__each_trained(r, reduce_next);
	} else if (r->l->zero_stage == 1 && !p4d_reserved__is_last(r)) {
		return;
	}
	r->grads.count = r->pending = 0;
	flush(r);
	p4d_torch_blocks__release(reducing_stream(r), &r->reduced, 0);
	for (unsigned i = 0; i < 2; i++)
		p4d_allocator_forget(&r->main, &z->bucket[i]);
	z->has_own = false;
	z->at = z->all;
}

static void norm(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved_zero *z = &r->zero;
	const uint64_t end = z->at + elements, from = z->at > z->from ? z->at : z->from,
		       to = end < z->to ? end : z->to;

	if (to > from)
		p4d_reserved__take_for_a_while(r, (p4d_wide)8 * (to - from));
	z->at = end;
}

/*
 * The norm is computed from fp64 copies, one gradient at a time; then the gradients are copied into one
 * tensor, which is cast to fp32.
 */
static void update(p4d_reserved *r, bool first)
{
	p4d_reserved_zero *z = &r->zero;
	const p4d_wide share = z->share;

	z->at = 0;
	if (on_host(r))
		return;
	p4d_reserved__each_trained(r, norm);
	p4d_allocated flat = p4d_caching_allocator_take(&r->main, share * r->stored),
		      wide = p4d_caching_allocator_take(&r->main, 4 * share);
	p4d_allocator_forget(&r->main, &flat);
	if (first)
		make_moments(r, z->share);
	if (r->l->torch.optimizer_foreach)
		p4d_reserved__take_for_a_while(r, 4 * share);
	p4d_allocator_forget(&r->main, &wide);
	p4d_allocator_forget(reducing_stream(r), &z->kept);
	z->at = z->all;
}

static void before_forward(p4d_reserved *r, unsigned unit)
{
	if (!unit)
		r->zero.at = r->zero.all;
}

const p4d_reserved_engine p4d_reserved__zero = {.load = load_windows,
						.before_forward = before_forward,
						.gradient = add_to_bucket,
						.after_backward = after_backward,
						.update = update};
