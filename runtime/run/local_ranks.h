/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Ranks without Slurm: forks the children, each of which runs work(rank, context) and exits with its result.
 * Signals that ask to stop are passed on; children die with this process. If one fails, the others have 5
 * seconds to notice it, or 1 second if it was killed, since they have nothing left to do. Prints which rank
 * was killed, or the message that the ranks left (p4d_rank_error_final).
 *
 * Returns the exit status of the whole run: 0 if all are 0; otherwise the first one that is not P4D_E_RANK
 * (another rank failed), or P4D_E_RANK. Errors: RANK if it cannot fork.
 */
typedef int (*p4d_local_work)(uint32_t rank, void *context);
int p4d_local_ranks(uint32_t count, p4d_local_work work, void *context, p4d_error *err);
