/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

enum { MAX_WAYS = 40 };

/* One aspect of a job: this many of a hundred jobs have it, in one of these ways. */
typedef struct aspect {
	unsigned percent;
	const char *ways[MAX_WAYS];
} aspect;

typedef struct aspect_list {
	size_t count;
	const aspect *at;
} aspect_list;

/* Options of sbatch, p4d's, lines of a script, and of ones that have the arguments of Megatron-LM, or of
 * another program. */
extern const aspect_list slurm_aspects, p4d_aspects, body_aspects, megatron_aspects, program_aspects;
/* Options of p4d next to a script that has all values: they agree, contradict, or add what it leaves open. */
extern const aspect_list typed_aspects;
