/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_HOST_MEMORY_H
#define P4D_HOST_MEMORY_H

#include <stdint.h>

#include "error.h"

/*
 * Bytes that the processes of this job may use on this host: the least of the machine's memory and the limits
 * of the control groups that hold this process (versions 1 and 2; Slurm makes one for each job and step).
 * root: "" for the machine, a directory in tests. Errors: IO when not even the machine's memory is known.
 */
int p4d_host_memory(const char *root, uint64_t *bytes, p4d_error *err);

/*
 * What this process has in memory, as the kernel counts it (VmHWM, RssFile); 0 unknown. Memory that ranks of
 * a node share counts for each of them. Allocates nothing.
 */
typedef struct p4d_process_memory {
	uint64_t peak;   /* the most it ever had */
	uint64_t mapped; /* of what it has now, files: the program and its data, which make room when others
			    need it */
} p4d_process_memory;
p4d_process_memory p4d_memory_of_process(void);

#endif
