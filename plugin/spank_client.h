/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client.h"

/*
 * Opens libp4d-client.so once: in p4d.so's directory (build tree), else in the installation's. If it cannot
 * be used or is from another build, prints one message and returns NULL.
 */
const p4d_client_calls *p4d_spank_client_open(void);

/* The library if it is already open, else NULL. */
const p4d_client_calls *p4d_spank_client_opened(void);
