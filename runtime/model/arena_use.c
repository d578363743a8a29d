/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how much of the arena was ever written. The arena starts filled with NaN, so a read before the
 * first write shows up in the results.
 */
#include <string.h>

#include "model/net.h"

/* A bit pattern that is NaN in fp32, NaN as two bf16 numbers, and no valid token. */
static const uint32_t unwritten = 0xfff1fff1;

void p4d_arena_use__mark(p4d_net *m)
{
	if (m->d->fill)
		m->d->fill(m->d, m->arena, unwritten, m->plan.arena_bytes / sizeof(unwritten));
}

/* Adds to *sum the bytes from `at` on that no longer have the initial pattern, counted in whole words. */
static int written(const p4d_net *m, uint64_t at, uint64_t bytes, uint64_t *sum, p4d_error *err)
{
	uint64_t untouched;

	if (m->d->count(m->d, &untouched, m->arena + at, unwritten, bytes / sizeof(unwritten)) < 0)
		return p4d_fail(err, P4D_E_RANK, "the device failed");
	*sum += bytes - untouched * sizeof(unwritten);
	return 0;
}

static int written_in_row(const p4d_net *m, const p4d_tensor *row, uint64_t *sum, p4d_error *err)
{
	for (uint32_t slot = 0; slot < row->slots; slot++)
		for (uint32_t layer = 0; layer < row->layers; layer++)
			if (written(m, row->offset + slot * row->slot_stride + layer * row->layer_stride,
				    row->bytes, sum, err) < 0)
				return -1;
	return 0;
}

int p4d_arena_use(const p4d_net *m, uint64_t used[P4D_PART_COUNT], p4d_error *err)
{
	const p4d_plan *plan = &m->plan;
	uint64_t part[P4D_PART_COUNT] = {0}, transient = 0, all = 0;

	for (int i = 0; i < P4D_PART_COUNT; i++)
		used[i] = P4D_NOT_MODELLED;
	if (!m->d->fill || !m->d->count)
		return 0;
	for (unsigned i = 0; i < plan->count; i++) {
		const p4d_tensor *row = &plan->tensor[i];
		uint64_t bytes = 0;
		const bool moment = row->lifetime == P4D_LIVES_IN_RANGE;
		if (row->lifetime == P4D_LIVES_ON_HOST || (moment && !(row->live_range & 1u << plan->peak)))
			continue;
		if (written_in_row(m, row, &bytes, err) < 0)
			return -1;
		part[row->part] += bytes;
		transient += moment ? bytes : 0;
	}
	/* Written transient memory that belongs to no row counts as working memory, as in the plan. */
	if (written(m, plan->arena_bytes - plan->transient_bytes, plan->transient_bytes, &all, err) < 0)
		return -1;
	part[P4D_PART_WORKING_SET] += all - transient;
	memcpy(used, part, sizeof(part));
	return 0;
}
