/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "request/fp8.h"

#ifdef __CUDACC__
#define P4D_ANYWHERE static inline __host__ __device__
#else
#define P4D_ANYWHERE static inline __attribute__((always_inline))
#endif

/*
 * An FP8 operand of a matmul, in a recipe of p4d-train. It has an 8-bit code for each element of (rows,
 * depth), row by row, and a scale per block, which is a power of two. Scales have cuBLASLt's layout
 * (documentation of 13.x, 3.1.4.4.2 and 3.1.4.5.1); rows are M or N, depth is K, and L is the number of
 * blocks along K:
 * - Exponents (VEC32_UE8M0) are in tiles of 128 rows and 4 blocks, 512 bytes each. In a tile, (row, block) is
 * at
 *   row % 32 * 16 + row / 32 * 4 + block. Tiles follow each other along the depth, then down the rows.
 *   Positions beyond the last row or block are 0.
 * - fp32 scales of 128 numbers (VEC128_32F) are M-major: all rows of a block together, rows padded to a
 * multiple of 4.
 * - fp32 scales of squares (BLK128x128_32F) are K-major: one row of squares after the other, at a distance of
 * L
 *   rounded up to 4.
 *
 * Codes and scales begin at multiples of 16 bytes. This header is also compiled for GPUs.
 */
typedef struct p4d_fp8_operand_shape {
	uint64_t rows, depth;
	uint32_t block_rows, block; /* elements that share a scale: rows, and elements along the depth */
	uint32_t scale_bytes;       /* bytes of a scale. 4: fp32; 1: an exponent of two, plus 127 */
	p4d_fp8_format format;
} p4d_fp8_operand_shape;

static inline p4d_fp8_operand_shape p4d_fp8_shape_of(int recipe, p4d_fp8_role role, uint64_t rows,
						     uint64_t depth)
{
	const p4d_fp8_recipe *r = &p4d_fp8_recipes[recipe];
	/* with by_tensor, 0 rows mean that all rows share a scale */
	const uint32_t high = role == P4D_FP8_WEIGHT ? r->weight_rows : 1;
	const p4d_fp8_operand_shape s = {rows,     depth,          r->by_tensor ? 0 : high,
					 r->block, r->scale_bytes, r->format[role]};

	return s;
}

/* Number of blocks along the depth. */
P4D_ANYWHERE uint64_t p4d_fp8_blocks(const p4d_fp8_operand_shape *s)
{
	return s->block ? (s->depth + s->block - 1) / s->block : 1;
}

P4D_ANYWHERE uint64_t p4d_fp8_round_up(uint64_t n, uint64_t multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

/* Number of scales, padding included. */
P4D_ANYWHERE uint64_t p4d_fp8_scales_bytes(const p4d_fp8_operand_shape *s)
{
	const uint64_t blocks = p4d_fp8_blocks(s);

	if (!s->block)
		return s->scale_bytes;
	if (s->scale_bytes == 1)
		return p4d_fp8_round_up(s->rows, 128) * p4d_fp8_round_up(blocks, 4);
	if (s->block_rows > 1)
		return (s->rows + s->block_rows - 1) / s->block_rows * p4d_fp8_round_up(blocks, 4) * 4;
	return p4d_fp8_round_up(s->rows, 4) * blocks * 4;
}

/*
 * An operand that is kept in one piece of memory: its codes, then its scales. Each begins at a multiple of
 * P4D_FP8_ALIGNMENT bytes, and so does the next operand.
 */
enum { P4D_FP8_ALIGNMENT = 256 };

P4D_ANYWHERE uint64_t p4d_fp8_scales_place(const p4d_fp8_operand_shape *s)
{
	return p4d_fp8_round_up(s->rows * s->depth, P4D_FP8_ALIGNMENT);
}

P4D_ANYWHERE uint64_t p4d_fp8_operand_bytes(const p4d_fp8_operand_shape *s)
{
	return p4d_fp8_scales_place(s) + p4d_fp8_round_up(p4d_fp8_scales_bytes(s), P4D_FP8_ALIGNMENT);
}

/* Bytes of a weight (rows, columns) that is kept in both directions: as it is, then transposed. */
static inline uint64_t p4d_fp8_weight_bytes(int recipe, uint64_t rows, uint64_t columns)
{
	const p4d_fp8_operand_shape s = p4d_fp8_shape_of(recipe, P4D_FP8_WEIGHT, rows, columns),
				    turned = p4d_fp8_shape_of(recipe, P4D_FP8_WEIGHT, columns, rows);

	return p4d_fp8_operand_bytes(&s) + p4d_fp8_operand_bytes(&turned);
}

/*
 * Index of a block's scale: exponents in tiles of 128 rows and 4 blocks; squares row by row; otherwise block
 * by block, with the scales of all rows together.
 */
P4D_ANYWHERE uint64_t p4d_fp8_scale_at(const p4d_fp8_operand_shape *s, uint64_t row, uint64_t block)
{
	const uint64_t across = p4d_fp8_round_up(p4d_fp8_blocks(s), 4);

	if (!s->block)
		return 0;
	if (s->scale_bytes == 1)
		return (row / 128 * across + block / 4 * 4) * 128 + row % 32 * 16 + row % 128 / 32 * 4 +
		       block % 4;
	if (s->block_rows > 1)
		return row / s->block_rows * across + block;
	return block * p4d_fp8_round_up(s->rows, 4) + row;
}
