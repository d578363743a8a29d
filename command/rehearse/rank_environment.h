/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/player.h"

/*
 * Sets what RANK finds in its environment: the command's variables, those of what starts it (torchrun,
 * deepspeed, srun, mpirun), and those of the rehearsal. In the child, before the program. -1: no memory.
 */
int p4d_rank_environment__set(const p4d_player *player, uint64_t rank);
