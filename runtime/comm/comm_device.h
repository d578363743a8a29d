/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_COMM_DEVICE_H
#define P4D_COMM_DEVICE_H

#include "comm/comm.h"
#include "device/device.h"

/*
 * Groups whose data lie in the memory of a device. comm.h holds for them, with these differences:
 *
 * Calls are queued on the device like its operations, in order with them; one that returned may still have to
 * happen. p4d_comm_send_wait does not hold up the host either: what is queued after it finds the data sent.
 * p4d_comm_send_wait_any does, until a send is done. p4d_comm_barrier is one of the hosts, without their
 * devices.
 *
 * NCCL chooses the order of a sum, which may differ from element to element; sums of BF16 and FP16 are
 * rounded at every addition. All members get the same bits, and the same ones again on the same machines as
 * long as NCCL decides alike. A maximum may lose a NaN. Members that call different things are not found
 * out: they wait, until --watchdog ends them. Staged through the host, results are those of comm.h.
 *
 * A rank that is gone, or an error of NCCL, ends every wait of the host for the device (p4d_device.watch).
 */
typedef struct p4d_transport p4d_transport;

typedef enum p4d_transport_kind {
	P4D_TRANSPORT_AUTO, /* what is possible, NCCL first */
	P4D_TRANSPORT_NCCL,
	P4D_TRANSPORT_STAGED, /* copied to the host, and on from there: where ranks share a GPU */
} p4d_transport_kind;

/*
 * After an error, of whatever kind: groups are closed without waiting for other ranks, which may never close
 * theirs. An error of a group does this by itself. NULL: nothing.
 */
void p4d_comm_transport_break(p4d_transport *transport);
/* Whether what is queued on the device may wait for ever. NULL: false. */
bool p4d_comm_transport_broken(const p4d_transport *transport);
/* After its groups were closed. NULL: nothing. */
void p4d_comm_transport_close(p4d_transport *transport);
/* "NCCL 2.28.9", "staged through the host: ranks 0 and 1 share a GPU", "host memory" (NULL) */
const char *p4d_comm_transport_name(const p4d_transport *transport);

/* What a group will be used for. */
typedef struct p4d_traffic {
	bool collectives;
	/*
	 * Bytes of the largest all-reduce, and of all members' pieces together in the largest of the other
	 * collectives; the same on all members. 0: there is none, or who knows.
	 */
	uint64_t sum_bytes, pieces_bytes;
	/* They run beside the device's operations: after what is queued, and until p4d_comm_await. */
	bool async;
	/* by member: a bit for each channel on which this rank sends to it. NULL: no messages */
	const uint8_t *sends;
	uint64_t message_bytes; /* of the largest message */
	unsigned messages;      /* that this rank may have on their way */
	/* device memory, free while the group opens: 64 bytes, or as many as these collectives have */
	void *scratch;
} p4d_traffic;

/*
 * From here on the group's data lie in the memory of the transport's device. Collective over the group;
 * groups that share ranks are told in the same order by all. transport NULL: they do not, all stays as it
 * is. No allocation later on: NCCL connects the ranks for small and for the largest collectives here.
 * Errors: RANK (also: NCCL's), NO_MEMORY.
 */
int p4d_comm_on_device(p4d_group *group, p4d_transport *transport, const p4d_traffic *traffic,
		       p4d_error *err);

/* Whether collectives of the group run beside the device's operations: asked for, and possible. */
bool p4d_comm_runs_async(const p4d_group *group);

/*
 * Collectives that run asynchronously: how many were called so far, and: what is queued from now on starts
 * after the first `count` of them. On other groups the second does nothing.
 */
uint64_t p4d_comm_called(const p4d_group *group);
int p4d_comm_await(p4d_group *group, uint64_t count, p4d_error *err);

/* Holds up the host until a mark is reached, or the device's watch says that it never will be. */
int p4d_comm_device_reach(p4d_device *device, void *mark, p4d_error *err);

#endif
