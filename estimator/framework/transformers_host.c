/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of a rank in addition to offloaded states: pinned tensors, as PyTorch rounds them; weights
 * during loading; and the state dict that rank 0 gathers. */
#include "framework/transformers.h"

typedef struct pinning {
	uint64_t plain, rounded; /* bytes of all tensors; bytes that PyTorch's pinned-memory allocator takes
				    for these tensors */
} pinning;

/* PyTorch's allocator of pinned memory takes a power of two for each tensor (CachingHostAllocator). */
static uint64_t rounded_up(uint64_t bytes)
{
	uint64_t room = 1;

	while (room < bytes && room < (uint64_t)1 << 62)
		room *= 2;
	return bytes ? room : 0;
}

static uint64_t cut(uint64_t elements, uint64_t ranks)
{
	return (uint64_t)p4d_div_up(elements, ranks);
}

static void pin(pinning *p, uint64_t bytes, uint64_t copies)
{
	p->plain += copies * bytes;
	p->rounded += copies * rounded_up(bytes);
}

/*
 * Counts pinned tensors if the rank's part of each parameter is a separate tensor; norms and biases are small
 * and count as one.
 */
static void pin_each(pinning *p, const p4d_layout *l, uint64_t shards, unsigned element, uint64_t copies)
{
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	const uint64_t table = l->vocab * l->hidden, places = l->positions * l->hidden;

	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++) {
		if (!kinds.layers[kind])
			continue;
		const p4d_zero_list list = p4d_transformers__parameters_of(l, kind);
		for (unsigned i = 0; i < list.count; i++)
			pin(p, cut(list.elements[i], shards) * element, copies * kinds.layers[kind]);
	}
	pin(p, cut(table, shards) * element, copies * (l->tied ? 1 : 2));
	pin(p, cut(places, shards) * element, copies);
}

/*
 * Pinned by ZeRO-3 (stage3.py): fp32 gradients, one tensor per group; all gradients in the type of the
 * parameters; offloaded parameters in one tensor. PyTorch also keeps the memory that the partitions had
 * before they moved into that tensor (twice for a tied table).
 */
static pinning pinned_by_stage_3(const p4d_layout *l, uint64_t trained, uint64_t held, unsigned element)
{
	const uint64_t GROUP = 1000000000; /* default of DeepSpeed's sub_group_size */
	const uint64_t share = cut(trained, l->dp);
	pinning p = {0, 0};

	if (l->offload & P4D_OFFLOAD_OPTIMIZER) {
		pin(&p, 4 * GROUP, share / GROUP);
		pin(&p, 4 * (share % GROUP), 1);
		pin(&p, element * share, 1);
	}
	if (l->offload & P4D_OFFLOAD_PARAMS) {
		pinning parts = {0, 0};
		pin_each(&parts, l, l->dp, element, 1);
		if (l->tied)
			pin(&parts, cut(l->vocab * l->hidden, l->dp) * element, 1);
		pin(&p, cut(held, l->dp), 1);
		p.rounded += parts.rounded;
	}
	return p;
}

/*
 * Pinned by ZeRO 1 and 2 (stage_1_and_2.py): master copy and gradients in fp32, updated parameters, and a
 * gradient in transit. Gradients of earlier micro-batches are separate tensors; p4d does not compute which of
 * them a rank has.
 */
static pinning pinned_by_stage_2(const p4d_layout *l, uint64_t trained, uint64_t on_its_way, unsigned element)
{
	const uint64_t share = cut(trained, l->dp);
	pinning p = {0, 0};

	if (l->offload & P4D_OFFLOAD_OPTIMIZER) {
		pin(&p, 4 * share, 2);
		pin(&p, element * share, 1);
		pin(&p, element * on_its_way, 1);
	}
	if (l->offload & P4D_OFFLOAD_OPTIMIZER && l->zero_stage == 2 && l->micro_batches > 1) {
		pinning all = {0, 0};
		pin_each(&all, l, 1, element, 1);
		const double more = all.plain ? (double)all.rounded / (double)all.plain : 1;
		p.plain += element * share;
		p.rounded += (uint64_t)(more * (double)(element * share));
	}
	return p;
}

static pinning pinned(const p4d_layout *l, const p4d_transformers_host *h)
{
	if (p4d_framework_shares(l, P4D_SHARES_BY_STAGE))
		return l->zero_stage > 2 ? pinned_by_stage_3(l, h->trained, h->parameter_bytes, h->element)
					 : pinned_by_stage_2(l, h->trained, h->largest, h->element);
	pinning p = {0, 0};
	if (p4d_framework_shares(l, P4D_SHARES_UNITS) && l->offload & P4D_OFFLOAD_PARAMS &&
	    l->finetune == P4D_TUNE_FULL && !l->fsdp.flat) /* parameters, and their gradients */
		pin_each(&p, l, h->shards, h->element, 2);
	return p;
}

/*
 * Host memory while the HF Trainer saves a checkpoint. With FSDP, it gathers the model's state dict and then
 * the optimizer's; safetensors writes from a copy of the model. With ZeRO-3, it saves shards, tensor by
 * tensor.
 */
static uint64_t saving(const p4d_layout *l, const p4d_transformers_host *h)
{
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const uint64_t moments = o->bits || o->factored || o->paged ? 0 : (o->states - 1) * h->trained * 4;

	if (l->finetune != P4D_TUNE_FULL)
		return 0;
	if (p4d_framework_shares(l, P4D_SHARES_UNITS))
		return P4D_MOST(moments, 4 * h->trained);
	if (p4d_framework_shares(l, P4D_SHARES_BY_STAGE) && l->zero_stage > 2)
		return 4 * cut(h->trained, l->dp);
	return h->parameter_bytes;
}

/*
 * Host memory while weights are loaded. The file has 16-bit weights and is mapped; a rank that casts them to
 * fp32 has a copy. In ZeRO-3 a rank has only parts of them.
 */
static uint64_t loading(const p4d_layout *l, const p4d_transformers_host *h)
{
	if (h->stored < 4 || l->quant != P4D_QUANT_NONE || p4d_framework_shares(l, P4D_SHARES_BY_STAGE))
		return 0;
	return h->parameters * 4;
}

p4d_host_beside p4d_transformers__host(const p4d_layout *l, const p4d_transformers_host *h)
{
	const pinning p = pinned(l, h);

	return (p4d_host_beside){.pinned = p.rounded,
				 .rounding = p.rounded - p.plain,
				 .loading = loading(l, h),
				 .saving = saving(l, h)};
}
