/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cuda device that counts kernels and does not run them. It counts the operations that a step queues,
 * and the bytes that each operation moves. It needs no memory, so tests can count models of any size.
 * Needs the shim (doubles/cuda/).
 */
#include "device/device.h"
#include "gpu/gpu.h"
#include "request/layout.h"

enum { COUNTED_MOST = 64 };

/*
 * The sum over all calls of an operation. bytes: the least that the calls can move, each operand once.
 * seconds: from the rates of gpus.json and the formulas of p4d's cost model, with a gap of
 * P4D_LAUNCH_SECONDS between two launches.
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
/* Returns what was queued since the last call, or since the device was opened. */
counted_step counted_device_take(void);
