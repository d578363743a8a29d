/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "request/request.h"

/*
 * Which of p4d's options this sbatch, salloc or srun may name, in its words and its script. Slurm builds its
 * table of options three times per sbatch, in a way that takes longer with the square of their number: with
 * all of p4d's, every job of the cluster paid for them, also one without any.
 *
 * Sets named[] and returns true; more than are really named do no harm. False: it cannot be told, or this
 * program lists options, so that all have to be there. --help lists the usual ones.
 */
bool p4d_spank_named(bool named[P4D_OPTIONS]);
