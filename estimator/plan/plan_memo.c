/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_memo.h"

#include <stdlib.h>
#include <string.h>

enum { KEY = offsetof(p4d_layout, stage_layers), TRIES = 4 };

/*
 * The index at which the search for a layout's entry starts. It is a hash of the members that searches
 * choose.
 */
static size_t place_of(const p4d_layout *l)
{
	const uint64_t chosen[] = {l->tp, l->cp, l->ep, l->micro_batch, (uint64_t)l->recompute, l->pp};
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++)
		hash = (hash ^ chosen[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash >> 48;
}

/*
 * Returns the layout's entry or, if there is none, a free entry or the entry of another layout, which is
 * replaced.
 */
static p4d_plan_memo_entry *entry_of(const p4d_plan_memo *memo, const p4d_layout *l, const p4d_gpu *gpu)
{
	const size_t place = place_of(l);

	for (size_t i = 0; i < TRIES; i++) {
		p4d_plan_memo_entry *e = &memo->entry[(place + i) & (memo->entries - 1)];
		if (!e->known || (e->gpu == gpu && memcmp(e->layout, l, KEY) == 0))
			return e;
	}
	return &memo->entry[place & (memo->entries - 1)];
}

p4d_plan_memo p4d_plan_memo_of(size_t entries)
{
	return (p4d_plan_memo){entries, calloc(entries, sizeof(p4d_plan_memo_entry)), 0};
}

void *p4d_plan_memo_numbers(const p4d_plan_memo *memo, const p4d_layout *layout, const p4d_gpu *gpu,
			    bool *known)
{
	p4d_layout l;

	if (!memo || !memo->entry)
		return NULL;
	memcpy(&l, layout, KEY);
	l.world = l.gpus_per_node = l.link_domain = l.vpp = l.dp = l.expert_dp = l.shard_degree = 0;
	l.global_batch = l.micro_batches = l.vocab = 0;
	l.schedule = l.vocab_parallel = 0;
	l.uneven_chunks = l.megatron.overlap_p2p = false;
	l.pp = 0;
	p4d_plan_memo_entry *e = entry_of(memo, &l, gpu);
	*known = e->known && e->gpu == gpu && memcmp(e->layout, &l, KEY) == 0;
	if (!*known) {
		memcpy(e->layout, &l, KEY);
		e->gpu = gpu;
		e->known = true;
	}
	return e->numbers;
}
