/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/transport.h"

/* A transport that copies device data through host memory. */
extern const p4d_transport_ops p4d_staged__transport;

/* Prepares the transport; call it before its first group. Errors: NO_MEMORY. */
int p4d_staged__begin(p4d_transport *transport, p4d_error *err);
