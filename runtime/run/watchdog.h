/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Ends a process that makes no progress. Communication notices dead peers, but not one that loops forever,
 * hangs in a driver, or is stopped. After this many seconds without a kick it prints one line and calls _exit
 * with P4D_E_RANK; the other ranks then see a closed connection. Uses SIGALRM; one per process.
 */

/* seconds 0: no watchdog. who: "host h1, rank 3", copied. Errors: IO. */
int p4d_watchdog_arm(uint64_t seconds, const char *who, p4d_error *err);
/* Starts the time anew. what: the work that starts now, copied (up to 80 characters): "step 12". */
void p4d_watchdog_kick(const char *what);
void p4d_watchdog_end(void);
