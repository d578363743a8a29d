/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Streams and events of the queued device: threads that run queued operations. */
#include "doubles/queued_device.h"

#include <pthread.h>

typedef struct entry {
	void (*work)(void *);
	_Alignas(16) char args[QUEUED_ARGUMENTS];
} entry;

typedef struct queued queued;

/* A stream. Libraries such as fake_nccl see only its first member. */
typedef struct stream {
	queued_stream calls;
	queued *owner;
	pthread_t thread;
	uint64_t queued, done;
	uint64_t awaited; /* the smallest value of `done` that any thread waits for */
	/* signalled when `queued` and `done` change: two conditions, so that a change wakes only threads
	 * that wait for it */
	pthread_cond_t more, reached;
	unsigned lag;
	entry entries[QUEUED_MOST];
	struct stream *next;
} stream;

typedef struct event {
	stream *where; /* the stream on which it was recorded; NULL: not recorded yet */
	uint64_t at;
	struct event *next;
} event;

enum { KEPT = 2 * QUEUED_MOST, KEPT_BYTES = 256, MOST_HEAD = 64 };
_Static_assert(sizeof(p4d_attention_shape) <= KEPT_BYTES, "the largest that an operation is given");

struct queued {
	p4d_device cpu;
	stream *compute, *streams;
	event *events;
	bool closing, failed;
	uint64_t beside, beside_weight; /* see queued_device_beside */
	uint64_t waits,
	    seen; /* see queued_device_waits; the number of operations that were queued at the last wait */
	unsigned side_lag;
	p4d_error why;
	pthread_mutex_t lock;
	/* copies of structures that queued operations use; a queue never has more operations than this has
	 * entries */
	_Alignas(16) char kept[KEPT][KEPT_BYTES];
	unsigned next_kept;
	/* the cpu's attention needs a workspace, and the plan of a GPU has none for it */
	_Alignas(64) char workspace[4 * P4D_ATTENTION_TILE * (2 * P4D_ATTENTION_TILE + 5 * MOST_HEAD)];
};

static inline queued *of(p4d_device *device)
{
	return device->state;
}

static inline stream *stream_of(p4d_device *device, void *which)
{
	return which ? which : of(device)->compute;
}

/* NULL: no memory, or no thread. */
stream *queued_add_stream(queued *q, unsigned lag);
/* Queues work after everything that is queued on the stream, and copies args. Waits while the queue is
 * full. */
void queued_put(queued_stream *calls, void (*work)(void *), const void *args, size_t bytes);
/* The caller holds the lock. Waits until this many operations of the stream are done. */
void queued_await(stream *s, uint64_t done);
/* Ends all streams after their queued operations. */
void queued_close_streams(queued *q);

/* As in p4d_device. */
int queued_stream_open(p4d_device *device, void **opened, p4d_error *err);
void queued_stream_wait(p4d_device *device, void *waiter, void *awaited);
int queued_event_open(p4d_device *device, void **opened, p4d_error *err);
void queued_event_record(p4d_device *device, void *opened, void *where);
void queued_event_wait(p4d_device *device, void *waiter, void *opened);
int queued_event_reached(p4d_device *device, void *opened, p4d_error *err);
int queued_sync(p4d_device *device, p4d_error *err);
