/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Number of cores for a rank, at least 1: the cores of the process, by its mask and its cgroup's quota (of a
 * job's step or a container), divided by the ranks that share them. ranks: number on this host. forked: these
 * ranks share the mask. Otherwise, they share it if it has all cores that Slurm gave the job on this node
 * (SLURM_CPUS_ON_NODE); if it has fewer, each rank has its own mask.
 */
uint32_t p4d_rank_cores(uint32_t ranks, bool forked);

/*
 * Chooses the number of a rank's threads while other processes use its cores as well. If threads wait for a
 * core at every barrier, several threads are slower than one and use more processor time. From step to step
 * it measures how long the main thread waited for a core.
 */
typedef struct p4d_cores_now {
	uint32_t most, now; /* number of threads; most 0: it does not change */
	double waited; /* seconds that the main thread waited for a core until the last step; below 0: the
			  kernel does not tell */
} p4d_cores_now;

/* Returns the first number of threads: 1 if the process has waited for a core so far, otherwise `most`. */
uint32_t p4d_cores_begin(p4d_cores_now *cores, uint32_t most);
/* Call it after a step of this many seconds: true if `now` has changed. */
bool p4d_cores_follow(p4d_cores_now *cores, double seconds);
/* Does what p4d_cores_follow does, but the caller says how many seconds the main thread waited so far. */
bool p4d_cores_decide(p4d_cores_now *cores, double seconds, double waited);
