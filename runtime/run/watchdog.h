/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Ends a process that makes no progress. Communication notices peers that have died, but not peers that loop
 * forever, hang in a driver, or are stopped. If nothing kicks the watchdog for `seconds`, it prints one line
 * and calls _exit with P4D_E_RANK. The other ranks then see a closed connection. Uses SIGALRM; one per
 * process.
 */

/* seconds 0: no watchdog. who: "host h1, rank 3", copied. Errors: IO. */
int p4d_watchdog_arm(uint64_t seconds, const char *who, p4d_error *err);
/* Restarts the timer. what: the work that starts now ("step 12"), copied, up to 80 characters. */
void p4d_watchdog_kick(const char *what);
void p4d_watchdog_end(void);
