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
	uint64_t calls, ended; /* number of calls so far; number of calls of p4d_comm_recv_end */
} p4d_nccl_stream;

/* p4d_group.transport_state */
typedef struct p4d_nccl_group {
	p4d_nccl_stream collectives;
	p4d_nccl_stream (*messages)[P4D_CHANNELS][2]; /* by member and channel: streams for messages to it and
							 from it. NULL: none */
} p4d_nccl_group;

/* p4d_transport.state: p4d_nccl */
extern const p4d_transport_ops p4d_nccl__transport;

/* nccl_open.c: as in p4d_transport_ops */
int p4d_nccl__group_open(p4d_group *group, p4d_transport *transport, const p4d_traffic *traffic,
			 p4d_error *err);
void p4d_nccl__group_close(p4d_group *group, p4d_transport *transport);
