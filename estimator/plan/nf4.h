/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/wide.h"
#include "plan/shared_sizes.h"

/*
 * Frozen weights of linear layers in 4 bits, as bitsandbytes stores them: nf4 with double quantization (arXiv
 * 2305.14314). The elements of a tensor, row by row, form blocks with one scale each. A scale minus the mean
 * of all scales is stored as an 8-bit code, and a group of scales shares an fp32 scale. Blocks and groups are
 * formed of the whole tensor, not of a rank's part, so that all layouts compute with the same numbers. A rank
 * with a part of the rows or columns has the codes of its own blocks, and the scales of all groups.
 *
 * Memory layout: the scales of groups, followed by the mean; codes of the blocks' scales; codes of the
 * elements, two per byte, the first in the upper half. Each of these begins at a multiple of
 * P4D_NF4_ALIGNMENT bytes.
 */
enum { P4D_NF4_BLOCK = 64, P4D_NF4_GROUP = 256, P4D_NF4_ALIGNMENT = 16 };

/* A rank's part of a tensor. */
typedef struct p4d_nf4_shape {
	uint64_t rows, columns;
	uint64_t tensor_rows, tensor_columns; /* shape of the whole tensor */
} p4d_nf4_shape;

static inline uint64_t p4d_nf4_blocks(uint64_t elements)
{
	return (elements + P4D_NF4_BLOCK - 1) / P4D_NF4_BLOCK;
}

/* Number of blocks, or groups, of the whole tensor. */
static inline uint64_t p4d_nf4_groups(const p4d_nf4_shape *s)
{
	return (p4d_nf4_blocks(s->tensor_rows * s->tensor_columns) + P4D_NF4_GROUP - 1) / P4D_NF4_GROUP;
}

/* Offsets of the blocks' codes and of the elements' codes, and the total size. */
static inline uint64_t p4d_nf4_block_codes_at(const p4d_nf4_shape *s)
{
	return p4d_round_up(4 * (p4d_nf4_groups(s) + 1), P4D_NF4_ALIGNMENT);
}

static inline uint64_t p4d_nf4_codes_at(const p4d_nf4_shape *s)
{
	return p4d_nf4_block_codes_at(s) +
	       p4d_round_up(p4d_nf4_blocks(s->rows * s->columns), P4D_NF4_ALIGNMENT);
}

static inline uint64_t p4d_nf4_bytes(const p4d_nf4_shape *s)
{
	return p4d_nf4_codes_at(s) + p4d_round_up((s->rows * s->columns + 1) / 2, P4D_NF4_ALIGNMENT);
}

/* Whether p4d-train stores the layers' frozen matrices in nf4. */
static inline bool p4d_stores_nf4(const p4d_layout *l)
{
	return l->finetune == P4D_TUNE_QLORA && l->quant == P4D_QUANT_NF4;
}

/* The linear layer with this number of p4d_adapted_of; rows 0: the model has none. */
static inline p4d_nf4_shape p4d_nf4_shape_of(const p4d_layout *l, unsigned number)
{
	const p4d_adapted of = p4d_adapted_of(l, number);
	const p4d_nf4_shape s = {of.out, of.in, of.split_in ? of.out : of.out * l->tp,
				 of.split_in ? of.in * l->tp : of.in};

	return s;
}

/* All matrices of a layer on one rank. */
static inline uint64_t p4d_nf4_layer_bytes(const p4d_layout *l)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_nf4_shape s = p4d_nf4_shape_of(l, i);
		bytes += s.rows ? p4d_nf4_bytes(&s) : 0;
	}
	return bytes;
}
