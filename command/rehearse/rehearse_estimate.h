/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/playing.h"
#include "rehearse/rehearse_answer.h"

/*
 * What p4d's own formulas say of the program that was rehearsed, from its command line, as sbatch would judge
 * it on these GPUs: the peak on the fullest GPU, or what an engine has for keys and values. 0: p4d does not
 * know the program, or not all of it.
 */
p4d_rehearse_estimate p4d_rehearse_estimate__find(const p4d_playing *p);

/* The first rank of the pipeline stage that holds most by the same formulas; 0: not known, or the first. */
uint64_t p4d_rehearse_estimate__fullest(const p4d_playing *p);
