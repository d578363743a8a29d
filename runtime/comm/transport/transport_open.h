/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm_device.h"

/*
 * Opens a transport. Collective over `all`, a group of all ranks in rank order, which must outlive the
 * transport. library: path of NCCL; NULL: libnccl.so.2. *transport becomes NULL if groups need none, because
 * device memory is host memory and no kind was requested. Sets the device's watch. Errors: VALUE (why this
 * kind is not possible; the same text on all ranks), NO_MEMORY, RANK.
 */
int p4d_comm_transport_open(p4d_transport **transport, p4d_group *all, p4d_device *device,
			    p4d_transport_kind kind, const char *library, p4d_error *err);
