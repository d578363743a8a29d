/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/read_finetune.h"

/* Arguments that programs for reinforcement learning share. Only read_*.c include this file. A parameter
 * of type int is an index into p4d_reading.extra. */

/* Words for inference engines. */
extern const char *const p4d_reinforcement__engines[];

/*
 * Sets the sequence length: a prompt and its response. otherwise: the program's defaults for both; 0: no
 * default.
 */
void p4d_reinforcement__put_length(p4d_reading *r, int prompt, int response, const uint64_t otherwise[2]);
/* Sets which tensors move to the host while other models use the GPU. params, optimizer: extra values,
 * "on" if these tensors move. */
void p4d_reinforcement__put_swap(p4d_reading *r, int params, int optimizer);
/* Sets that there is a critic if the advantage estimator learns values, as in PPO. */
void p4d_reinforcement__put_critic(p4d_reading *r, int estimator);
/*
 * Sets packing of sequences up to a number of tokens per rank. otherwise: the program's default. shared:
 * options whose ranks share a sequence; ends with P4D_OPTIONS.
 */
void p4d_reinforcement__put_packed(p4d_reading *r, int packs, int most, uint64_t otherwise,
				   const p4d_option *shared);
/* Warns about a reward model, because each GPU then holds more than p4d counts. model: the extra value
 * that is "on" if there is a reward model. */
void p4d_reinforcement__put_reward(p4d_reading *r, int model);
/* Sets adapters from their rank; rank 0 means none. */
void p4d_reinforcement__finish_rank(p4d_reading *r);

/* Arguments for the engines of TRL and swift, which generate the training data, and the options that
 * follow from them. Call it after p4d_finetune__finish. */
typedef struct p4d_reinforcement_defaults {
	const char *utilization;     /* fraction of the GPU's memory */
	uint64_t prompt, completion; /* tokens; 0: no limit */
	bool refers;                 /* true: there is a frozen copy unless --beta is 0 */
} p4d_reinforcement_defaults;

extern const p4d_read_argument p4d_reinforcement__engine[];
void p4d_reinforcement__finish(p4d_reading *reading, const p4d_reinforcement_defaults *defaults);
