/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "device/device.h"

/*
 * Groups whose data is in device memory. comm.h applies to them, with these differences:
 *
 * Calls are queued on the device in order with its operations, and return before the device executes them.
 * p4d_comm_send_wait does not block the host: it only makes operations that are queued later run after the
 * send. p4d_comm_send_wait_any blocks the host until a send is done. p4d_comm_barrier synchronizes the hosts,
 * not their devices.
 *
 * NCCL chooses the order of a sum, which may differ from element to element; sums of BF16 and FP16 are
 * rounded at every addition. All members get the same bits. A later run on the same machines gets these bits
 * again if NCCL chooses the same algorithms. A maximum may lose a NaN. Mismatched calls are not detected:
 * they hang until --watchdog ends them. If data is staged through the host, results are those of comm.h.
 *
 * A lost rank, or an error of NCCL, ends every wait of the host for the device (p4d_device.watch).
 */
typedef struct p4d_transport p4d_transport;

typedef enum p4d_transport_kind {
	P4D_TRANSPORT_AUTO, /* NCCL if possible, else staged */
	P4D_TRANSPORT_NCCL,
	P4D_TRANSPORT_STAGED, /* copied through host memory: for ranks that share a GPU */
} p4d_transport_kind;

/*
 * Call it after any error. Groups are then closed without waiting for other ranks, because those may never
 * close theirs. If a call on a group fails, that call does this itself. NULL: no-op.
 */
void p4d_comm_transport_break(p4d_transport *transport);
/* Whether operations that are queued on the device may never finish. NULL: false. */
bool p4d_comm_transport_broken(const p4d_transport *transport);
/* Call it after its groups were closed. NULL: no-op. */
void p4d_comm_transport_close(p4d_transport *transport);
/*
 * Describes the transport: "NCCL 2.28.9", "staged through the host: ranks 0 and 1 share a GPU", "host memory"
 * (transport NULL).
 */
const char *p4d_comm_transport_name(const p4d_transport *transport);

/* The planned use of a group. */
typedef struct p4d_traffic {
	bool collectives;
	/*
	 * Bytes of the largest collective of each kind, the same on all members; 0: none, or unknown.
	 * sum_bytes, maximum_bytes: an all-reduce with P4D_SUM or P4D_MAX. shards_bytes: a reduce-scatter or
	 * all-gather, counting all members' shards. rooted_bytes: a broadcast or reduce.
	 */
	uint64_t sum_bytes, maximum_bytes, shards_bytes, rooted_bytes;
	/* Collectives overlap with the device's operations: they start after the operations queued so far,
	 * and p4d_comm_await waits for them. */
	bool async;
	/*
	 * maximum number of thread blocks of these collectives, so that operations keep the others; 0: no
	 * limit
	 */
	unsigned blocks;
	/* one entry per member: a bit for each channel on which this rank sends to it. NULL: no messages */
	const uint8_t *sends;
	uint64_t message_bytes; /* bytes of the largest message */
	unsigned messages;      /* maximum number of this rank's messages in flight */
	/*
	 * The memory that contains all data of the group. It has the same size on all members, and for
	 * collectives the data has the same offsets in it. NULL: unknown. NCCL gets it if P4D_NCCL_REGISTER=1
	 * is in the environment.
	 */
	void *memory;
	uint64_t memory_bytes;
	/*
	 * device memory for the first collectives: 64 bytes or, if that is more, the largest number of bytes
	 * above. Nothing else may use it while the group opens.
	 */
	void *scratch;
} p4d_traffic;

/*
 * Moves the group to the transport's device: from here on its data is in device memory. Collective over the
 * group. Ranks that share several groups must make these calls in the same order. transport NULL: no-op.
 * Later calls allocate nothing, because NCCL connects the ranks here for a small collective and for the
 * largest ones. Errors: RANK (including NCCL's), NO_MEMORY.
 */
int p4d_comm_on_device(p4d_group *group, p4d_transport *transport, const p4d_traffic *traffic,
		       p4d_error *err);

/*
 * Number of thread blocks that a message occupies on the device. It occupies them from its send, or from the
 * begin of its receive, until the other rank has made the matching call. 0: none.
 */
unsigned p4d_comm_message_blocks(const p4d_group *group);

/*
 * Whether collectives of the group overlap with the device's operations: traffic.async was set, and the
 * transport supports it.
 */
bool p4d_comm_runs_async(const p4d_group *group);

/*
 * For asynchronous collectives. p4d_comm_called returns the number of calls so far. p4d_comm_await makes
 * operations that are queued later start after the first `count` calls; it does nothing on other groups.
 */
uint64_t p4d_comm_called(const p4d_group *group);
int p4d_comm_await(p4d_group *group, uint64_t count, p4d_error *err);
/* Like p4d_comm_await, for all calls so far. */
static inline int p4d_comm_settle(p4d_group *group, p4d_error *err)
{
	return p4d_comm_await(group, p4d_comm_called(group), err);
}

/* Collectives of the group that are called from now on also start after an event of the device. */
void p4d_comm_follow(p4d_group *group, void *event);

/* Blocks the host until an event is reached, or the device's watch reports that it never will be. */
int p4d_comm_device_reach(p4d_device *device, void *event, p4d_error *err);
