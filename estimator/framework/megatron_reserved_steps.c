/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that PyTorch's allocator reserves for Megatron-LM. p4d simulates the allocator during two steps,
 * as transformers_reserved.c does for PyTorch's own frameworks. The first update allocates the moments in
 * blocks that activations have freed, so the second step needs new blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "framework/megatron_reserved_experts.h"
#include "framework/megatron_reserved_passes.h"
#include "framework/megatron_reserved_states.h"
#include "framework/torch_blocks.h"
#include "plan/parameters.h"

static bool is_played(const p4d_layout *l, const p4d_plan *plan)
{
	return l->flash_attention && (!l->experts || p4d_megatron__plays_experts(l)) && !l->kv_rank &&
	       !l->pattern_length && l->cp <= P4D_MEGATRON_RING && l->megatron.cp_heads <= 1 &&
	       (l->vpp == 1 || (l->schedule == P4D_INTERLEAVED && l->micro_batches % l->pp == 0 &&
				l->vpp <= P4D_MEGATRON_CHUNKS && l->pp <= 64)) &&
	       !l->uneven_chunks && l->precision != P4D_FP8 && !l->megatron.graphs && !l->mtp_layers &&
	       plan->slots.activation <= P4D_MEGATRON_PLAYED_SLOTS;
}

static void find_experts(p4d_megatron_step *p)
{
	for (uint32_t chunk = 0; chunk < p->chunks && p->l->experts; chunk++) {
		const uint64_t first = p4d_parameters_first_layer(p->l, p->stage, chunk);
		for (uint32_t i = 0; i < P4D_MEGATRON_DEPTH; i++)
			p->routed[chunk][i] = p4d_expert_layers_before(p->l, first + i + 1) >
					      p4d_expert_layers_before(p->l, first + i);
	}
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
	p->first = !stage;
	p->last = stage + 1 == l->pp;
	p->element = l->precision == P4D_FP32 ? 4 : 2;
	find_experts(p);
}

static void start(p4d_megatron_step *p, uint64_t room)
{
	p4d_caching_allocator *const streams[] = {&p->main, &p->side};

	memset(&p->streams, 0, sizeof(p->streams));
	memset(p->exists, 0, sizeof(p->exists));
	p->once_count = 0;
	p->has_workspaces = false;
	memset(p->kept, 0, sizeof(p->kept));
	memset(&p->passes, 0, sizeof(p->passes));
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		p4d_caching_allocator_start(streams[i], p->l->allocator == P4D_ALLOCATOR_EXPANDABLE);
		p4d_caching_allocator_add(&p->streams, streams[i]);
	}
	p->streams.room = room;
}

/* A p4d_allocator_play of p->layers layers. */
static uint64_t play(void *of, uint64_t room, p4d_allocator_use *use)
{
	p4d_megatron_step *p = of;

	start(p, room);
	p4d_megatron__load(p);
	if (!p->l->megatron.te_wgrad)
		p4d_megatron__once(p, "workspace.torch");
	for (int step = 0; step < 2 && !p4d_megatron__ends(p); step++) {
		p4d_megatron__passes(p);
		p4d_megatron__update(p, step == 0);
	}
	*use = (p4d_allocator_use){p->streams.most_taken, p->streams.work};
	if (p->main.overflow || p->side.overflow)
		return 0;
	return p->streams.exhausted ? UINT64_MAX : p->streams.most_reserved;
}

/* In deep models, each layer beyond a depth adds the same amount. */
static uint64_t played_to_depth(p4d_megatron_step *p, bool is_short)
{
	const uint32_t depth = p4d_megatron__depth(p);

	if (p->all_layers > depth && (depth < 2 || p->l->dense_layers || p->l->expert_every > 1))
		return 0;
	return p4d_torch_blocks__reserved(play, p, &p->layers, p->all_layers, depth, is_short);
}

uint64_t p4d_megatron__reserved(const p4d_layout *l, uint32_t stage, const p4d_plan *plan, bool is_short)
{
	if (!is_played(l, plan) || l->layers < l->pp * l->vpp)
		return 0;
	p4d_megatron_step *p = malloc(sizeof(*p));
	if (!p)
		return 0;
	begin(p, l, stage, plan);
	const uint64_t bytes = played_to_depth(p, is_short);
	free(p);
	return bytes;
}
