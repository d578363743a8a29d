/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Internal to comm/: transports, which move the data of groups on a device. */
#include "comm/comm_device.h"
#include "comm/group.h"
#include "device/device_wait.h"

/*
 * Table of a transport's functions. Their caller has checked the arguments. Groups have several members, and
 * no message goes to its sender.
 */
typedef struct p4d_transport_ops {
	/* `open` may set group->transport_state. `close` is also called after a failed `open`. */
	int (*open)(p4d_group *, p4d_transport *, const p4d_traffic *, p4d_error *);
	void (*close)(p4d_group *, p4d_transport *);
	int (*collective)(p4d_group *, const p4d_collective *, p4d_error *);
	/* this and the next functions: as the functions p4d_comm_... of the same name */
	bool (*runs_async)(const p4d_group *);
	void *(*stream)(
	    const p4d_group *); /* stream of the group's collectives, if they run asynchronously */
	uint64_t (*called)(const p4d_group *);
	int (*await)(p4d_group *, uint64_t count, p4d_error *);
	int (*send)(p4d_group *, uint32_t to, unsigned channel, const void *data, uint64_t bytes,
		    uint64_t *ticket, p4d_error *);
	int (*send_wait)(p4d_group *, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *);
	int (*sent)(p4d_group *, uint32_t to, unsigned channel, uint64_t ticket,
		    p4d_error *); /* 1: the message was sent; 0: not yet; -1: error */
	int (*recv_begin)(p4d_group *, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			  p4d_error *);
	int (*recv_end)(p4d_group *, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			p4d_error *);
	unsigned message_blocks;                    /* as p4d_comm_message_blocks */
	int (*watch)(p4d_transport *, p4d_error *); /* reports errors that the world does not notice */
	void (*end)(p4d_transport *);
} p4d_transport_ops;

struct p4d_transport {
	const p4d_transport_ops *ops;
	p4d_world *world;
	p4d_device *device;
	void *state; /* the transport's own state */
	double looked_at;
	bool broken; /* set after an error: from then on nothing may wait for other ranks, not even closing */
	char name[300];
};

/* comm_device.c: the device part of collectives.c and group.c */
int p4d_comm_device__collective(p4d_group *group, const p4d_collective *c, p4d_error *err);
int p4d_comm_device__send_wait_any(p4d_group *group, const p4d_pending *pending, unsigned count,
				   unsigned *which, p4d_error *err);
/* A message that this rank sent to itself. */
int p4d_comm_device__take_own(p4d_group *group, unsigned channel, void *data, uint64_t bytes, p4d_error *err);
void p4d_comm_device__group_close(p4d_group *group);
/*
 * Call it after a transport error, which is often the first sign of a lost rank. Waits up to two seconds for
 * the notice that a rank was lost, and if it arrives puts that in *err. Returns -1.
 */
int p4d_comm_device_blame(p4d_world *world, p4d_error *err);

/* Value of p4d_device.watch. context: the transport. */
int p4d_comm_transport_watch(void *context, p4d_error *err);
