/* SPDX-License-Identifier: Apache-2.0 */
#include "run/learning_rate.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* Progress of a decay that takes the last `over` steps: 0 before the decay, 1 at the last step. */
static double fallen(const p4d_rate *rate, uint64_t step, uint64_t over)
{
	uint64_t left = rate->steps - step;

	return left >= over ? 0 : 1 - (double)left / (double)over;
}

/* Returns how far the rate has fallen: 0 at peak, 1 at least. */
static double share_of(const p4d_rate *rate, uint64_t step)
{
	switch (rate->curve) {
	case P4D_WSD:
		return fallen(rate, step, rate->decay);
	case P4D_LINEAR:
		return fallen(rate, step, rate->steps - rate->warmup);
	case P4D_CONSTANT:
		return 0;
	case P4D_COSINE:
		break;
	}
	return 0.5 * (1 - cos(pi * fallen(rate, step, rate->steps - rate->warmup)));
}

double p4d_learning_rate(const p4d_rate *rate, uint64_t step)
{
	if (step <= rate->warmup && step <= rate->steps)
		return rate->peak * (double)step / (double)rate->warmup;
	if (step >= rate->steps)
		return rate->curve == P4D_CONSTANT ? rate->peak : rate->least;
	return rate->peak + (rate->least - rate->peak) * share_of(rate, step);
}
