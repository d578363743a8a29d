/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "rehearse/player.h"
#include "rehearse/words.h"

/* The job's nodes, and what starts its ranks. 0: not known. */
typedef struct p4d_rehearse_ranks {
	uint64_t nodes, gpus_per_node;
	uint64_t tasks, tasks_per_node, gpus_per_task; /* defaults for srun, if its options do not say */
	bool is_typed; /* nodes or gpus_per_node stand on the command line of p4d rehearse */
	/* out */
	uint64_t ranks_per_node;
	uint64_t visible; /* GPUs that a rank sees */
	unsigned started; /* P4D_STARTED_* */
} p4d_rehearse_ranks;

/*
 * Takes srun, torchrun, deepspeed and mpirun off a command: *words becomes what one rank runs, and *ranks
 * says how many there are. Launchers that only Python understands (accelerate launch) stay. Errors:
 * UNMODELLED for containers and launchers that are not played, USAGE.
 */
int p4d_launch__ranks(p4d_words *words, p4d_rehearse_ranks *ranks, p4d_error *err);
