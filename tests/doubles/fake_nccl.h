/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stand-in for libnccl.so.2 among processes of one user on one machine, on streams of queued_device.h and
 * host memory. Like NCCL, it queues calls, which wait on the stream for the other ranks (a send until it is
 * received). It connects channels when they are first used, adds in its own order, destroys a communicator
 * only together with all of its ranks, and waits forever for a lost rank.
 */
typedef enum fake_nccl_fault {
	FAKE_FAILS,     /* the call returns an error */
	FAKE_HANGS,     /* the call does not return */
	FAKE_NEVER_ENDS /* its operations never end, and the communicator gets an error */
} fake_nccl_fault;

/*
 * The library's fake_nccl_break_call: from its call number `after` on (1 is the first), the function has a
 * fault.
 */
typedef void (*fake_nccl_break)(const char *function, unsigned after, fake_nccl_fault fault);
/* The library's fake_nccl_channels_connected: how often this process connected channels. */
typedef unsigned (*fake_nccl_channels)(void);
/* The library's fake_nccl_registered: number of communicators of this process with registered memory. */
typedef unsigned (*fake_nccl_memory)(void);
