/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Ranks without Slurm: forks so many children, each of which runs work(rank, context) and exits with what it
 * returns. Signals that ask to stop are passed on; children die with this process. When one fails, the others
 * have 5 seconds to notice, and 1 when it was killed: then there is nothing they could still do. Prints who
 * was killed, or what the ranks left to be printed (p4d_rank_error_final).
 *
 * Returns the exit status of the whole: 0 when all have 0; else the first one that says more than that
 * another rank failed (P4D_E_RANK), else that. Errors: RANK when it cannot fork.
 */
typedef int (*p4d_local_work)(uint32_t rank, void *context);
int p4d_local_ranks(uint32_t count, p4d_local_work work, void *context, p4d_error *err);
