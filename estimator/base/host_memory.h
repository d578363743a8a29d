/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Bytes of host memory that this job's processes may use: the minimum of the machine's memory and the limits
 * of the cgroups that contain this process (cgroup versions 1 and 2). Slurm makes a cgroup for each job and
 * step. root: "" for the machine, a directory in tests. Errors: IO if even the machine's memory is unknown.
 */
int p4d_host_memory(const char *root, uint64_t *bytes, p4d_error *err);

/*
 * The peak resident memory of this process (VmHWM). Memory that ranks of a node share counts for each rank.
 * 0: unknown. Allocates no memory.
 */
uint64_t p4d_host_memory_peak(void);
/*
 * The file-backed part of this process's present memory, which the kernel can reclaim (RssFile). 0: unknown.
 * Allocates no memory.
 */
uint64_t p4d_host_memory_mapped(void);
