/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/transport.h"

/* Copies device data through host memory. */
extern const p4d_transport_ops p4d_staged__transport;

/* Before its first group. Errors: NO_MEMORY. */
int p4d_staged__begin(p4d_transport *transport, p4d_error *err);
