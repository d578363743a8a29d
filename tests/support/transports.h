/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A rank with a device that queues operations, and with a transport to the devices of other ranks. For the
 * child processes of forked.h. */
#include <dlfcn.h>
#include <stdlib.h>

#include "comm/transport/transport_open.h"
#include "doubles/fake_nccl.h"
#include "doubles/queued_device.h"
#include "support/forked.h"

enum { SIDE_LAG = 100 }; /* microseconds; see queued_device.h */

typedef struct transports_rank {
	p4d_device device;
	p4d_group *all;
	p4d_transport *transport;
} transports_rank;

static inline const char *fake_nccl_path(void)
{
	static char path[4096];
	const char *dir = getenv("P4D_TEST_BUILDDIR");

	snprintf(path, sizeof(path), "%s/tests/doubles/.libs/fake_nccl.so", dir ? dir : ".");
	return path;
}

static inline void *fake_nccl_function(const char *name)
{
	void *library = dlopen(fake_nccl_path(), RTLD_NOW | RTLD_LOCAL);

	CHECK(library);
	void *function = dlsym(library, name);
	CHECK(function);
	return function;
}

static inline void break_nccl(const char *function, unsigned after, fake_nccl_fault fault)
{
	fake_nccl_break call;

	*(void **)&call = fake_nccl_function("fake_nccl_break_call");
	call(function, after, fault);
}

static inline unsigned nccl_channels(void)
{
	fake_nccl_channels call;

	*(void **)&call = fake_nccl_function("fake_nccl_channels_connected");
	return call();
}

static inline unsigned nccl_registered(void)
{
	fake_nccl_memory call;

	*(void **)&call = fake_nccl_function("fake_nccl_registered");
	return call();
}

static inline int transports_open_as(transports_rank *r, p4d_world *world, uint32_t size,
				     const char *identity, p4d_transport_kind kind, const char *library,
				     p4d_error *err)
{
	uint32_t ranks[FORKED_MOST];

	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	TRY(queued_device_open(&r->device, identity, SIDE_LAG, err));
	TRY(p4d_group_open(&r->all, world, ranks, size, err));
	return p4d_comm_transport_open(&r->transport, r->all, &r->device, kind, library, err);
}

/* Opens a device and a transport for this rank. */
static inline int transports_open(transports_rank *r, p4d_world *world, uint32_t size,
				  p4d_transport_kind kind, p4d_error *err)
{
	char identity[32];

	snprintf(identity, sizeof(identity), "queued-%u", p4d_world_rank(world));
	return transports_open_as(r, world, size, identity, kind, fake_nccl_path(), err);
}

static inline void transports_close(transports_rank *r)
{
	p4d_comm_transport_close(r->transport);
	p4d_group_close(r->all);
	r->device.close(&r->device);
}
