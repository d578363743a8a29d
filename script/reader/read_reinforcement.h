/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/read_finetune.h"

/* What programs for reinforcement learning say alike; for read_*.c only. Their own values are extra ones. */

/* Words of engines' names. */
extern const char *const p4d_reinforcement__engines[];

/* A prompt and what is generated are one sequence; otherwise: what the program takes of each, 0: it does not
 * say. */
void p4d_reinforcement__put_length(p4d_reading *r, int prompt, int response, const uint64_t otherwise[2]);
/* What goes to the host while others use the GPU. */
void p4d_reinforcement__put_swap(p4d_reading *r, int params, int optimizer);
/* An estimator of advantages that learns values, as PPO's does, has a critic. */
void p4d_reinforcement__put_critic(p4d_reading *r, int estimator);
/* Sequences are packed up to so many tokens of each rank; otherwise: what the program takes. shared: degrees
 * of ranks that have a sequence together, up to P4D_OPTIONS. */
void p4d_reinforcement__put_packed(p4d_reading *r, int packs, int most, uint64_t otherwise,
				   const p4d_option *shared);
/* Adapters, of which a rank of 0 is none. */
void p4d_reinforcement__finish_rank(p4d_reading *r);

/* Arguments of TRL's and swift's engines, which generate what the model learns from, and what follows of
 * them: behind p4d_finetune__finish. */
typedef struct p4d_reinforcement_defaults {
	const char *utilization;     /* of the GPU's memory */
	uint64_t prompt, completion; /* tokens; 0: it takes any */
	bool refers;                 /* to a frozen copy, unless --beta is 0 */
} p4d_reinforcement_defaults;

extern const p4d_read_argument p4d_reinforcement__engine[];
void p4d_reinforcement__finish(p4d_reading *reading, const p4d_reinforcement_defaults *defaults);
