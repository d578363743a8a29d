/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/read_finetune.h"

/* What programs for reinforcement learning say alike; for read_*.c only. Their own values are extra ones. */

/* Words of engines' names. */
extern const char *const p4d_reinforcement__engines[];

/* A prompt and its response make one sequence. otherwise: the program's defaults for both, 0: it has none. */
void p4d_reinforcement__put_length(p4d_reading *r, int prompt, int response, const uint64_t otherwise[2]);
/* What goes to the host while others use the GPU. */
void p4d_reinforcement__put_swap(p4d_reading *r, int params, int optimizer);
/* An estimator of advantages that learns values, as PPO's does, has a critic. */
void p4d_reinforcement__put_critic(p4d_reading *r, int estimator);
/* Sequences are packed up to a number of tokens per rank. otherwise: the program's default. shared: options
 * whose ranks share a sequence, up to P4D_OPTIONS. */
void p4d_reinforcement__put_packed(p4d_reading *r, int packs, int most, uint64_t otherwise,
				   const p4d_option *shared);
/* Adapters; a rank of 0 means none. */
void p4d_reinforcement__finish_rank(p4d_reading *r);

/* Arguments of the engines of TRL and swift, which generate the text that the model learns from, and what
 * follows from them. Call it after p4d_finetune__finish. */
typedef struct p4d_reinforcement_defaults {
	const char *utilization;     /* share of the GPU's memory */
	uint64_t prompt, completion; /* tokens; 0: it takes any */
	bool refers;                 /* compares with a frozen copy, unless --beta is 0 */
} p4d_reinforcement_defaults;

extern const p4d_read_argument p4d_reinforcement__engine[];
void p4d_reinforcement__finish(p4d_reading *reading, const p4d_reinforcement_defaults *defaults);
