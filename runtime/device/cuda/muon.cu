/* SPDX-License-Identifier: Apache-2.0 */
/* Muon (plan/muon.h): everything except its matmuls. */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"

namespace
{
struct averaged {
	float *momentum, *gradient;
	float keep, scale;

	template <int W> __device__ void at(uint64_t i) const
	{
		p4d_run<float, W> m = p4d_load<W>(momentum + i), g = p4d_load<W>(gradient + i);
		for (int k = 0; k < W; k++) {
			const float x = g.x[k] * scale;
			m.x[k] += (1 - keep) * (x - m.x[k]);
			g.x[k] = x + keep * (m.x[k] - x);
		}
		p4d_store(momentum + i, m);
		p4d_store(gradient + i, g);
	}
};

template <typename E> struct begun {
	E *x;
	const float *gradient;
	const double *squares;

	template <int W> __device__ void at(uint64_t i) const
	{
		const double norm = sqrt(*squares);
		const float factor = (float)(1 / (norm > P4D_MUON_LEAST ? norm : P4D_MUON_LEAST));
		const p4d_run<float, W> g = p4d_load<W>(gradient + i);
		p4d_run<E, W> y;
		for (int k = 0; k < W; k++)
			p4d_round(&y.x[k], g.x[k] * factor);
		p4d_store(x + i, y);
	}
};

template <typename E> struct polynomial {
	E *square;
	const E *gram;
	uint64_t side;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> g = p4d_load<W>(gram + i);
		p4d_run<E, W> s = p4d_load<W>(square + i);
		for (int k = 0; k < W; k++) {
			const float diagonal = (i + k) % (side + 1) ? 0.0f : P4D_MUON_A;
			p4d_round(&s.x[k],
				  diagonal + P4D_MUON_B * p4d_value(g.x[k]) + P4D_MUON_C * p4d_value(s.x[k]));
		}
		p4d_store(square + i, s);
	}
};

template <typename E> struct stepped {
	E *parameter;
	float *exact;
	const E *direction;
	float keep, rate;

	template <int W> __device__ void at(uint64_t i) const
	{
		const p4d_run<E, W> d = p4d_load<W>(direction + i);
		p4d_run<float, W> x = p4d_load<W>(exact + i);
		p4d_run<E, W> rounded;
		for (int k = 0; k < W; k++) {
			x.x[k] = x.x[k] * keep - rate * p4d_value(d.x[k]);
			p4d_round(&rounded.x[k], x.x[k]);
		}
		p4d_store(exact + i, x);
		if (sizeof(E) < sizeof(float))
			p4d_store(parameter + i, rounded);
	}
};
} // namespace

void p4d_kernel_muon_average(cudaStream_t stream, float *momentum, float *gradient, uint64_t count,
			     const p4d_muon *step)
{
	const averaged f = {momentum, gradient, step->momentum, step->gradient_scale};

	P4D_WITH_WIDTH(p4d_is_wide<float>(0, momentum, gradient), float, W,
		       p4d_for_each<W>(stream, f, count));
}

void p4d_kernel_muon_begin(cudaStream_t stream, p4d_dtype type, void *x, const float *gradient,
			   const double *squares, uint64_t count)
{
	P4D_WITH_TYPE(type, E, {
		const begun<E> f = {(E *)x, gradient, squares};
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, x, gradient), E, W, p4d_for_each<W>(stream, f, count));
	});
}

void p4d_kernel_muon_polynomial(cudaStream_t stream, p4d_dtype type, void *square, const void *gram,
				uint64_t side)
{
	P4D_WITH_TYPE(type, E, {
		const polynomial<E> f = {(E *)square, (const E *)gram, side};
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, square, gram), E, W,
			       p4d_for_each<W>(stream, f, side * side));
	});
}

void p4d_kernel_muon_step(cudaStream_t stream, p4d_dtype type, void *parameter, float *master, const void *x,
			  uint64_t count, const p4d_muon *step)
{
	P4D_WITH_TYPE(type, E, {
		float *exact = sizeof(E) < sizeof(float) ? master : (float *)parameter;
		const stepped<E> f = {(E *)parameter, exact, (const E *)x,
				      1 - step->learning_rate * step->weight_decay, step->rate};
		P4D_WITH_WIDTH(p4d_is_wide<E>(0, parameter, exact, x), E, W,
			       p4d_for_each<W>(stream, f, count));
	});
}
