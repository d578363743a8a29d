/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage of a pipeline with 1F1B (PyTorch's distributed/pipelining/schedules.py), simulated on PyTorch's
 * allocator. FSDP2 gathers a unit when the first micro-batch needs it. The parameters stay gathered, and the
 * gradients are summed unsharded, until the last micro-batch is done. Compared with rehearsals in
 * test_rehearsed_memory.c.
 */
#include "framework/torchtitan_reserved.h"

/*
 * The forward pass of a micro-batch. The first micro-batch gathers the units, which stay gathered until the
 * last micro-batch is done.
 */
static void run_forward_of_stage(p4d_titan *p, unsigned slot, bool gathers)
{
	p->saves = &p->slot[slot];
	if (gathers && p->first) {
		p4d_titan__gather(p, p->table_bytes);
		p4d_titan__copy_table(p, &p->gathered_units, 1);
	}
	if (p->first)
		p4d_titan__embed(p);
	else
		p->state = p4d_caching_allocator_take(&p->main, p4d_titan__hidden(p));
	for (uint32_t i = 0; i < p->layers; i++) {
		if (gathers) {
			p4d_titan__gather(p, p->layer_bytes);
			p4d_titan__copy_layer(p, &p->gathered_units);
		}
		p4d_titan__forward_of_layer(p);
	}
	if (gathers && p->last) {
		p4d_titan__gather(p, p->head_bytes);
		p4d_titan__copy_table(p, &p->gathered_units, 1);
	}
	if (gathers)
		p4d_titan__forget_gathered(p);
	p->output[slot] = p->state;
}

static void run_backward_of_stage(p4d_titan *p, unsigned slot, bool accumulated)
{
	p->saves = &p->slot[slot];
	p->state = p->output[slot];
	if (p->last)
		p4d_titan__loss(p, accumulated);
	else
		p->state = p4d_caching_allocator_take(&p->main, p4d_titan__hidden(p));
	for (uint32_t i = p->layers; i-- > 0;) {
		p4d_titan__backward_of_layer(p);
		p4d_titan__add_up(p, accumulated);
	}
	if (p->first) {
		p4d_titan__add_gradient(p, (uint64_t)((p4d_wide)p->table * p->z.element));
		p4d_titan__take(p, &p->some, (p4d_wide)p->z.tokens * 32 + p4d_titan__wide(p));
		p4d_titan__give(p, &p->some, 0);
		p4d_titan__add_up(p, accumulated);
	}
	p4d_caching_allocator_give(&p->main, p->state);
	if (!p->last)
		p4d_caching_allocator_give(&p->main, p->output[slot]);
}

/*
 * Frees a gathered unit and reduces its gradients, which are the next ones in `sums`, since backward passes
 * run from the last unit to the first.
 */
static void reduce_unit(p4d_titan *p, unsigned parameters, unsigned gradients, p4d_wide bytes)
{
	p4d_titan__give(p, &p->gathered_units, p->gathered_units.count - parameters);
	for (unsigned i = 0; i < gradients; i++)
		p4d_torch_blocks__hold(&p->grads, p->sums.of[p->summed++]);
	p4d_titan__reduce(p, bytes, false);
}

static void reduce_stage(p4d_titan *p)
{
	const bool head = p->last && !p->l->torch.chunked_loss;
	const unsigned of_layers = p->sums.count - head - p->first;

	p->summed = 0;
	if (head)
		reduce_unit(p, 1, 1, p->head_bytes);
	else if (p->last)
		p4d_titan__give(p, &p->gathered_units, p->gathered_units.count - 1);
	for (uint32_t i = p->layers; i-- > 0;)
		reduce_unit(p, p->matrices, of_layers / p->layers, p->layer_bytes);
	if (p->first)
		reduce_unit(p, 1, 1, p->table_bytes);
	p->sums.count = 0;
	p4d_allocator_forget(&p->main, &p->reducing);
}

void p4d_titan__run_passes(p4d_titan *p)
{
	const unsigned all = (unsigned)P4D_LEAST(p->l->micro_batches, p->ahead + 2),
		       ahead = P4D_LEAST(p->ahead, all);

	for (unsigned i = 0; i < ahead; i++)
		run_forward_of_stage(p, i, i == 0);
	for (unsigned i = 0; i < all; i++) {
		run_backward_of_stage(p, i % ahead, i > 0);
		if (i + ahead < all)
			run_forward_of_stage(p, i % ahead, false);
	}
	reduce_stage(p);
}
