/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/playing.h"
#include "rehearse/rehearse_answer.h"

/*
 * The prediction of p4d's own formulas for the rehearsed program, from its command line, as sbatch would
 * judge it on these GPUs: the peak on the fullest GPU, or an engine's memory for keys and values. 0: p4d does
 * not know the program, or not all of its values.
 */
p4d_rehearse_estimate p4d_rehearse_estimate__find(const p4d_playing *p);

/*
 * The first rank of the pipeline stage with the most memory, by the same formulas; 0: unknown, or the first
 * stage.
 */
uint64_t p4d_rehearse_estimate__fullest(const p4d_playing *p);
