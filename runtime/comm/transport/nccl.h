/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by nccl.c and nccl_open.c. */
#include "comm/transport.h"
#include "comm/transport/nccl_library.h"

/* Thread blocks of a message. Each may occupy a multiprocessor while it waits. */
enum { P4D_NCCL_MESSAGE_CTAS = 4 };

/* A communicator, and the stream its calls are queued on. */
typedef struct p4d_nccl_stream {
	p4d_nccl_comm *comm; /* NULL: none */
	void *handle;        /* NULL: the stream of all operations, which needs no events */
	void **events;       /* events of the last calls, in a ring buffer */
	unsigned event_count;
	/* calls: number of calls so far; ended: number of receives that p4d_comm_recv_end has ended */
	uint64_t calls, ended;
} p4d_nccl_stream;

/* p4d_group.transport_state */
typedef struct p4d_nccl_group {
	p4d_nccl_stream collectives;
	/* for each member and channel: the streams for messages to the member and from it; NULL: none */
	p4d_nccl_stream (*messages)[P4D_CHANNELS][2];
} p4d_nccl_group;

/* p4d_transport.state: p4d_nccl */
extern const p4d_transport_ops p4d_nccl__transport;

/* nccl_open.c: as in p4d_transport_ops */
int p4d_nccl__group_open(p4d_group *group, p4d_transport *transport, const p4d_traffic *traffic,
			 p4d_error *err);
void p4d_nccl__group_close(p4d_group *group, p4d_transport *transport);
