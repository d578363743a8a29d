/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "request/request.h"

/*
 * The p4d options that this sbatch, salloc or srun may name, on its command line and in its script. Slurm
 * builds its table of options three times per sbatch, in time that grows with the square of their number. If
 * p4d registered all of its options, every job of the cluster would pay for that, even without p4d options.
 *
 * Sets named[] and returns true. Naming too many options is harmless. False: it cannot tell, or this program
 * lists options, so that all of them are needed. --help lists the usual ones.
 */
bool p4d_spank_named(bool named[P4D_OPTIONS]);
