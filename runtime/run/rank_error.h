/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * When a rank fails all of them end, and one line says why. A rank with an error of its own tells the others
 * through p4d_world_abort; then all have the same text, which begins with the rank and host of the cause,
 * and rank 0 prints it. Only a rank 0 that was killed cannot: then rank 1 does.
 */

/* Whether this rank prints an error of the world. */
bool p4d_rank_error_claim(uint32_t rank, const char *text);

/* What p4d_world_abort is told: code, cause, fix, and the step where it happened (0: none). */
const char *p4d_rank_cause(const p4d_error *err, uint64_t step, char *buf, size_t size);

/* Prints "p4d-train: [P4D050] rank 3 (h2): cause" and its fix as one write. host NULL: the text says it. */
void p4d_rank_report(const p4d_error *err, const char *host, uint32_t rank);

/*
 * The same, of what ends the run. Ranks that a launcher forked leave it to that one to print when all have
 * ended, for it may know better: it sees who was killed by which signal, where they see a connection that
 * ends or nobody who joins. The first rank's words count.
 */
void p4d_rank_error_final(const p4d_error *err, const char *host, uint32_t rank);

/*
 * The launcher's side: before it forks, and when all ranks have ended. `better` is printed in place of what
 * they left; NULL: it does not know better. Errors: NO_MEMORY.
 */
int p4d_rank_listen(p4d_error *err);
void p4d_rank_conclude(const p4d_error *better);
