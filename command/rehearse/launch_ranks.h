/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "rehearse/player.h"
#include "rehearse/words.h"

/* The job's nodes, and how its ranks are started. 0: unknown. */
typedef struct p4d_rehearse_ranks {
	uint64_t nodes, gpus_per_node;
	uint64_t tasks, tasks_per_node,
	    gpus_per_task; /* values that srun uses if its own options do not give them */
	bool is_typed;     /* the user typed --nodes or --gpus-per-node */
	/* filled by p4d_launch_ranks */
	uint64_t ranks_per_node;
	uint64_t visible; /* number of GPUs that a rank sees */
	unsigned started; /* P4D_STARTED_* */
} p4d_rehearse_ranks;

/*
 * Removes srun, torchrun, deepspeed and mpirun from a command: *words becomes the command of one rank, and
 * *ranks gets the number of ranks. Launchers that only Python can interpret (accelerate launch) stay. Errors:
 * UNMODELLED for containers and for launchers that p4d cannot replace; USAGE.
 */
int p4d_launch__ranks(p4d_words *words, p4d_rehearse_ranks *ranks, p4d_error *err);
