/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

enum { MAX_WAYS = 40 };

/* One aspect of a job: so many jobs of a hundred have it, in one of these ways. */
typedef struct aspect {
	unsigned percent;
	const char *ways[MAX_WAYS];
} aspect;

typedef struct aspect_list {
	size_t count;
	const aspect *at;
} aspect_list;

/* Options of sbatch, p4d's, lines of a script, and of one that has the arguments of Megatron-LM itself. */
extern const aspect_list slurm_aspects, p4d_aspects, body_aspects, megatron_aspects;
