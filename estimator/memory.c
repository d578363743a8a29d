/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "memory_forms.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t p4d_chunks_in_flight(const p4d_layout *l, uint32_t stage)
{
	uint64_t behind = l->pp - stage; /* this stage and those after it */

	switch (l->schedule) {
	case P4D_GPIPE:
		return l->micro_batches;
	case P4D_INTERLEAVED: /* Megatron-LM's warm-up, plus the one that is running */
		return least(l->micro_batches * l->vpp, 2 * (behind - 1) + (l->vpp - 1) * l->pp + 1);
	default:
		return least(l->micro_batches, behind);
	}
}

p4d_wide p4d_layer_parameters(const p4d_layout *l)
{
	p4d_wide h = l->hidden, f = l->ffn, t = l->tp;
	p4d_wide A = (p4d_wide)l->heads * l->head_dim, G = (p4d_wide)l->kv_heads * l->head_dim;
	p4d_wide n =
	    p4d_div_up(2 * h * A + 2 * h * G + (l->glu ? 3 : 2) * h * f, t) + 2 * h * l->norm_tensors;

	if (l->bias != P4D_BIAS_NONE)
		n += p4d_div_up(A + 2 * G, t);
	if (l->bias == P4D_BIAS_ALL) /* row-parallel layers keep their bias whole */
		n += p4d_div_up((l->glu ? 2 : 1) * f, t) + 2 * h;
	if (l->qk_norm)
		n += 2 * (p4d_wide)l->head_dim;
	return n;
}

p4d_wide p4d_stage_parameters(const p4d_layout *l, uint32_t stage)
{
	p4d_wide table = p4d_div_up((p4d_wide)l->vocab * l->hidden, l->tp);
	p4d_wide n = l->stage_layers[stage] * p4d_layer_parameters(l);

	if (stage == 0)
		n += table + (p4d_wide)l->positions * l->hidden;
	if (stage == l->pp - 1) /* a tied table exists at both ends of a pipeline */
		n += (!l->tied || l->pp > 1 ? table : 0) + (p4d_wide)l->hidden * l->norm_tensors;
	return n;
}

uint64_t p4d_communicator_bytes(const p4d_layout *l)
{
	/* NCCL as measured on 4xA100: 544 MB for a communicator of two ranks, 688 MB for more */
	const uint64_t ranks[] = {l->tp, l->cp, l->dp, l->pp};
	uint64_t bytes = 0;

	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++)
		if (ranks[i] > 1)
			bytes += ranks[i] == 2 ? 544000000 : 688000000;
	return bytes;
}

uint32_t p4d_stage_count(const p4d_layout *layout, int method)
{
	return method == P4D_METHOD_PAPER ? 1 : (uint32_t)layout->pp;
}

static int narrow(p4d_wide wide, uint64_t *narrow_bytes)
{
	/* P4D_NOT_MODELLED is taken, and room for sums is kept */
	if (wide >> 62)
		return -1;
	*narrow_bytes = (uint64_t)wide;
	return 0;
}

static int narrow_stage(const p4d_stage_items *items, p4d_stage *stage)
{
	p4d_wide peak = 0, outside = 0;

	for (int i = 0; i < P4D_PHASES; i++) {
		stage->phase_bytes[i] = P4D_NOT_MODELLED;
		if (!items->modelled[i])
			continue;
		if (narrow(items->phase[i], &stage->phase_bytes[i]) < 0)
			return -1;
		if (items->phase[i] > peak) {
			peak = items->phase[i];
			stage->phase = (p4d_phase)i;
		}
	}
	for (int i = 0; i < P4D_PART_COUNT; i++) {
		if (narrow(items->part[i], &stage->part[i]) < 0)
			return -1;
		if (i >= P4D_PART_FRAGMENTATION)
			outside += items->part[i];
	}
	return narrow(peak, &stage->allocated_bytes) < 0 || narrow(peak + outside, &stage->device_bytes) < 0
		   ? -1
		   : 0;
}

int p4d_stage_memory(const p4d_layout *layout, int method, uint32_t stage, p4d_stage *out, p4d_error *err)
{
	p4d_stage_items items;
	p4d_stage result;

	memset(&items, 0, sizeof(items));
	memset(&result, 0, sizeof(result));
	if (method == P4D_METHOD_PAPER)
		p4d_memory_paper(layout, &items);
	else if (layout->framework == P4D_FRAMEWORK_MEGATRON)
		p4d_memory_megatron(layout, stage, &items);
	else
		p4d_memory_p4d(layout, stage, &items);
	if (narrow_stage(&items, &result) < 0)
		return p4d_fail(err, P4D_E_OVERFLOW,
				"one GPU of stage %u would hold more than 4 EiB; check layers, hidden, ffn, "
				"vocab and seq-len",
				stage);
	*out = result;
	return 0;
}

static uint64_t host_need(const p4d_layout *l, const p4d_capacity *capacity, const p4d_stage *fullest)
{
	uint64_t bytes = P4D_NOT_MODELLED;

	if (l->framework == P4D_FRAMEWORK_P4D) {
		if (narrow(p4d_memory_p4d_host(l, fullest), &bytes) < 0)
			bytes = P4D_NOT_MODELLED - 1; /* more than any node has */
	} else if (capacity->host_bytes_per_rank) {
		if (narrow((p4d_wide)capacity->host_bytes_per_rank * l->gpus_per_node, &bytes) < 0)
			bytes = P4D_NOT_MODELLED - 1;
	}
	return bytes;
}

int p4d_estimate_memory(const p4d_layout *layout, int method, const p4d_capacity *capacity, p4d_estimate *out,
			p4d_error *err)
{
	p4d_estimate e;
	p4d_stage stage;

	memset(&e, 0, sizeof(e));
	for (uint32_t i = 0; i < p4d_stage_count(layout, method); i++) {
		if (p4d_stage_memory(layout, method, i, &stage, err) < 0)
			return -1;
		if (i == 0 || stage.device_bytes > e.peak.device_bytes) {
			e.peak = stage;
			e.stage = i;
		}
	}
	e.method = method;
	e.framework = layout->framework;
	e.gpu = capacity->gpu;
	if (layout->device == P4D_CPU)
		e.capacity_bytes = capacity->host_bytes / layout->gpus_per_node;
	else if (capacity->gpu)
		e.capacity_bytes =
		    method == P4D_METHOD_PAPER ? capacity->gpu->nominal_bytes : capacity->gpu->usable_bytes;
	if (e.capacity_bytes)
		e.fraction = (double)e.peak.device_bytes / (double)e.capacity_bytes;
	e.host_bytes = host_need(layout, capacity, &e.peak);
	*out = e;
	return 0;
}

const char *p4d_part_name(p4d_part part)
{
	static const char *const name[P4D_PART_COUNT] = {
#define PART(id, json) [P4D_PART_##id] = #json,
	    P4D_PARTS(PART)
#undef PART
	};
	return name[part];
}

const char *p4d_phase_name(p4d_phase phase)
{
	static const char *const name[P4D_PHASES] = {"init", "train", "step", "save", "resume"};

	return name[phase];
}
