/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Bytes that kernels move to and from one range of memory. The kernels are compiled for the host, with each
 * access reported as for the thread sanitizer. The range is the GPU's memory, so neither shared memory nor a
 * thread's registers count.
 */
#ifdef __cplusplus
extern "C" {
#endif

enum { TRAFFIC_NAME = 96, TRAFFIC_LAUNCHES = 16 };

typedef struct traffic {
	char name[TRAFFIC_NAME]; /* of the kernel, as c++filt prints it: norm_rows<p4d_bf16,8> */
	uint64_t asked;          /* by all threads */
	uint64_t blocks;         /* once by each block: by what a perfect L1 cache leaves */
	uint64_t least;          /* once by all: each byte that is read, and each that is written */
} traffic;

/* Counts accesses of these bytes from now on; none: stops. */
void traffic_watch(const void *from, uint64_t bytes);
/* Launches since they were last taken, in order. */
unsigned traffic_take(traffic (*launches)[TRAFFIC_LAUNCHES]);

#ifdef __cplusplus
}
#endif
