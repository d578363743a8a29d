/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SwiGLU of one element. The kernels that store the result and those that quantize it share this, so that
 * both compute the same bits.
 */
#include "device/cuda/elements.h"

__device__ static inline float p4d_swiglu(float gate, float up)
{
	return gate / (1 + expf(-gate)) * up;
}

/* Gradients. With s = sigmoid(gate): silu = gate * s, silu' = s * (1 + gate * (1 - s)). */
__device__ static inline float p4d_swiglu_gate(float gate, float up, float dact, float s)
{
	return dact * up * s * (1 + gate * (1 - s));
}

__device__ static inline float p4d_swiglu_up(float gate, float dact, float s)
{
	return dact * gate * s;
}

__device__ static inline float p4d_sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}
