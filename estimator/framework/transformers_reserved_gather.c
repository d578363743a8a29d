/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeRO-3 block by block (stage3.py, partition_parameters.py, partitioned_param_coordinator.py). In the first
 * step, parameters are gathered for each module and released after it. Later steps know the order of
 * parameters. They gather groups of parameters ahead, each group into one tensor, up to the number of
 * parameters that may be live. When the first parameter of a group is needed, all parameters of the group are
 * copied out. A parameter that is needed again soon stays gathered.
 */
#include "framework/transformers_reserved.h"

#define PREFETCH 50000000ull /* stage3_prefetch_bucket_size */
#define REUSE 1000000000ull  /* stage3_max_reuse_distance */
#define GROUP 1000000000ull  /* sub_group_size */
enum { MODULES = 10 };       /* modules of a layer; each of them gathers parameters ahead */

static void count(p4d_reserved *r, uint64_t elements)
{
	r->zero.all += elements;
}

static void partition(p4d_reserved *r, uint64_t elements)
{
	p4d_allocated whole = p4d_caching_allocator_take(&r->main, (p4d_wide)elements * r->stored);

	p4d_reserved__take(r, &r->some, (p4d_wide)(elements / r->l->dp) * r->stored);
	p4d_allocator_forget(&r->main, &whole);
}

/*
 * Loads the model: parameters are cut into shards while the model is constructed; then the optimizer copies
 * the shards into one tensor.
 */
static void load(p4d_reserved *r)
{
	p4d_reserved__each_trained(r, count);
	p4d_reserved__each_trained(r, partition);
	p4d_reserved__give(r, &r->some, 0);
	p4d_caching_allocator_trim(&r->main);
	const uint64_t share = (r->zero.all + r->l->dp - 1) / r->l->dp;
	r->zero.share = share;
	p4d_reserved__take(r, NULL, (p4d_wide)share * r->stored);
	if (r->l->offload & P4D_OFFLOAD_OPTIMIZER) {
		p4d_reserved__take(r, NULL, (p4d_wide)r->l->zero_bucket * r->stored);
		return;
	}
	p4d_allocated clone = p4d_caching_allocator_take(&r->main, (p4d_wide)4 * share);
	p4d_reserved__take(r, NULL, (p4d_wide)4 * share);
	p4d_allocator_forget(&r->main, &clone);
	p4d_reserved__take_for_a_while(r, (p4d_wide)4 * share);
	p4d_reserved__take(r, NULL, (p4d_wide)r->l->zero_bucket * r->stored);
	p4d_reserved__take(r, NULL, (p4d_wide)share * r->stored);
}

/* ---- gathering ---- */

static uint64_t unit_of_use(const p4d_reserved *r, unsigned use)
{
	const unsigned units = r->layers + 2;

	return use < units ? use : 2 * units - 1 - use;
}

static uint64_t elements_of(const p4d_reserved *r, unsigned unit)
{
	uint64_t sum = 0;

	if (!unit || unit > r->layers)
		return unit && r->l->tied ? 0 : r->l->vocab * r->l->hidden;
	for (unsigned k = 0; k < r->parameters.count; k++)
		sum += r->parameters.of[k].elements;
	return sum;
}

static uint64_t element_of_unit(const p4d_reserved *r, unsigned unit, unsigned k)
{
	return unit && unit <= r->layers ? r->parameters.of[k].elements : elements_of(r, unit);
}

static unsigned parameters_of(const p4d_reserved *r, unsigned unit)
{
	return unit && unit <= r->layers ? r->parameters.count : 1;
}

static p4d_reserved_gathered *state_of(p4d_reserved *r, unsigned unit, unsigned k)
{
	return &r->parameter[unit * (P4D_TRANSFORMERS_LINEARS + 3) + k];
}

/* Copies a group out of the tensor into which it was gathered. */
static void wait_for(p4d_reserved *r, short group)
{
	for (unsigned unit = 0; unit <= r->layers + 1; unit++)
		for (unsigned k = 0; k < parameters_of(r, unit); k++) {
			p4d_reserved_gathered *p = state_of(r, unit, k);
			if (p->group != group)
				continue;
			p->block = p4d_caching_allocator_take(
			    &r->main, (p4d_wide)element_of_unit(r, unit, k) * r->stored);
			p->group = 0;
		}
	p4d_allocator_forget(&r->main, &r->group[group]);
}

/* Gathers the next group of parameters that follows a use, unless too many are live. */
static void gather_ahead(p4d_reserved *r, unsigned use)
{
	const unsigned uses = 2 * (r->layers + 2);
	uint64_t sum = 0, most = r->live < P4D_ZERO_LIVE ? P4D_ZERO_LIVE - r->live : 0;
	short group = 1;

	most = most < PREFETCH ? most : PREFETCH;
	while (group < P4D_RESERVED_GROUPS - 1 && r->group[group])
		group++;
	for (unsigned next = use + 1; next < uses && sum < most; next++) {
		const unsigned unit = (unsigned)unit_of_use(r, next);
		for (unsigned k = 0; k < parameters_of(r, unit) && sum < most; k++) {
			p4d_reserved_gathered *p = state_of(r, unit, k);
			if (p->block || p->group)
				continue;
			p->group = group;
			sum += element_of_unit(r, unit, k);
		}
	}
	r->live += sum;
	r->group[group] = p4d_caching_allocator_take(&r->main, (p4d_wide)sum * r->stored);
}

static void fetch(p4d_reserved *r, unsigned use)
{
	const unsigned unit = (unsigned)unit_of_use(r, use);
	const bool knows =
	    r->knows; /* true after the first step, when DeepSpeed knows the order of parameters */

	for (unsigned k = 0; k < parameters_of(r, unit); k++) {
		p4d_reserved_gathered *p = state_of(r, unit, k);
		if (p->group)
			wait_for(r, p->group);
		if (p->block)
			continue;
		p->block =
		    p4d_caching_allocator_take(&r->main, (p4d_wide)element_of_unit(r, unit, k) * r->stored);
		r->live += element_of_unit(r, unit, k);
	}
	for (int i = 0; knows && i < (unit && unit <= r->layers ? MODULES : 1); i++)
		gather_ahead(r, use);
}

static void let_go(p4d_reserved *r, unsigned use)
{
	const unsigned unit = (unsigned)unit_of_use(r, use), units = r->layers + 2;
	uint64_t distance = 0;

	for (unsigned i = unit + 1; i < units; i++)
		distance += 2 * elements_of(r, i);
	if (use < units && r->knows && distance < REUSE)
		return;
	for (unsigned k = 0; k < parameters_of(r, unit); k++) {
		p4d_allocator_forget(&r->main, &state_of(r, unit, k)->block);
		r->live -= element_of_unit(r, unit, k);
	}
}

static void before_forward(p4d_reserved *r, unsigned unit)
{
	fetch(r, unit);
}

static void after_forward(p4d_reserved *r, unsigned unit)
{
	let_go(r, unit);
}

static unsigned use_in_backward(const p4d_reserved *r, unsigned unit)
{
	return 2 * (r->layers + 2) - 1 - unit;
}

static void before_backward(p4d_reserved *r, unsigned unit)
{
	fetch(r, use_in_backward(r, unit));
}

/* Copies a gradient into the bucket; a full bucket is reduced from a copy. */
static void add_to_bucket(void *owner, uint64_t bytes)
{
	p4d_reserved *r = owner;
	const uint64_t elements = bytes / r->stored, bucket = r->l->zero_bucket;
	const p4d_allocated block = p4d_caching_allocator_take(&r->main, bytes);

	if (r->zero.waiting && r->zero.waiting + elements > bucket) {
		p4d_reserved__take_for_a_while(r, (p4d_wide)r->zero.waiting * r->stored);
		r->zero.waiting = 0;
	}
	if (elements <= bucket)
		r->zero.waiting += elements;
	p4d_caching_allocator_give(&r->main, block);
}

static void after_backward(p4d_reserved *r, unsigned unit)
{
	let_go(r, use_in_backward(r, unit));
	if (unit)
		return;
	p4d_reserved__take_for_a_while(r, (p4d_wide)r->zero.waiting * r->stored);
	r->zero.waiting = 0;
}

static void norm(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take_for_a_while(r, (p4d_wide)4 * (elements / r->l->dp));
}

static void update(p4d_reserved *r, bool first)
{
	const uint64_t group = r->zero.share < GROUP ? r->zero.share : GROUP;

	r->knows = true;
	if (r->l->offload & P4D_OFFLOAD_OPTIMIZER)
		return;
	p4d_reserved__each_trained(r, norm);
	p4d_allocated flat = p4d_caching_allocator_take(&r->main, (p4d_wide)group * r->stored),
		      wide = p4d_caching_allocator_take(&r->main, (p4d_wide)4 * group);
	p4d_allocator_forget(&r->main, &flat);
	for (int i = 0; first && i < 2; i++)
		p4d_reserved__take(r, NULL, (p4d_wide)4 * r->zero.share);
	if (r->l->torch.optimizer_foreach)
		p4d_reserved__take_for_a_while(r, (p4d_wide)4 * group);
	p4d_allocator_forget(&r->main, &wide);
}

const p4d_reserved_engine p4d_reserved__zero3 = {.load = load,
						 .before_forward = before_forward,
						 .after_forward = after_forward,
						 .before_backward = before_backward,
						 .gradient = add_to_bucket,
						 .after_backward = after_backward,
						 .update = update};
