/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/playing.h"
#include "rehearse/rehearse_answer.h"

/*
 * The prediction of p4d's formulas for the command line of the rehearsed program, as in sbatch's verdict
 * for these GPUs. It is the peak of the GPU that needs the most, or the memory of an engine's KV cache. 0:
 * p4d does not know the program, or not all of its values.
 */
p4d_rehearse_estimate p4d_rehearse_estimate__find(const p4d_playing *p);

/* The first rank of the pipeline stage that needs the most memory by p4d's formulas; 0: unknown, or the
 * first stage. */
uint64_t p4d_rehearse_estimate__fullest(const p4d_playing *p);
