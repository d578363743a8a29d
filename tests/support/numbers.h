/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Numbers for tests of arithmetic, and a comparison of gradients with finite differences. Include after
 * support.h.
 */
#include <math.h>

/* Multiples of 1/128 in [-1, 1), which bf16, fp32 and fp64 represent exactly. */
static inline double number(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)((int)(*state >> 56) - 128) / 128;
}

static inline double *numbers(uint64_t count, uint64_t seed)
{
	double *x = calloc(count ? count : 1, sizeof(*x));
	uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;

	assert_non_null(x);
	for (uint64_t i = 0; i < count; i++)
		x[i] = number(&state);
	return x;
}

static inline double dot(const double *a, const double *b, uint64_t count)
{
	double sum = 0;

	for (uint64_t i = 0; i < count; i++)
		sum += a[i] * b[i];
	return sum;
}

/* A scalar function of the values in the context. */
typedef double scalar_function(void *context);

/* Compares `gradient` with central differences of f by x, which has `count` values that f reads. The
 * largest difference may be 1e-6 of the largest quotient. Tries at most `samples` values, evenly spread. */
static inline void check_gradient(const char *what, scalar_function *f, void *context, double *x,
				  const double *gradient, uint64_t count, uint64_t samples)
{
	const uint64_t every =
	    count > samples ? count / samples | 1 : 1; /* odd, so that the samples include all columns */
	double worst = 0, largest = 0;

	for (uint64_t i = 0; i < count; i += every) {
		const double at = x[i], step = 1e-5;
		x[i] = at + step;
		const double above = f(context);
		x[i] = at - step;
		const double below = f(context);
		x[i] = at;
		const double quotient = (above - below) / (2 * step);
		worst = fmax(worst, fabs(quotient - gradient[i]));
		largest = fmax(largest, fabs(quotient));
		if (isnan(gradient[i]))
			fail_msg("%s: gradient %llu is no number", what, (unsigned long long)i);
	}
	if (!(largest > 0))
		fail_msg("%s: the function does not depend on it", what);
	if (!(worst <= 1e-6 * largest))
		fail_msg("%s: off by %.3g, largest %.3g", what, worst, largest);
}
