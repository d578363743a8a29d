/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/plan.h"
#include "plan/plan_memo.h"

/* Helpers with which frameworks write the rows of their plans; for plan/ and framework/ only. */

/* A table of rows under construction. */
typedef struct p4d_rows {
	const p4d_layout *layout;
	const p4d_gpu *gpu;
	const p4d_plan_memo *memo; /* results for other stages and layouts; NULL: none */
	p4d_schedule schedule;
	uint32_t stage;
	bool first, last; /* whether the stage has the start or the end of the model */
	/*
	 * Copies of an activation row: `slots` slots with slot_layers layers each. If the chunks have
	 * different numbers of layers, there is one slot, which has the largest number of layers that are
	 * alive at a time.
	 */
	uint64_t slot_layers;
	uint32_t slots;
	unsigned alignment; /* alignment in bytes of every buffer; a power of two */
	p4d_plan *plan;
	bool overflow;
} p4d_rows;

/* A limit small enough that a few totals can be added without overflow; it differs from P4D_NOT_MODELLED. */
#define P4D_MOST_BYTES ((uint64_t)1 << 62)

/* Multiply sizes that users give. Overflow sets rows->overflow instead of wrapping. */
static inline uint64_t p4d_times(p4d_rows *rows, uint64_t a, uint64_t b)
{
	uint64_t product;

	if (!__builtin_mul_overflow(a, b, &product) && product < P4D_MOST_BYTES)
		return product;
	rows->overflow = true;
	return 0;
}

/*
 * The functions below write rows. They are inline because a search writes millions: constant arguments fold
 * most of them away.
 */

/* Bytes of `elements` of a type, rounded up to the alignment. */
static inline uint64_t p4d_row_bytes(p4d_rows *rows, p4d_dtype dtype, uint64_t elements)
{
	static const unsigned size[] = {[P4D_DT_BF16] = 2, [P4D_DT_FP16] = 2,  [P4D_DT_FP32] = 4,
					[P4D_DT_FP64] = 8, [P4D_DT_INT32] = 4, [P4D_DT_BYTES] = 1};
	uint64_t bytes = p4d_times(rows, elements, size[dtype]);

	return (bytes + rows->alignment - 1) & ~(uint64_t)(rows->alignment - 1);
}

/*
 * Adds a row of shape (x, y, z); an absent trailing dimension is 0. The row is always live and has one copy;
 * the caller changes what differs.
 */
static inline p4d_tensor *p4d_row(p4d_rows *rows, const char *name, const char *shard, p4d_memory_class part,
				  p4d_dtype dtype, uint64_t x, uint64_t y, uint64_t z)
{
	/* no layout of the tests has more rows than the table; a layout with more rows gets no plan */
	const bool full = rows->plan->count == P4D_TENSORS;
	p4d_tensor *row = &rows->plan->tensor[full ? P4D_TENSORS - 1 : rows->plan->count++];
	unsigned dims = z ? 3 : y ? 2 : 1;
	uint64_t elements = dims == 1 ? x : p4d_times(rows, x, dims == 2 ? y : p4d_times(rows, y, z));

	rows->overflow = rows->overflow || full;
	*row = (p4d_tensor){.name = name,
			    .shard = shard,
			    .part = part,
			    .dtype = dtype,
			    .lifetime = P4D_LIVES_ALWAYS,
			    .dims = dims,
			    .shape = {x, y, z},
			    .bytes = p4d_row_bytes(rows, dtype, elements),
			    .layers = 1,
			    .slots = 1};
	return row;
}

/* Like p4d_row, with one copy per activation slot and layer of the chunk. */
static inline p4d_tensor *p4d_row_in_slot(p4d_rows *rows, const char *name, const char *shard,
					  p4d_dtype dtype, uint64_t x, uint64_t y)
{
	p4d_tensor *row = p4d_row(rows, name, shard, P4D_PART_ACTIVATIONS, dtype, x, y, 0);

	row->lifetime = P4D_LIVES_IN_SLOT;
	row->layers = (uint32_t)rows->slot_layers;
	row->slots = rows->slots;
	return row;
}

/* Like p4d_row, live only at the points of the mask live_range. */
static inline p4d_tensor *p4d_row_at(p4d_rows *rows, unsigned live_range, const char *name, const char *shard,
				     p4d_memory_class part, p4d_dtype dtype, uint64_t x, uint64_t y,
				     uint64_t z)
{
	p4d_tensor *row = p4d_row(rows, name, shard, part, dtype, x, y, z);

	row->lifetime = P4D_LIVES_IN_RANGE;
	row->live_range = live_range;
	return row;
}

/* Adds rows for states from .. to-1 of the optimizer, each with `elements` elements of a type. An fp32
 * parameter is its own master copy. Returns the first new row, or the end of the table if there is none. */
p4d_tensor *p4d_rows_of_states(p4d_rows *rows, unsigned from, unsigned to, p4d_dtype dtype,
			       uint64_t elements);

/* For each live point: the end of the transient rows that are live at it, and the sum of their bytes. */
typedef struct p4d_packing {
	uint64_t top[P4D_LIVE_POINTS], alive[P4D_LIVE_POINTS];
} p4d_packing;

/* p4d_plan_build with a memo, which may be NULL. */
int p4d_plan__build(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, const p4d_plan_memo *memo,
		    p4d_plan *plan, p4d_error *err);

/*
 * plan_pack.c: offsets (from 0) for the transient rows, so that rows whose live ranges intersect do not
 * overlap.
 */
void p4d_plan__pack(p4d_plan *plan, p4d_packing *packing);
