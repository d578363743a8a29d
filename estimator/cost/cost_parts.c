/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes of layers, embedding and head. The search needs these passes for thousands of layouts. They do
 * not depend on stages, chunks or the number of micro-batches, so only dozens of layouts have different
 * passes.
 */
#include "cost/cost_internal.h"
#include "plan/parameters.h"

typedef enum cached_part { EMBEDDING, HEAD, LAYER, EXPERT_LAYER } cached_part;

/* Everything that the duration of a part's passes depends on, packed into bits. Micro-batches are below
 * 2^17. */
typedef struct cache_key {
	uint64_t first, second;
} cache_key;

static cache_key key_of(const p4d_layout *l, cached_part which)
{
	return (cache_key){((l->micro_batch << 11 | l->tp) << 13 | l->cp) << 2 | which, 0};
}

/*
 * The key of a layer also has the option cp-comm, recompute, and whether backward passes are split; for
 * layers with experts, also how experts are spread over ranks. With FP8, it also has whether the weights are
 * cast once per step.
 */
static cache_key key_of_layer(const p4d_layout *l, cached_part which)
{
	const unsigned comm = (unsigned)l->cp_comm, split = p4d_is_split(l->schedule);
	const uint64_t chunk = l->megatron.recompute_block ? l->layers / (l->pp * l->vpp)
							   : 0; /* the recomputed layers, below 2^16 */
	const uint64_t spread = which != LAYER ? l->ep << 11 | l->etp : 0;
	cache_key key = key_of(l, which);

	key.first = key.first << 8 | comm << 4 | (unsigned)l->recompute << 1 | split;
	key.second = (uint64_t)p4d_fp8_keeps_weights(l) << 62 | chunk << 40 |
		     (uint64_t)l->megatron.recompute_modules << 32 | spread;
	return key;
}

typedef void (*cost_fn)(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

static p4d_cost_passes work_out(const p4d_layout *l, const p4d_cost_rates *r, cost_fn cost)
{
	p4d_cost_part y;

	cost(l, r, &y);
	return (p4d_cost_passes){p4d_cost_share_seconds(&y.forward),
				 p4d_cost_share_seconds(&y.backward_input) +
				     p4d_cost_share_seconds(&y.recompute),
				 p4d_cost_share_seconds(&y.backward_weight), y.alone};
}

static p4d_cost_passes recall(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_cache *memory,
			      cache_key key, cost_fn cost)
{
	const uint64_t mixed = (key.first ^ key.second << 20) * UINT64_C(0x9e3779b97f4a7c15);
	/* a multiplication brings all bits of the key into the highest bits */
	const unsigned place = (unsigned)(mixed >> (64 - P4D_COST_CACHE_BITS));

	if (!memory ||
	    p4d_tp_ranks(l) != l->tp) /* grids are not cached, because the key has no room for them */
		return work_out(l, r, cost);
	if (memory->place[place].key != key.first || memory->place[place].more != key.second) {
		memory->place[place].passes = work_out(l, r, cost);
		memory->place[place].key = key.first;
		memory->place[place].more = key.second;
	}
	return memory->place[place].passes;
}

p4d_cost_passes p4d_cost__layer_passes(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_cache *memory)
{
	return recall(l, r, memory, key_of_layer(l, LAYER), p4d_cost__layer);
}

p4d_cost_passes p4d_cost__expert_layer_passes(const p4d_layout *l, const p4d_cost_rates *r,
					      p4d_cost_cache *memory)
{
	return recall(l, r, memory, key_of_layer(l, EXPERT_LAYER), p4d_cost__expert_layer);
}

p4d_cost_passes p4d_cost__embedding_passes(const p4d_layout *l, const p4d_cost_rates *r,
					   p4d_cost_cache *memory)
{
	return recall(l, r, memory, key_of(l, EMBEDDING), p4d_cost__embedding);
}

p4d_cost_passes p4d_cost__head_passes(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_cache *memory)
{
	/* layers of multi-token prediction are a part of the head */
	const cache_key key = l->mtp_layers ? key_of_layer(l, HEAD) : key_of(l, HEAD);

	return recall(l, r, memory, key, p4d_cost__head);
}

p4d_cost_rates p4d_cost__recall_rates(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_cache *memory)
{
	if (!memory)
		return p4d_cost__rates_of(l, gpu);
	if (!memory->rated)
		memory->rates = p4d_cost__rates_of(l, gpu);
	memory->rated = true;
	return memory->rates;
}
