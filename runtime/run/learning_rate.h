/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The learning rate of a step, a function of its number alone, so that a resumed run continues the curve. It
 * rises linearly over the first `warmup` steps and reaches `peak` at step `warmup`; then
 *
 *   cosine    half a cosine from peak to `least` at the last step (Loshchilov and Hutter, SGDR, 2017)
 *   wsd       stays at peak and falls linearly to `least` over the last `decay` steps (warmup, stable, decay;
 *             Hu et al., MiniCPM, 2024)
 *   linear    falls linearly from peak to `least` at the last step
 *   constant  stays at peak
 */
typedef enum p4d_rate_curve { P4D_COSINE, P4D_WSD, P4D_LINEAR, P4D_CONSTANT } p4d_rate_curve;

typedef struct p4d_rate {
	p4d_rate_curve curve;
	double peak, least;
	uint64_t warmup, steps;
	uint64_t decay; /* number of steps of the decay, only for wsd */
} p4d_rate;

/* The rate in step 1 .. steps; `least` afterwards. */
double p4d_learning_rate(const p4d_rate *rate, uint64_t step);
