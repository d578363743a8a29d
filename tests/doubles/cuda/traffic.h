/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Counts bytes that kernels move to and from one range of memory. The compiler adds a call to each memory
 * access of the kernels, as for the thread sanitizer. The range is in the GPU's memory, so accesses to
 * shared memory and registers do not count.
 */
#ifdef __cplusplus
extern "C" {
#endif

enum { TRAFFIC_NAME = 96, TRAFFIC_LAUNCHES = 16 };

typedef struct traffic {
	char name[TRAFFIC_NAME]; /* name of the kernel as c++filt prints it: norm_rows<p4d_bf16,8> */
	uint64_t asked;          /* bytes that all threads access, with repetitions */
	uint64_t blocks;         /* each byte counted once per block, as with a perfect L1 cache */
	uint64_t least;          /* each byte counted once if it is read, and once if it is written */
} traffic;

/* Counts accesses of these bytes from now on; 0 bytes: stops. */
void traffic_watch(const void *from, uint64_t bytes);
/* Returns the launches since the last call, in order. */
unsigned traffic_take(traffic (*launches)[TRAFFIC_LAUNCHES]);

#ifdef __cplusplus
}
#endif
