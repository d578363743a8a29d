/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/memory_played.h"

#include "base/wide.h"
#include "plan/plan_rows.h"
#include "request/framework.h"

/* Bytes that training itself allocates, without evaluation. */
static uint64_t trained(const p4d_plan *plan)
{
	uint64_t most = 0;

	for (int phase = P4D_INIT; phase <= P4D_STEP; phase++)
		most = plan->phase_bytes[phase] > most ? plan->phase_bytes[phase] : most;
	return most;
}

/*
 * No GPU has this much memory. Then p4d does not simulate the allocator, so simulations need not support such
 * sizes.
 */
#define MOST_PLAYED ((uint64_t)1 << 44)

/* The result is at least the size of the plan's buffers. */
uint64_t p4d_memory_reserved(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, bool is_short)
{
	const p4d_framework *framework = p4d_framework_of(layout->framework);
	p4d_plan plan;

	if (!framework->reserved || !p4d_on_gpu(layout->device) ||
	    p4d_plan_build(layout, gpu, stage, &plan, NULL) < 0 || trained(&plan) > MOST_PLAYED)
		return 0;
	const uint64_t bytes = framework->reserved(layout, stage, &plan, is_short);
	return bytes && bytes < trained(&plan) ? trained(&plan) : bytes;
}

/* Whether all batches have the same length. transformers' trainers pad a batch to its longest sequence. */
static bool lengths_stay(const p4d_layout *l)
{
	return !p4d_framework_is_of_pytorch(l) || l->torch.model_code == P4D_MODEL_CODE_TORCHTITAN;
}

/* Whether tensors have the same sizes in every step. Experts get different numbers of tokens. */
static bool sizes_stay(const p4d_layout *l)
{
	return !l->experts || (l->megatron.expert_capacity > 0 && l->megatron.pads_experts);
}

/* If memory without fragmentation is below this share of a GPU, fragmentation cannot make it too large:
 * rehearsed allocators need at most 1.42 times the allocated memory. */
#define LEAST_SHORT 0.66

/* What a stage's allocator needs at least; 0: unknown. A stage of the estimate is not simulated again. */
static uint64_t needed_by(const p4d_layout *l, const p4d_estimate *e, uint32_t stage)
{
	for (uint32_t i = 0; i < e->stages_played; i++)
		if (e->played[i].stage == stage)
			return e->played[i].bytes;
	return p4d_memory_reserved(l, e->gpu, stage, true);
}

/*
 * Simulates the allocator in a stage if the GPU is nearly full. Returns whether it did. The constant share
 * remains where it is larger and the simulation may be too small: the site measured margins of p4d's
 * constants, or tensors have other sizes in each step. notes: keeps the result; may be NULL.
 */
static bool play_stage(const p4d_layout *l, const p4d_estimate *e, uint32_t number, p4d_stage *stage,
		       p4d_estimate *notes)
{
	uint64_t *const share = &stage->part[P4D_PART_FRAGMENTATION];
	const uint64_t rest = stage->device_bytes - *share;

	if (stage->phase > P4D_STEP || rest > e->capacity_bytes ||
	    (double)rest < LEAST_SHORT * (double)e->capacity_bytes)
		return false;
	const uint64_t needed = needed_by(l, e, number);
	if (notes && notes->stages_played < P4D_PLAYED_STAGES)
		notes->played[notes->stages_played++] = (p4d_played_stage){number, needed};
	if (needed < stage->allocated_bytes)
		return false;
	const uint64_t played = needed - stage->allocated_bytes;
	const bool keeps_larger = !sizes_stay(l) || p4d_memory__margin(l, e->gpu);
	if (keeps_larger && played < *share)
		return true;
	*share = played;
	stage->device_bytes = rest + played;
	stage->plays_allocator = sizes_stay(l);
	return true;
}

int p4d_memory_of_estimate(const p4d_layout *layout, const p4d_estimate *e, uint32_t stage, p4d_stage *out,
			   p4d_error *err)
{
	if (stage == e->stage) {
		*out = e->peak;
		return 0;
	}
	if (p4d_memory_of_stage(layout, e->method, e->gpu, stage, out, err) < 0)
		return -1;
	if (e->is_played)
		play_stage(layout, e, stage, out, NULL);
	return 0;
}

int p4d_memory_least_of_estimate(const p4d_layout *l, const p4d_estimate *e, uint64_t *bytes, p4d_error *err)
{
	uint32_t least = e->stage;
	p4d_stage stage;

	*bytes = e->peak.device_bytes;
	for (uint32_t i = 0; i < p4d_memory_stage_count(l, e->method); i++) {
		if (p4d_memory_of_stage(l, e->method, e->gpu, i, &stage, err) < 0)
			return -1;
		if (stage.device_bytes < *bytes) {
			*bytes = stage.device_bytes;
			least = i;
		}
	}
	if (p4d_memory_of_estimate(l, e, least, &stage, err) < 0)
		return -1;
	*bytes = P4D_LEAST(stage.device_bytes, e->peak.device_bytes);
	return 0;
}

void p4d_memory_play(const p4d_layout *l, const p4d_capacity *capacity, p4d_estimate *e)
{
	p4d_memory_stages all = p4d_memory__stages(l, e->method);
	p4d_estimate most = *e;
	p4d_stage stage;
	uint32_t i;

	if (e->method == P4D_METHOD_PAPER || !capacity->gpu || !lengths_stay(l) ||
	    !play_stage(l, e, e->stage, &most.peak, &most))
		return;
	most.is_played = true;
	for (unsigned left = P4D_PLAYED_STAGES - 1; p4d_memory__next_stage(l, &all, &i);) {
		if (i == e->stage || p4d_memory_of_stage(l, e->method, e->gpu, i, &stage, NULL) < 0)
			continue;
		left -= left && play_stage(l, e, i, &stage, &most);
		if (stage.device_bytes > most.peak.device_bytes) {
			most.peak = stage;
			most.stage = i;
		}
	}
	most.fraction = (double)most.peak.device_bytes / (double)most.capacity_bytes;
	*e = most;
}

/* Whether a layout stays below the fraction of the GPU's memory, or may do so, with the simulated allocator.
 */
static bool fits(const p4d_layout *l, int method, const p4d_capacity *capacity, double fraction)
{
	p4d_estimate e;

	if (p4d_memory_estimate(l, method, capacity, &e, NULL) < 0)
		return false;
	p4d_memory_play(l, capacity, &e);
	return e.fraction <= fraction || p4d_memory_unsure(l, &e, fraction);
}

/*
 * Experts with a capacity drop tokens that exceed it. An expert with fewer tokens needs less than its
 * capacity, but the number of tokens is known only at run time. Returns whether the layout fits if half of
 * the tokens are dropped.
 */
static bool fits_if_dropped(const p4d_layout *layout, int method, const p4d_capacity *capacity,
			    double fraction)
{
	p4d_layout l = *layout;

	if (!l.experts || !(l.megatron.expert_capacity > 0) || l.megatron.pads_experts ||
	    l.megatron.expert_capacity > l.imbalance)
		return false;
	l.megatron.expert_capacity /= 2;
	return fits(&l, method, capacity, fraction);
}

const char *p4d_memory_of_newer(const p4d_layout *layout, int method, const p4d_capacity *capacity,
				double fraction)
{
	p4d_layout l = *layout;

	if (fits_if_dropped(layout, method, capacity, fraction))
		return "tokens above the capacity of experts, which are dropped";
	if (!l.half_moments || !l.megatron.adam_copies || !l.megatron.adam_copies_open ||
	    p4d_framework_of(l.framework)->rounds_moments)
		return NULL;
	l.megatron.adam_copies = false;
	return fits(&l, method, capacity, fraction)
		   ? "fp32 copies of bf16 moments; Transformer Engine 2.14 and later make none: "
		     "adam-copies=off"
		   : NULL;
}
