/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stand-in for libnccl.so.2 among processes of one user on one machine, on streams of queued_device.h and
 * host memory. Like NCCL it queues, waits on the stream for the other ranks (a send until it is received),
 * connects channels at their first use, adds in an order of its own, destroys a communicator when all of its
 * ranks do, and waits forever for a lost rank.
 */
typedef enum fake_nccl_fault {
	FAKE_FAILS,     /* the call returns an error */
	FAKE_HANGS,     /* the call does not return */
	FAKE_NEVER_ENDS /* its operations never end, and the communicator gets an error */
} fake_nccl_fault;

/* The library's fake_nccl_break_call: from its `after`-th call on, from 1, the function has a fault. */
typedef void (*fake_nccl_break)(const char *function, unsigned after, fake_nccl_fault fault);
/* The library's fake_nccl_channels_connected: how often this process connected channels. */
typedef unsigned (*fake_nccl_channels)(void);
/* The library's fake_nccl_registered: communicators of this process that have been given memory, and not had
 * it taken. */
typedef unsigned (*fake_nccl_memory)(void);
