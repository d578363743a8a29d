/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations of feed-forward layers: SwiGLU, GeGLU and GELU. A row of SwiGLU and GeGLU has first all gates,
 * then all ups; each block processes one row.
 */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/swiglu.h"

/*
 * An activation is x * share(x); here x is the gate and u the up. product: the activation of x, times u. gate
 * and up: the gradients of x and u. Their argument d is the gradient of the product.
 */
struct silu {
	__device__ static float share(float x)
	{
		return p4d_sigmoid(x);
	}

	__device__ static float product(float x, float u)
	{
		return p4d_swiglu(x, u);
	}

	__device__ static float gate(float x, float u, float d, float share)
	{
		return p4d_swiglu_gate(x, u, d, share);
	}

	__device__ static float up(float x, float d, float share)
	{
		return p4d_swiglu_up(x, d, share);
	}
};

/* GELU by the tanh formula of cpu_gelu.c. Its share is the logistic function of 2 u. */
struct gelu {
	static constexpr float TWICE_ROOT = 1.5957691216057307f, CUBIC = 0.044715f; /* 2 * sqrt(2 / pi) */

	__device__ static float share(float x)
	{
		return 1 / (1 + expf(-TWICE_ROOT * (x + CUBIC * x * x * x)));
	}

	__device__ static float slope(float x, float share)
	{
		return share + x * share * (1 - share) * TWICE_ROOT * (1 + 3 * CUBIC * x * x);
	}

	__device__ static float product(float x, float u)
	{
		return x * share(x) * u;
	}

	__device__ static float gate(float x, float u, float d, float share)
	{
		return d * u * slope(x, share);
	}

	__device__ static float up(float x, float d, float share)
	{
		return d * x * share;
	}
};

template <typename A, typename E, int W> __global__ void gated_rows(E *act, const E *gate_up, unsigned f)
{
	const E *gate = gate_up + (size_t)blockIdx.x * 2 * f, *up = gate + f;
	E *to = act + (size_t)blockIdx.x * f;

	for (unsigned j = threadIdx.x * W; j < f; j += blockDim.x * W) {
		const p4d_run<E, W> g = p4d_load<W>(gate + j), u = p4d_load<W>(up + j);
		p4d_run<E, W> y;
		for (int k = 0; k < W; k++)
			p4d_round(&y.x[k], A::product(p4d_value(g.x[k]), p4d_value(u.x[k])));
		p4d_store(to + j, y);
	}
}

template <typename A, typename E, int W>
__global__ void gated_rows_backward(E *gate_up, E *act, const E *dact, unsigned f)
{
	E *gate = gate_up + (size_t)blockIdx.x * 2 * f, *up = gate + f;
	const E *gradient = dact + (size_t)blockIdx.x * f;

	for (unsigned j = threadIdx.x * W; j < f; j += blockDim.x * W) {
		const p4d_run<E, W> dy = p4d_load<W>(gradient + j);
		p4d_run<E, W> g = p4d_load<W>(gate + j), u = p4d_load<W>(up + j), y;
		for (int k = 0; k < W; k++) {
			const float x = p4d_value(g.x[k]), v = p4d_value(u.x[k]), d = p4d_value(dy.x[k]),
				    s = A::share(x);
			p4d_round(&y.x[k], x * s * v);
			p4d_round(&g.x[k], A::gate(x, v, d, s));
			p4d_round(&u.x[k], A::up(x, d, s));
		}
		p4d_store(gate + j, g);
		p4d_store(up + j, u);
		if (act)
			p4d_store(act + (size_t)blockIdx.x * f + j, y);
	}
}

template <typename A>
static void gated(cudaStream_t stream, p4d_dtype type, void *act, const void *gate_up, uint64_t n, uint64_t f)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(f, act, gate_up), E, W, {
			p4d_launch<gated_rows<A, E, W>>(stream, {n, 1, p4d_threads_for(f / W), 0}, (E *)act,
							(const E *)gate_up, (unsigned)f);
		});
	});
}

template <typename A>
static void gated_backward(cudaStream_t stream, p4d_dtype type, void *gate_up, void *act, const void *dact,
			   uint64_t n, uint64_t f)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(f, gate_up, act, dact), E, W, {
			p4d_launch<gated_rows_backward<A, E, W>>(stream, {n, 1, p4d_threads_for(f / W), 0},
								 (E *)gate_up, (E *)act, (const E *)dact,
								 (unsigned)f);
		});
	});
}

template <typename E> struct gelu_of {
	E *act;
	const E *up;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> x = p4d_load<W>(up + i);
		p4d_run<E, W> y;

		for (int k = 0; k < W; k++)
			p4d_round(&y.x[k], p4d_value(x.x[k]) * gelu::share(p4d_value(x.x[k])));
		p4d_store(act + i, y);
	}
};

template <typename E> struct gelu_gradient {
	E *up, *act;
	const E *dact;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> d = p4d_load<W>(dact + i);
		p4d_run<E, W> x = p4d_load<W>(up + i), y;

		for (int k = 0; k < W; k++) {
			const float u = p4d_value(x.x[k]), s = gelu::share(u);
			p4d_round(&y.x[k], u * s);
			p4d_round(&x.x[k], p4d_value(d.x[k]) * gelu::slope(u, s));
		}
		p4d_store(up + i, x);
		if (act)
			p4d_store(act + i, y);
	}
};

void p4d_kernel_swiglu(cudaStream_t stream, p4d_dtype type, void *act, const void *gate_up, uint64_t n,
		       uint64_t f)
{
	gated<silu>(stream, type, act, gate_up, n, f);
}

void p4d_kernel_swiglu_backward(cudaStream_t stream, p4d_dtype type, void *gate_up, void *act,
				const void *dact, uint64_t n, uint64_t f)
{
	gated_backward<silu>(stream, type, gate_up, act, dact, n, f);
}

void p4d_kernel_geglu(cudaStream_t stream, p4d_dtype type, void *act, const void *gate_up, uint64_t n,
		      uint64_t f)
{
	gated<gelu>(stream, type, act, gate_up, n, f);
}

void p4d_kernel_geglu_backward(cudaStream_t stream, p4d_dtype type, void *gate_up, void *act,
			       const void *dact, uint64_t n, uint64_t f)
{
	gated_backward<gelu>(stream, type, gate_up, act, dact, n, f);
}

void p4d_kernel_gelu(cudaStream_t stream, p4d_dtype type, void *act, const void *up, uint64_t n, uint64_t f)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, act, up), E, W, {
			p4d_for_each<W>(stream, gelu_of<E>{(E *)act, (const E *)up}, n * f);
		});
	});
}

void p4d_kernel_gelu_backward(cudaStream_t stream, p4d_dtype type, void *up, void *act, const void *dact,
			      uint64_t n, uint64_t f)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, up, act, dact), E, W, {
			p4d_for_each<W>(stream, gelu_gradient<E>{(E *)up, (E *)act, (const E *)dact}, n * f);
		});
	});
}
