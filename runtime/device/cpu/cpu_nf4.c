/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in 4 bits (plan/nf4.h), block by block. */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"
#include "device/nf4_codes.h"

/* Scale of a block that this rank has. */
static float scale_of(const p4d_nf4_tensor *from, uint64_t block)
{
	const p4d_nf4_shape *s = &from->shape;
	const uint64_t first = block * P4D_NF4_BLOCK, row = from->first_row + first / s->columns,
		       column = from->first_column + first % s->columns;
	const uint64_t group = (row * s->tensor_columns + column) / P4D_NF4_BLOCK / P4D_NF4_GROUP;
	const float *groups = from->at;
	const uint8_t *codes = (const uint8_t *)from->at + p4d_nf4_block_codes_at(s);

	return p4d_nf4_scale(codes[block], groups[group], groups[p4d_nf4_groups(s)]);
}

static void expand(ELEMENT *to, const uint8_t *codes, float scale, uint64_t count)
{
	ELEMENT numbers[16];

	for (int i = 0; i < 16; i++)
		numbers[i] = p4d_store(p4d_nf4_numbers[i] * scale);
	for (uint64_t i = 0; i + 1 < count; i += 2) {
		to[i] = numbers[codes[i / 2] >> 4];
		to[i + 1] = numbers[codes[i / 2] & 15];
	}
	if (count % 2)
		to[count - 1] = numbers[codes[count / 2] >> 4];
}

void OP(dequantize)(ELEMENT *to, const p4d_nf4_tensor *from)
{
	const uint64_t count = from->shape.rows * from->shape.columns, blocks = p4d_nf4_blocks(count);
	const uint8_t *codes = (const uint8_t *)from->at + p4d_nf4_codes_at(&from->shape);

#pragma omp parallel for num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < blocks; i++) {
		const uint64_t first = i * P4D_NF4_BLOCK, left = count - first;
		expand(to + first, codes + first / 2, scale_of(from, i),
		       left < P4D_NF4_BLOCK ? left : P4D_NF4_BLOCK);
	}
}
