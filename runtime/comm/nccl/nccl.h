/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_COMM_NCCL_H
#define P4D_COMM_NCCL_H

/* Inside the communication library: what comm_nccl.c and comm_nccl_open.c share. */
#include "comm/transport.h"
#include "comm/nccl/nccl_library.h"

/* A communicator, and the stream its calls are queued on. */
typedef struct p4d_lane {
	p4d_nccl_comm *comm; /* NULL: there is no such lane */
	void *stream;        /* NULL: that of all operations, and no marks */
	void **marks;        /* of the last calls, in turns */
	unsigned most_marks;
	uint64_t calls, ended; /* so far; messages that p4d_recv_end was called for */
} p4d_lane;

/* p4d_group.carried */
typedef struct p4d_nccl_group {
	p4d_lane collectives;
	p4d_lane (*messages)[P4D_CHANNELS][2]; /* by member, channel: to it, from it. NULL: none */
} p4d_nccl_group;

/* comm_nccl_open.c: as p4d_carrier says */
int p4d_nccl_group_open(p4d_group *group, p4d_transport *transport, const p4d_traffic *traffic,
			p4d_error *err);
void p4d_nccl_group_close(p4d_group *group, p4d_transport *transport);

#endif
