/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cpu device that works like a GPU: operations are queued, each stream is a thread that executes its
 * operations in order, and the host runs ahead. If p4d-train forgets to wait, results are wrong. Like a
 * GPU's driver, it blocks the host if the queue is full, or if memory is freed while operations are in
 * flight. It then does not call the host's watch function.
 */
#include "device/device.h"

typedef struct queued_stream queued_stream;
struct queued_stream {
	/* queues work(args) after all operations queued before; args are copied, at most QUEUED_ARGUMENTS
	 * bytes */
	void (*queue)(queued_stream *, void (*work)(void *args), const void *args, size_t bytes);
};

enum { QUEUED_ARGUMENTS = 256, QUEUED_MOST = 512 };

/*
 * identity: as in p4d_device.identity. side_lag: microseconds that other streams sleep before each operation.
 * After open only stream_open, event_open and upload allocate.
 */
int queued_device_open(p4d_device *device, const char *identity, unsigned side_lag, p4d_error *err);

/* How often the host waited for operations that it had queued since the previous wait. */
uint64_t queued_device_waits(const p4d_device *device);
/* Number of operations that were queued on streams other than `stream`. The first function counts them
 * until now; the second until the last linear_weight was queued. */
uint64_t queued_device_beside_now(const p4d_device *device);
uint64_t queued_device_beside(const p4d_device *device);
