/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client.h"

/*
 * Opens libp4d-client.so once: beside p4d.so if it is there (build tree), else where it is installed. NULL
 * when it cannot be used, or is of another build, after one message.
 */
const p4d_client_calls *p4d_spank_client_open(void);

/* The same if it was opened before, else NULL. */
const p4d_client_calls *p4d_spank_client_opened(void);
