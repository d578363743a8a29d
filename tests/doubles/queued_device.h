/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TEST_QUEUED_DEVICE_H
#define P4D_TEST_QUEUED_DEVICE_H

/*
 * A cpu device that works as a GPU does: operations are queued, each stream is a thread that does them in its
 * order, and the host runs ahead. Where one forgets to wait for another, results are wrong. A queue that is
 * full holds up the host without a word to its watch, as launching a kernel does; so does freeing memory
 * while anything is on its way.
 */
#include "device/device.h"

typedef struct queued_stream queued_stream;
struct queued_stream {
	/* work(args) after all that was queued before; args are copied, at most QUEUED_ARGUMENTS bytes */
	void (*queue)(queued_stream *, void (*work)(void *args), const void *args, size_t bytes);
};

enum { QUEUED_ARGUMENTS = 256, QUEUED_MOST = 512 };

/*
 * identity: as p4d_device.identity. side_lag: microseconds that streams beside that of all operations sleep
 * before each thing they do. After open nothing is allocated but by stream_open, mark_open and upload.
 */
int queued_device_open(p4d_device *device, const char *identity, unsigned side_lag, p4d_error *err);

/* Times that the host waited until all operations that it had queued since the last time were done. */
uint64_t queued_device_waits(const p4d_device *device);
/* What had been queued beside the stream of operations when the last linear_weight was. */
uint64_t queued_device_beside(const p4d_device *device);

#endif
