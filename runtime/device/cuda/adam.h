/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* AdamW's update of one element, for kernels. */
#include "device/cuda/launch.h"
#include "device/device.h"
#ifndef __CUDACC__
#include <math.h>
#endif

/*
 * Factors for all elements of a call. They apply to the master copy. In fp32 the parameter is its own master
 * copy.
 */
struct adam_factors {
	float beta1, beta2, scale, rate, root, epsilon, keep;

	explicit adam_factors(const p4d_adam *adam)
	    : beta1(adam->beta1), beta2(adam->beta2), scale(adam->gradient_scale),
	      rate(adam->learning_rate / adam->correction1), root(1 / sqrtf(adam->correction2)),
	      epsilon(adam->epsilon), keep(1 - adam->learning_rate * adam->weight_decay)
	{
	}

	/* Replaces the moments by the new ones. */
	__device__ void average(float *m, float *v, float gradient) const
	{
		const float d = gradient * scale;

		*m = beta1 * *m + (1 - beta1) * d;
		*v = beta2 * *v + (1 - beta2) * d * d;
	}

	/* Returns the new parameter. m, v: its new moments. */
	__device__ float moved(float x, float m, float v) const
	{
		return x * keep - rate * m / (sqrtf(v) * root + epsilon);
	}

	/* Updates the moments, then returns the new parameter. */
	__device__ float step(float x, float *m, float *v, float gradient) const
	{
		average(m, v, gradient);
		return moved(x, *m, *v);
	}
};
