/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * If a rank fails, all ranks end, and one line says why. A rank that has an error itself tells all others
 * through p4d_world_abort. So all ranks have the same text, which begins with the rank and host of the cause.
 * Rank 0 prints it or, if rank 0 was killed, rank 1.
 */

/* Whether this rank prints the common error. */
bool p4d_rank_error_claim(uint32_t rank, const char *text);

/* The text for p4d_world_abort: code, cause, fix, and the step where it happened (0: none). */
const char *p4d_rank_cause(const p4d_error *err, uint64_t step, char *buf, size_t size);

/*
 * Prints "p4d-train: [P4D050] rank 3 (h2): cause" and its fix in a single write. host NULL: the error's text
 * already names rank and host.
 */
void p4d_rank_report(const p4d_error *err, const char *host, uint32_t rank);

/*
 * Reports the error with which a rank ends. Ranks that a launcher forked leave the printing to the launcher,
 * which prints after all ranks have ended. The launcher may know more: it sees that a signal killed a rank,
 * while the other ranks only see a closed connection or a missing peer. The first error counts.
 */
void p4d_rank_error_final(const p4d_error *err, const char *host, uint32_t rank);

/*
 * The launcher calls p4d_rank_listen before it forks, and p4d_rank_conclude after all ranks have ended.
 * better: if not NULL, it is printed instead of the ranks' message. Errors: NO_MEMORY.
 */
int p4d_rank_listen(p4d_error *err);
void p4d_rank_conclude(const p4d_error *better);
