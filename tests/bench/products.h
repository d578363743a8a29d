/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Square matmuls. The benchmarks compare the speed of their own code with the rate of these matmuls. */
#include <stdlib.h>
#include <time.h>

#include "device/device.h"

enum { PRODUCT_SIZE = 1024 };

/* CPU time of this thread, which is the process's only thread. Other processes do not change it. */
static inline double thread_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Numbers from -0.5 to 0.5, none of them denormal. */
static inline float *numbers(uint64_t count)
{
	float *x = malloc(count * sizeof(*x));
	uint32_t mixed = 1;

	if (!x)
		abort();
	for (uint64_t i = 0; i < count; i++) {
		mixed = mixed * 1664525 + 1013904223;
		x[i] = ((float)(mixed >> 16) - 32767.5f) / 65536;
	}
	return x;
}

typedef struct products {
	p4d_device *device;
	p4d_dtype type;
	float *x, *w, *y;
} products;

static inline products products_make(p4d_device *device, p4d_dtype type)
{
	const uint64_t count = PRODUCT_SIZE * PRODUCT_SIZE;
	products p = {device, type, numbers(count), numbers(count), numbers(count)};

	if (type == P4D_DT_BF16) {
		device->cast(device, type, p.w, P4D_DT_FP32, p.y, count);
		device->cast(device, type, p.x, P4D_DT_FP32, p.y, count);
	}
	return p;
}

static inline void products_free(products *p)
{
	free(p->x), free(p->w), free(p->y);
}

/* Runs matmuls for about `about` seconds of CPU time. Adds their FLOPs to *flop and their time to
 * *seconds. */
static inline void products_run(const products *p, double about, double *flop, double *seconds)
{
	const double start = thread_seconds(), n = PRODUCT_SIZE;

	do {
		p->device->linear(p->device, p->type, p->y, NULL, p->x, p->w, PRODUCT_SIZE, PRODUCT_SIZE,
				  PRODUCT_SIZE);
		*flop += 2 * n * n * n;
	} while (thread_seconds() - start < about);
	*seconds += thread_seconds() - start;
}
