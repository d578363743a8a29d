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
