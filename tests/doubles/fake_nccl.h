/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stand-in for libnccl.so.2, for processes of one user on one machine. It works on streams of
 * queued_device.h and on host memory. Like NCCL, it queues calls, and a queued call waits on its stream
 * for the other ranks (a send until it is received). Like NCCL, it connects channels at their first use,
 * adds in its own order, destroys a communicator only when all of its ranks do, and waits forever for a
 * lost rank.
 */
typedef enum fake_nccl_fault {
	FAKE_FAILS,     /* the call returns an error */
	FAKE_HANGS,     /* the call does not return */
	FAKE_NEVER_ENDS /* its operations never end, and the communicator gets an error */
} fake_nccl_fault;

/* The library's fake_nccl_break_call: `function` has the fault from its call number `after` on (1 is the
 * first call). */
typedef void (*fake_nccl_break)(const char *function, unsigned after, fake_nccl_fault fault);
/* The library's fake_nccl_channels_connected: how often this process connected channels. */
typedef unsigned (*fake_nccl_channels)(void);
/* The library's fake_nccl_registered: number of communicators of this process with registered memory. */
typedef unsigned (*fake_nccl_memory)(void);
