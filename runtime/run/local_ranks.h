/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Ranks without Slurm: forks so many children, each of which runs work(rank, context) and exits with what it
 * returns. Signals that ask to stop are passed on; children die with this process. When one fails, the others
 * have 5 seconds to notice, and 1 when it was killed: then there is nothing left for them to do. Prints who
 * was killed, or what the ranks left to be printed (p4d_rank_error_final).  Returns the exit status of the
 * whole: 0 when all have 0; else the first that is not P4D_E_RANK (another rank failed), else that. Errors:
 * RANK when it cannot fork.
 */
typedef int (*p4d_local_work)(uint32_t rank, void *context);
int p4d_local_ranks(uint32_t count, p4d_local_work work, void *context, p4d_error *err);
