/* SPDX-License-Identifier: Apache-2.0 */
#include "model/quantized.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "model/buffers.h"
#include "model/nf4.h"

/*
 * One tensor of a weight, and the row and column at which this rank's part begins. *row: where the tensor's
 * rows begin in the weight.
 */
static p4d_nf4_tensor tensor_of(const p4d_net *m, const p4d_weight *w, unsigned number, uint64_t *row)
{
	const p4d_matrix_layers of = p4d_weights_layers_of(w->kind);
	const char *at = (const char *)p4d_buffers_at(m, B_QUANTIZED) + w->offset;

	*row = 0;
	for (unsigned i = of.first; i < number; i++) {
		const p4d_nf4_shape before = p4d_nf4_shape_of(m->l, i);
		at += before.rows ? p4d_nf4_bytes(&before) : 0;
		*row += before.rows;
	}
	const p4d_nf4_shape s = p4d_nf4_shape_of(m->l, number);
	return (p4d_nf4_tensor){.shape = s,
				.first_row = s.rows < s.tensor_rows ? m->place.tp * s.rows : 0,
				.first_column = s.columns < s.tensor_columns ? m->place.tp * s.columns : 0,
				.at = at};
}

/* Whether the rank has this block of the whole tensor; *own: the block's index among the rank's blocks. */
static bool has_block(const p4d_nf4_tensor *t, uint64_t block, uint64_t *own)
{
	const p4d_nf4_shape *s = &t->shape;
	const uint64_t first = block * P4D_NF4_BLOCK, row = first / s->tensor_columns,
		       column = first % s->tensor_columns;

	*own = block;
	if (s->rows == s->tensor_rows && s->columns == s->tensor_columns)
		return true;
	/* a rank's part always consists of whole blocks */
	if (row < t->first_row || row >= t->first_row + s->rows || column < t->first_column ||
	    column >= t->first_column + s->columns)
		return false;
	*own = ((row - t->first_row) * s->columns + column - t->first_column) / P4D_NF4_BLOCK;
	return true;
}

/*
 * Stores the codes of elements from `first` on, which must begin a block. codes: scratch memory for the codes
 * of these elements.
 */
static void put_codes(p4d_net *m, const p4d_nf4_tensor *t, uint64_t first, const float *numbers,
		      uint64_t count, uint8_t *codes)
{
	char *to = (char *)t->at + p4d_nf4_codes_at(&t->shape);
	uint64_t begin = 0, bytes = 0;
	uint8_t other[P4D_NF4_BLOCK / 2] = {
	    0}; /* receives the codes of blocks that other ranks have, and is not used */

	for (uint64_t i = 0; i < count; i += P4D_NF4_BLOCK) {
		const uint64_t block = (first + i) / P4D_NF4_BLOCK,
			       some = count - i < P4D_NF4_BLOCK ? count - i : P4D_NF4_BLOCK;
		uint64_t own;
		const bool here = has_block(t, block, &own);
		m->block_scales[block] =
		    p4d_nf4_quantize_block(here ? codes + bytes : other, numbers + i, some);
		if (!here)
			continue;
		begin = bytes ? begin : own * (P4D_NF4_BLOCK / 2);
		bytes += (some + 1) / 2;
	}
	if (bytes)
		m->d->upload(m->d, to + begin, codes, bytes);
}

/* Stores the scales. Call it after the codes of all elements are stored. */
static void put_scales(p4d_net *m, const p4d_nf4_tensor *t, uint64_t blocks, uint8_t *codes, float *groups)
{
	const p4d_nf4_shape *s = &t->shape;
	char *to = (char *)t->at;
	uint64_t own, count = 0;

	p4d_nf4_quantize_scales(codes, groups, m->block_scales, blocks);
	for (uint64_t i = 0; i < blocks; i++)
		if (has_block(t, i, &own))
			codes[count++] = codes[i];
	m->d->upload(m->d, to, groups, (p4d_nf4_groups(s) + 1) * sizeof(*groups));
	m->d->upload(m->d, to + p4d_nf4_block_codes_at(s), codes, count);
}

static void round_numbers(const p4d_net *m, float *numbers, uint64_t count)
{
	for (uint64_t i = 0; m->type == P4D_DT_BF16 && i < count; i++)
		numbers[i] = p4d_from_bf16(p4d_to_bf16(numbers[i]));
}

int p4d_quantized_put(p4d_net *m, const p4d_weight *w, const p4d_quantized_part *part, uint64_t at,
		      float *numbers, uint64_t count, p4d_error *err)
{
	uint64_t row;
	const p4d_nf4_tensor t = tensor_of(m, w, part->tensor, &row);
	const uint64_t all = t.shape.tensor_rows * t.shape.tensor_columns, first = part->first + at;
	const uint64_t blocks = p4d_nf4_blocks(all), groups = p4d_nf4_groups(&t.shape) + 1;
	uint8_t *codes = malloc(first + count == all && blocks > count ? blocks : count + 1);
	float *room = malloc(groups * sizeof(*room));

	if (first == 0) {
		free(m->block_scales);
		m->block_scales = malloc(blocks * sizeof(*m->block_scales));
	}
	if (codes && room && m->block_scales) {
		round_numbers(m, numbers, count);
		put_codes(m, &t, first, numbers, count, codes);
		if (first + count == all)
			put_scales(m, &t, blocks, codes, room);
	}
	const bool done = codes && room && m->block_scales;
	free(codes);
	free(room);
	if (!done || first + count == all) {
		free(m->block_scales);
		m->block_scales = NULL;
	}
	return done ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory to quantize %" PRIu64 " numbers", all);
}

const void *p4d_quantized__matrix(p4d_net *m, p4d_weight_kind kind, uint32_t layer)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);
	const p4d_matrix_layers of = p4d_weights_layers_of(kind);
	char *to = p4d_buffers_at(m, B_DEQUANTIZED);
	uint64_t row;

	if (!w || !w->quantized)
		return p4d_buffers__weight(m, kind, layer);
	for (unsigned i = of.first; i < of.first + of.count; i++) {
		const p4d_nf4_tensor t = tensor_of(m, w, i, &row);
		if (t.shape.rows)
			m->d->dequantize(m->d, m->type, to + row * w->columns * m->element, &t);
	}
	return to;
}
