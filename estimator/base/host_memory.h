/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/*
 * Bytes that the processes of this job may use on this host: the least of the machine's memory and the limits
 * of the control groups that hold this process (versions 1 and 2; Slurm makes one for each job and step).
 * root: "" for the machine, a directory in tests. Errors: IO when not even the machine's memory is known.
 */
int p4d_host_memory(const char *root, uint64_t *bytes, p4d_error *err);

/*
 * The peak resident memory of this process, and the part of the present memory that is file-backed, which the
 * kernel can reclaim. As the kernel counts it (VmHWM, RssFile): memory that ranks of a node share counts for
 * each of them. 0 unknown. Neither allocates memory.
 */
uint64_t p4d_host_memory_peak(void);
uint64_t p4d_host_memory_mapped(void);
