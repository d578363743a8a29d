/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <string.h>

#include "base/hash.h"
#include "plan/plan_rows.h"
#include "request/framework.h"

static uint64_t plus(p4d_rows *rows, uint64_t a, uint64_t b)
{
	/* a and b are below P4D_MOST_BYTES, so a + b does not wrap */
	rows->overflow = rows->overflow || a + b >= P4D_MOST_BYTES;
	return rows->overflow ? 0 : a + b;
}

/*
 * Bytes of all rows with the same lifetime, in one slot: `layer`: rows with a copy per layer; `flat`: all
 * others.
 */
typedef struct region {
	uint64_t layer, flat, slot, slots, layers, at;
} region;

/*
 * The regions of the arena in the order of lifetimes; and, for each live point, the packed rows of the last
 * region.
 */
typedef struct arena {
	region of[P4D_LIVES_IN_RANGE + 1];
	p4d_packing packing;
} arena;

/* Places a row after the previous one; the copies of a row are contiguous. */
static void place_on_host(p4d_rows *rows, p4d_tensor *row)
{
	const uint64_t copies = p4d_times(rows, row->layers, row->slots);

	row->offset = rows->plan->host_bytes;
	row->layer_stride = row->layers > 1 ? row->bytes : 0;
	row->slot_stride = row->slots > 1 ? row->bytes * row->layers : 0;
	rows->plan->host_bytes = plus(rows, row->offset, p4d_times(rows, copies, row->bytes));
}

/* Sums the bytes of each region. Slots are contiguous, and so are the layers in a slot. */
static void measure_regions(p4d_rows *rows, region of[P4D_LIVES_IN_RANGE + 1])
{
	p4d_plan *plan = rows->plan;
	uint64_t at = 0;

	memset(of, 0, (P4D_LIVES_IN_RANGE + 1) * sizeof(*of));
	for (unsigned i = 0; i < plan->count; i++) {
		p4d_tensor *row = &plan->tensor[i];
		if (row->lifetime == P4D_LIVES_ON_HOST) {
			place_on_host(rows, row);
			continue;
		}
		region *r = &of[row->lifetime];
		uint64_t *sum = row->layers > 1 ? &r->layer : &r->flat;
		*sum = plus(rows, *sum, row->bytes);
		r->slots = row->slots;
		r->layers = row->layers > 1 ? row->layers : r->layers;
	}
	for (int i = 0; i <= P4D_LIVES_IN_RANGE; i++) {
		of[i].at = at;
		of[i].slot = plus(rows, p4d_times(rows, of[i].layer, of[i].layers), of[i].flat);
		if (i < P4D_LIVES_IN_RANGE)
			at = plus(rows, at, p4d_times(rows, of[i].slot, of[i].slots));
	}
}

/* The start of a live point's transient rows: after the slots, or at the start of the slots. */
static uint64_t begin_of(const arena *a, int point)
{
	return a->of[P4D_FREE_OF_SLOTS >> point & 1 ? P4D_LIVES_IN_SLOT : P4D_LIVES_IN_RANGE].at;
}

/* Number of bytes of the arena that are in use at these live points. */
static uint64_t reach(const arena *a, unsigned points)
{
	uint64_t most = 0;

	for (int i = 0; i < P4D_LIVE_POINTS; i++)
		if (points >> i & 1 && begin_of(a, i) + a->packing.top[i] > most)
			most = begin_of(a, i) + a->packing.top[i];
	return most;
}

static void find_peak(p4d_plan *plan, const arena *a)
{
	plan->live_bytes = 0;
	plan->peak = P4D_AT_EMBED;
	for (int i = 0; i < P4D_LIVE_POINTS; i++)
		if (begin_of(a, i) + a->packing.alive[i] > plan->live_bytes) {
			plan->live_bytes = begin_of(a, i) + a->packing.alive[i];
			plan->peak = (p4d_live_point)i;
		}
	plan->idle_bytes = plan->idle[plan->peak];
	plan->phase = plan->peak == P4D_AT_OPTIMIZER        ? P4D_STEP
		      : P4D_FREE_OF_SLOTS >> plan->peak & 1 ? P4D_EVALUATION
							    : P4D_TRAIN;
}

static void place_rows(p4d_plan *plan, const arena *a)
{
	const region *of = a->of;
	uint64_t layered[P4D_LIVES_IN_RANGE], flat[P4D_LIVES_IN_RANGE];

	for (int i = 0; i < P4D_LIVES_IN_RANGE; i++) {
		layered[i] = of[i].at;
		flat[i] = of[i].at + of[i].layer * of[i].layers;
	}
	for (unsigned i = 0; i < plan->count; i++) {
		p4d_tensor *row = &plan->tensor[i];
		if (row->lifetime == P4D_LIVES_ON_HOST)
			continue;
		if (row->lifetime == P4D_LIVES_IN_RANGE) {
			row->offset += begin_of(a, __builtin_ctz(row->live_range));
			continue;
		}
		uint64_t *next = row->layers > 1 ? &layered[row->lifetime] : &flat[row->lifetime];
		row->offset = *next;
		row->layer_stride = row->layers > 1 ? of[row->lifetime].layer : 0;
		row->slot_stride = row->slots > 1 ? of[row->lifetime].slot : 0;
		*next += row->bytes;
	}
}

static bool is_live(const p4d_tensor *row, p4d_live_point point)
{
	if (row->lifetime == P4D_LIVES_IN_RANGE)
		return row->live_range >> point & 1;
	if (row->lifetime == P4D_LIVES_ON_HOST)
		return false;
	return row->lifetime == P4D_LIVES_ALWAYS || !(P4D_FREE_OF_SLOTS >> point & 1);
}

/* Sums the memory classes of the rows that are live at the peak. */
static void sum_parts(p4d_plan *plan)
{
	memset(plan->part, 0, sizeof(plan->part));
	for (unsigned i = 0; i < plan->count; i++) {
		const p4d_tensor *row = &plan->tensor[i];
		if (is_live(row, plan->peak))
			plan->part[row->part] += row->bytes * row->layers * row->slots;
	}
	/* unused space between packed rows, if any, counts as working memory */
	plan->part[P4D_PART_WORKING_SET] += plan->arena_bytes - plan->live_bytes;
}

static void fill_phases(p4d_plan *plan, const arena *a, const p4d_framework *framework)
{
	for (int phase = 0; phase < P4D_PHASES; phase++)
		plan->phase_bytes[phase] = plan->persistent_bytes;
	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].at_first_step)
			plan->phase_bytes[P4D_INIT] -= plan->tensor[i].bytes;
	plan->phase_bytes[P4D_TRAIN] = reach(a, ~P4D_FREE_OF_SLOTS);
	plan->phase_bytes[P4D_STEP] = reach(a, 1u << P4D_AT_OPTIMIZER);
	/* if there are no rows for evaluation, it equals the forward pass of training */
	const uint64_t evaluation = reach(a, framework->evaluation);
	plan->phase_bytes[P4D_EVALUATION] = evaluation > plan->persistent_bytes
						? evaluation
						: reach(a, 1u << P4D_AT_FORWARD | 1u << P4D_AT_LOSS);
	if (!framework->checkpoints_are_modelled)
		plan->phase_bytes[P4D_SAVE] = plan->phase_bytes[P4D_RESUME] = P4D_NOT_MODELLED;
}

p4d_tensor *p4d_rows_of_states(p4d_rows *rows, unsigned from, unsigned to, p4d_dtype dtype, uint64_t elements)
{
	const p4d_optimizer *o = p4d_optimizer_of(rows->layout);
	p4d_tensor *first = &rows->plan->tensor[rows->plan->count];

	for (unsigned i = from; i < to && i < o->states; i++)
		if (i != P4D_STATE_MASTER || p4d_dtype_of(rows->layout) != P4D_DT_FP32)
			p4d_row(rows, o->row[i], "tp pp dp cp", P4D_PART_OPTIMIZER, dtype, elements, 0, 0)
			    ->id = (p4d_buffer)(B_STATE + i);
	return first;
}

/*
 * Writes the rows, sizes the regions and packs the transient rows: everything that the arena's size depends
 * on.
 */
static int tabulate(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, const p4d_plan_memo *memo,
		    p4d_plan *plan, arena *a, p4d_error *err)
{
	const p4d_framework *framework = p4d_framework_of(layout->framework);
	p4d_rows rows = {.layout = layout,
			 .gpu = gpu,
			 .memo = memo,
			 .schedule = p4d_schedule_of(layout),
			 .stage = stage,
			 .slot_layers = layout->stage_layers[stage] / layout->vpp,
			 .alignment = framework->alignment,
			 .plan = plan};

	rows.first = stage == 0;
	rows.last = p4d_schedule_is_last(&rows.schedule, stage);
	plan->count = 0;
	memset(plan->idle, 0, sizeof(plan->idle));
	plan->host_bytes = 0;
	plan->host = (p4d_host_beside){0};
	plan->slots = p4d_schedule_slots(&rows.schedule, stage);
	rows.slots = plan->slots.activation;
	if (layout->uneven_chunks) {
		rows.slot_layers = p4d_schedule_layers_alive(&rows.schedule, stage, layout->chunk_layers);
		rows.slots = 1;
	}
	framework->write_rows(&rows);
	measure_regions(&rows, a->of);
	/* Sets rows.overflow if all regions reach P4D_MOST_BYTES, with transient rows unpacked. Packed rows
	 * need no more bytes than that. */
	plus(&rows, a->of[P4D_LIVES_IN_RANGE].at, a->of[P4D_LIVES_IN_RANGE].flat);
	if (rows.overflow)
		return p4d_fail(err, P4D_E_OVERFLOW,
				"one GPU of stage %u would hold more than 4 EiB; check layers, hidden, ffn, "
				"vocab and seq-len",
				stage);
	p4d_plan__pack(plan, &a->packing);
	plan->arena_bytes = reach(a, ~0u);
	return 0;
}

int p4d_plan_bytes(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, const p4d_plan_memo *memo,
		   uint64_t *arena_bytes, uint64_t *idle_bytes, p4d_error *err)
{
	p4d_plan plan;
	arena a;

	if (tabulate(layout, gpu, stage, memo, &plan, &a, err) < 0)
		return -1;
	*arena_bytes = plan.arena_bytes;
	if (idle_bytes) {
		find_peak(&plan, &a);
		*idle_bytes = plan.idle_bytes;
	}
	return 0;
}

int p4d_plan__build(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, const p4d_plan_memo *memo,
		    p4d_plan *plan, p4d_error *err)
{
	arena a;

	if (tabulate(layout, gpu, stage, memo, plan, &a, err) < 0)
		return -1;
	plan->persistent_bytes = a.of[P4D_LIVES_ALWAYS].slot;
	plan->transient_bytes = reach(&a, ~P4D_FREE_OF_SLOTS) - a.of[P4D_LIVES_IN_RANGE].at;
	find_peak(plan, &a);
	place_rows(plan, &a);
	sum_parts(plan);
	fill_phases(plan, &a, p4d_framework_of(layout->framework));
	return 0;
}

int p4d_plan_build(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, p4d_plan *plan,
		   p4d_error *err)
{
	return p4d_plan__build(layout, gpu, stage, NULL, plan, err);
}

const p4d_tensor *p4d_plan_find(const p4d_plan *plan, p4d_buffer id)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].id == id)
			return &plan->tensor[i];
	return NULL;
}

static uint64_t mix(uint64_t hash, uint64_t number)
{
	return p4d_hash_step(p4d_hash_step(hash, number & UINT32_MAX), number >> 32);
}

static uint64_t hash_table(uint64_t h, const p4d_plan *plan)
{
	h = mix(h, plan->arena_bytes);
	for (unsigned i = 0; i < plan->count; i++) {
		const p4d_tensor *row = &plan->tensor[i];
		h = mix(h, row->offset);
		h = mix(h, row->bytes);
		h = mix(h, (uint64_t)row->layers << 32 | row->slots);
	}
	return h;
}

int p4d_plan_hash(const p4d_layout *layout, const p4d_gpu *gpu, uint64_t *hash, p4d_error *err)
{
	const p4d_schedule schedule = p4d_schedule_of(layout);
	const uint32_t stages = (uint32_t)layout->pp;
	uint64_t h = P4D_HASH_BEGIN;
	p4d_plan_memo_entry entry = {.known = false};
	const p4d_plan_memo memo = {1, &entry, 0};
	p4d_plan plan;

	for (uint32_t stage = 0; stage < stages; stage++) {
		const p4d_slots slots = p4d_schedule_slots(&schedule, stage);
		h = mix(h, layout->stage_layers[stage]);
		h = mix(h, (uint64_t)slots.activation << 32 | slots.vocabulary);
		/* all other differences are at the ends of the model, so one of these stages represents all
		 * of them */
		if (stage > 1 && stage < stages - 1)
			continue;
		if (p4d_plan__build(layout, gpu, stage, &memo, &plan, err) < 0)
			return -1;
		h = hash_table(h, &plan);
	}
	*hash = h;
	return 0;
}
