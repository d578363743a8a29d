/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * If a rank fails, all ranks end, and one line says why. A rank with an error of its own tells the others
 * through p4d_world_abort. Then all have the same text, which begins with the rank and host of the cause, and
 * rank 0 prints it. If rank 0 was killed, rank 1 prints it.
 */

/* Whether this rank prints the common error. */
bool p4d_rank_error_claim(uint32_t rank, const char *text);

/* The text for p4d_world_abort: code, cause, fix, and the step where it happened (0: none). */
const char *p4d_rank_cause(const p4d_error *err, uint64_t step, char *buf, size_t size);

/*
 * Prints "p4d-train: [P4D050] rank 3 (h2): cause" and its fix in a single write. host NULL: the text contains
 * it.
 */
void p4d_rank_report(const p4d_error *err, const char *host, uint32_t rank);

/*
 * The final error report. Ranks forked by a launcher leave printing to it, after all have ended, because it
 * may know more: it sees which rank a signal killed, where ranks only see a closed connection or a missing
 * peer. The first error counts.
 */
void p4d_rank_error_final(const p4d_error *err, const char *host, uint32_t rank);

/*
 * Called by the launcher before it forks, and after all ranks have ended. `better`, if not NULL, is printed
 * instead of their messages. Errors: NO_MEMORY.
 */
int p4d_rank_listen(p4d_error *err);
void p4d_rank_conclude(const p4d_error *better);
