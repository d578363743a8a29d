/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Number of cores for a rank, at least 1: the cores of the process, by its mask and its cgroup's quota (of a
 * job's step or a container), divided by the ranks that share them. ranks: number on this host. forked: they
 * share the mask. Otherwise, they share it if it is everything that Slurm gave the job on this node
 * (SLURM_CPUS_ON_NODE); if it is less, each has its own mask.
 */
uint32_t p4d_rank_cores(uint32_t ranks, bool forked);

/*
 * Number of a rank's threads if other processes use its cores as well. If a thread waits for a core at every
 * barrier, a team is slower than one thread and uses more processor time. Measured from step to step: how
 * long the main thread waited for a core.
 */
typedef struct p4d_cores_now {
	uint32_t most, now; /* number of threads; most 0: it does not change */
	double waited;      /* seconds, up to the last step; below 0: the kernel does not say */
} p4d_cores_now;

/* Number to begin with: one if the process has waited for a core so far. */
uint32_t p4d_cores_begin(p4d_cores_now *cores, uint32_t most);
/* Call it after a step of this many seconds: true if `now` has changed. */
bool p4d_cores_follow(p4d_cores_now *cores, double seconds);
/* Does what p4d_cores_follow does, but the caller says how many seconds the main thread waited so far. */
bool p4d_cores_decide(p4d_cores_now *cores, double seconds, double waited);
