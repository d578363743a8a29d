/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Number of cores for a rank, at least 1: the cores that the process may use, divided by the number of ranks
 * that share them. Its affinity mask and its cgroup's quota (of a job step or a container) limit these cores.
 * ranks: number of ranks on this host. forked: the ranks share one mask. If they are not forked, they share
 * the mask if it has all cores that Slurm gave the job on this node (SLURM_CPUS_ON_NODE). If it has fewer,
 * each rank has its own mask.
 */
uint32_t p4d_rank_cores(uint32_t ranks, bool forked);

/*
 * Adapts the number of a rank's threads if other processes use its cores as well. If threads wait for a core
 * at every barrier, several threads are slower than one and use more processor time. So this measures in each
 * step how long the main thread waited for a core.
 */
typedef struct p4d_cores_now {
	uint32_t most, now; /* number of threads; most 0: it does not change */
	/*
	 * seconds that the main thread has waited for a core, up to the last step; below 0: the kernel does
	 * not tell
	 */
	double waited;
} p4d_cores_now;

/* Returns the first number of threads: 1 if the process has waited for a core so far, otherwise `most`. */
uint32_t p4d_cores_begin(p4d_cores_now *cores, uint32_t most);
/* Call it after a step of this many seconds: true if `now` has changed. */
bool p4d_cores_follow(p4d_cores_now *cores, double seconds);
/*
 * Like p4d_cores_follow, but the caller says how many seconds the main thread has waited so far. For tests.
 */
bool p4d_cores_decide(p4d_cores_now *cores, double seconds, double waited);
