/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Cores that a rank may use for itself, at least 1: the cores of the process, by its mask and its cgroup's
 * quota (of a job's step or a container), divided by the ranks that share them. ranks: those of this host.
 * forked: they share the mask; otherwise they share it if it is everything that Slurm gave the job on this
 * node (SLURM_CPUS_ON_NODE), and have a mask each if it is less.
 */
uint32_t p4d_rank_cores(uint32_t ranks, bool forked);

/*
 * Threads of a rank if others use its cores as well. If a thread waits for a core at every barrier, a team is
 * slower than one thread and takes more processor time. Measured from step to step: how long the main thread
 * waited for a core.
 */
typedef struct p4d_cores_now {
	uint32_t most, now; /* threads; most 0: they do not change */
	double waited;      /* seconds, up to the last step; below 0: the kernel does not say */
} p4d_cores_now;

/* How many to begin with: one if the process waited for a core until now. */
uint32_t p4d_cores_begin(p4d_cores_now *cores, uint32_t most);
/* Call it after a step of this many seconds: true if `now` has changed. */
bool p4d_cores_follow(p4d_cores_now *cores, double seconds);
/* The same, of seconds that the main thread waited up to now. */
bool p4d_cores_decide(p4d_cores_now *cores, double seconds, double waited);
