/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU. Each block processes one row, which has first all gates, then all ups. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/swiglu.h"

template <typename E, int W> __global__ void swiglu_rows(E *act, const E *gate_up, unsigned f)
{
	const E *gate = gate_up + (size_t)blockIdx.x * 2 * f, *up = gate + f;
	E *to = act + (size_t)blockIdx.x * f;

	for (unsigned j = threadIdx.x * W; j < f; j += blockDim.x * W) {
		const p4d_run<E, W> g = p4d_load<W>(gate + j), u = p4d_load<W>(up + j);
		p4d_run<E, W> y;
		for (int k = 0; k < W; k++)
			p4d_round(&y.x[k], p4d_swiglu(p4d_value(g.x[k]), p4d_value(u.x[k])));
		p4d_store(to + j, y);
	}
}

template <typename E, int W>
__global__ void swiglu_rows_backward(E *gate_up, E *act, const E *dact, unsigned f)
{
	E *gate = gate_up + (size_t)blockIdx.x * 2 * f, *up = gate + f;
	const E *gradient = dact + (size_t)blockIdx.x * f;

	for (unsigned j = threadIdx.x * W; j < f; j += blockDim.x * W) {
		const p4d_run<E, W> dy = p4d_load<W>(gradient + j);
		p4d_run<E, W> g = p4d_load<W>(gate + j), u = p4d_load<W>(up + j), y;
		for (int k = 0; k < W; k++) {
			const float x = p4d_value(g.x[k]), v = p4d_value(u.x[k]), d = p4d_value(dy.x[k]),
				    s = p4d_sigmoid(x);
			p4d_round(&y.x[k], x * s * v);
			p4d_round(&g.x[k], p4d_swiglu_gate(x, v, d, s));
			p4d_round(&u.x[k], p4d_swiglu_up(x, d, s));
		}
		p4d_store(gate + j, g);
		p4d_store(up + j, u);
		if (act)
			p4d_store(act + (size_t)blockIdx.x * f + j, y);
	}
}

void p4d_kernel_swiglu(cudaStream_t stream, p4d_dtype type, void *act, const void *gate_up, uint64_t n,
		       uint64_t f)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(f, act, gate_up), E, W, {
			p4d_launch<swiglu_rows<E, W>>(stream, {n, 1, p4d_threads_for(f / W), 0}, (E *)act,
						      (const E *)gate_up, (unsigned)f);
		});
	});
}

void p4d_kernel_swiglu_backward(cudaStream_t stream, p4d_dtype type, void *gate_up, void *act,
				const void *dact, uint64_t n, uint64_t f)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(f, gate_up, act, dact), E, W, {
			p4d_launch<swiglu_rows_backward<E, W>>(stream, {n, 1, p4d_threads_for(f / W), 0},
							       (E *)gate_up, (E *)act, (const E *)dact,
							       (unsigned)f);
		});
	});
}
