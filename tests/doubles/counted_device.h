/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cuda device whose kernels are counted and not run: it counts the operations that a step queues, and the
 * bytes that each of them moves. So a model of any size can be counted without memory. Needs the shim
 * (doubles/cuda/).
 */
#include "device/device.h"
#include "gpu/gpu.h"
#include "request/layout.h"

enum { COUNTED_MOST = 64 };

/*
 * All calls of an operation. bytes: the least that it can move, each operand once. seconds: by the rates of
 * gpus.json and the formulas of p4d's cost model, with a gap of P4D_LAUNCH_SECONDS between two launches.
 */
typedef struct counted_operation {
	const char *name;
	uint64_t calls, launches;
	double bytes, seconds;
} counted_operation;

typedef struct counted_step {
	counted_operation operation[COUNTED_MOST];
	unsigned operations;
	uint64_t launches;
	double bytes, seconds;
} counted_step;

/* A process can have only one such device. Errors: those of p4d_device_cuda_open. */
int counted_device_open(p4d_device *device, const p4d_layout *layout, const p4d_gpu *gpu, p4d_error *err);
/* What was queued since the device was opened or since the last call. */
counted_step counted_device_take(void);
