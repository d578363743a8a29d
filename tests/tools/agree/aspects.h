/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

enum { MAX_WAYS = 40 };

/* An aspect that a job may have, such as a number of nodes. percent: how many of a hundred jobs have it.
 * Each of the ways is one possibility. */
typedef struct aspect {
	unsigned percent;
	const char *ways[MAX_WAYS];
} aspect;

typedef struct aspect_list {
	size_t count;
	const aspect *at;
} aspect_list;

/* In this order: options of sbatch, options of p4d, lines of a script without training arguments, lines of
 * a script for Megatron-LM, lines of a script for another program. */
extern const aspect_list slurm_aspects, p4d_aspects, body_aspects, megatron_aspects, program_aspects;
/* Options of p4d for a script that already has all values: options that agree with the script, contradict
 * it, or add values that the script leaves out. */
extern const aspect_list typed_aspects;
