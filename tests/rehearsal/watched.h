/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What doubles/standins/watch.h wrote of a run of p4d-train. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

enum { WATCHED_MOMENTS = 16, WATCHED_COMMS = 16, WATCHED_TEXT = 160 };

typedef struct watched_moment {
	uint64_t bytes; /* of the GPU, in use */
	uint64_t count[P4D_REPORT_COUNTS];
	size_t calls; /* of NCCL before it */
} watched_moment;

typedef struct watched_comm {
	char handle[24], id[128];
	int ranks, rank;
} watched_comm;

typedef struct watched_call {
	unsigned comm; /* index into `comm` */
	char operation[24];
	uint64_t bytes;
	int peer;
} watched_call;

typedef struct watched_rank {
	unsigned moments, comms;
	unsigned narrowest, widest; /* multiprocessors of products that do not take all; 0: none */
	bool ended;                 /* the last moment is the end of the process */
	watched_moment moment[WATCHED_MOMENTS];
	watched_comm comm[WATCHED_COMMS];
	watched_call *call; /* malloc */
	size_t calls, room;
} watched_rank;

/* Reads the file of a rank. False: it is not there, or no such file. */
bool watched_read(watched_rank *rank, const char *path);
void watched_free(watched_rank *rank);

/* What step `step`, from 1, counted. The moments: before the arena is taken, before step 1, after each step,
 * the report, the end. */
uint64_t watched_grown(const watched_rank *rank, unsigned step, int count);

/* Rules that no run may break. Each fills `why` and returns false where it is broken. */

/* In no step is anything allocated, created, destroyed or asked of a library, nor waits the host in a call.
 */
bool watched_still(const watched_rank *rank, unsigned steps, char why[WATCHED_TEXT]);
/* All steps have the same calls of NCCL, and from the second on the same launches, products and copies. */
bool watched_alike(const watched_rank *rank, unsigned steps, char why[WATCHED_TEXT]);
/* At the end everything that was taken was given back. */
bool watched_freed(const watched_rank *rank, char why[WATCHED_TEXT]);
/* What steps ask NCCL for was asked before the first, with at least as many bytes: so NCCL connects and
 * allocates nothing in steps. */
bool watched_known(const watched_rank *rank, unsigned steps, char why[WATCHED_TEXT]);
/* All members of a communicator make the same calls in the same order; what one sends the other receives. */
bool watched_agree(const watched_rank *ranks, unsigned count, char why[WATCHED_TEXT]);
