/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client.h"

/*
 * Opens libp4d-client.so once: next to p4d.so (build tree), else where it is installed. If it cannot be used
 * or comes from another build, prints one message and returns NULL.
 */
const p4d_client_calls *p4d_spank_client_open(void);

/* The library if it is already open, else NULL. */
const p4d_client_calls *p4d_spank_client_opened(void);
