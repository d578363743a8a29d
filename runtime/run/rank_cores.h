/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Cores that a rank may use by itself, at least 1: those that the process may run on, as its mask and its
 * cgroup's quota say (of a job's step or a container), over the ranks that share them. ranks: of this host.
 * forked: they share the mask; else they do where it is all that Slurm gave the job on this node
 * (SLURM_CPUS_ON_NODE), and have a mask each where it is less.
 */
uint32_t p4d_rank_cores(uint32_t ranks, bool forked);

/*
 * Threads of a rank while others use its cores, too. Where a thread waits for a core at every barrier, a team
 * is slower than one thread and takes more time of processors. From step to step: how long the main thread
 * waited for a core.
 */
typedef struct p4d_cores_now {
	uint32_t most, now; /* threads; most 0: they do not change */
	double waited;      /* seconds, up to the last step; below 0: the kernel does not say */
} p4d_cores_now;

/* How many to begin with: one if the process waited for a core until now. */
uint32_t p4d_cores_begin(p4d_cores_now *cores, uint32_t most);
/* After a step of so many seconds: true if `now` has changed. */
bool p4d_cores_follow(p4d_cores_now *cores, double seconds);
/* The same, of seconds that the main thread waited up to now. */
bool p4d_cores_decide(p4d_cores_now *cores, double seconds, double waited);
