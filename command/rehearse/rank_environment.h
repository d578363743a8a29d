/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/player.h"

/*
 * Sets the environment of RANK: the command's variables, those of its launcher (torchrun, deepspeed, srun,
 * mpirun), and those of the rehearsal. Called in the child, before the program starts. -1: no memory.
 */
int p4d_rank_environment__set(const p4d_player *player, uint64_t rank);
