/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout without a stored mask: one block per row. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/dropout.h"

template <typename E, int W> __global__ void dropped_rows(E *y, const E *x, p4d_dropout d, unsigned h)
{
	const uint64_t index = p4d_dropout_row(&d, blockIdx.x);
	const size_t row = (size_t)blockIdx.x * h;

	for (unsigned j = threadIdx.x * W; j < h; j += blockDim.x * W) {
		p4d_run<E, W> run = p4d_load<W>(x + row + j);
		for (int k = 0; k < W; k++) {
			const bool drops = p4d_rounding_bits(d.key, index + j + k) < d.below;
			p4d_round(&run.x[k], drops ? 0.0f : d.factor * p4d_value(run.x[k]));
		}
		p4d_store(y + row + j, run);
	}
}

void p4d_kernel_drop(cudaStream_t stream, p4d_dtype type, void *y, const void *x, const p4d_dropout *dropout,
		     uint64_t n, uint64_t h)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h, y, x), E, W, {
			p4d_launch<dropped_rows<E, W>>(stream, {n, 1, p4d_threads_for(h / W), 0}, (E *)y,
						       (const E *)x, *dropout, (unsigned)h);
		});
	});
}
