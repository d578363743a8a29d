/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 4-bit weights (plan/nf4.h). A thread converts 8 codes of one block; the last codes are converted one by
 * one.
 */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/nf4_codes.h"

namespace
{
/* What a kernel needs to know about a tensor. */
template <typename E> struct expand {
	E *to;
	const float *groups;
	const uint8_t *blocks, *codes;
	uint64_t columns, tensor_columns, first, mean; /* first: the rank's first element in the tensor;
							* mean: its index in groups */

	__device__ float scale(uint64_t i) const
	{
		const uint64_t at =
		    first + (columns == tensor_columns ? i : i / columns * tensor_columns + i % columns);

		return p4d_nf4_scale(blocks[i / P4D_NF4_BLOCK], groups[at / (P4D_NF4_BLOCK * P4D_NF4_GROUP)],
				     groups[mean]);
	}

	template <int W> __device__ void at(uint64_t i) const
	{
		const float factor = scale(i);
		const p4d_run<uint8_t, (W + 1) / 2> pairs = p4d_load<(W + 1) / 2>(codes + i / 2);
		p4d_run<E, W> y;

		for (int k = 0; k < W; k++) {
			const unsigned code = pairs.x[k / 2] >> ((i + k) % 2 ? 0 : 4) & 15;
			p4d_round(&y.x[k], p4d_nf4_numbers[code] * factor);
		}
		p4d_store(to + i, y);
	}
};
} // namespace

void p4d_kernel_dequantize(cudaStream_t stream, p4d_dtype type, void *to, const p4d_nf4_tensor *from)
{
	const p4d_nf4_shape *s = &from->shape;
	const uint8_t *at = static_cast<const uint8_t *>(from->at);
	const uint64_t count = s->rows * s->columns;

	P4D_WITH_TYPE(type, E, {
		const expand<E> f = {static_cast<E *>(to),
				     reinterpret_cast<const float *>(at),
				     at + p4d_nf4_block_codes_at(s),
				     at + p4d_nf4_codes_at(s),
				     s->columns,
				     s->tensor_columns,
				     from->first_row * s->tensor_columns + from->first_column,
				     p4d_nf4_groups(s)};
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, to), E, W, p4d_for_each<W>(stream, f, count););
	});
}
