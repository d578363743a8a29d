/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Ranks without Slurm: forks the children, each of which runs work(rank, context) and exits with its result.
 * Signals that ask to stop are passed on to the children. Children are killed when this process ends. If a
 * rank fails, the other ranks have 5 seconds to end by themselves, or 1 second if the rank was killed. Prints
 * which rank was killed or, if none was, the message that the ranks left (p4d_rank_error_final).
 *
 * Returns the exit status of the whole run. It is 0 if all ranks returned 0. Otherwise it is the first status
 * that is not P4D_E_RANK, because P4D_E_RANK only says that another rank failed. Errors: RANK if it cannot
 * fork.
 */
typedef int (*p4d_local_work)(uint32_t rank, void *context);
int p4d_local_ranks(uint32_t count, p4d_local_work work, void *context, p4d_error *err);
