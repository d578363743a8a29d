/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Seconds, and milliseconds, of a clock that only goes forward. */
static inline double p4d_clock_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline int64_t p4d_clock_ms(void)
{
	return (int64_t)(1e3 * p4d_clock_seconds());
}
