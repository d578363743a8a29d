/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TRANSPORT_OPEN_H
#define P4D_TRANSPORT_OPEN_H

#include "comm/comm_device.h"

/*
 * Collective over `all`, a group of all ranks in the order of ranks, which stays open as long. library: what
 * to open as NCCL; NULL: libnccl.so.2. *transport is NULL when the device's memory is the host's and nothing
 * else was asked for: then groups carry its data as they are. Takes the device's watch.
 * Errors: VALUE (what was asked for is not possible, and why: the same on all ranks), NO_MEMORY, RANK.
 */
int p4d_comm_transport_open(p4d_transport **transport, p4d_group *all, p4d_device *device,
			    p4d_transport_kind kind, const char *library, p4d_error *err);

#endif
