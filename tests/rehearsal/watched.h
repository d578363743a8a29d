/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the files that doubles/standins/watch.h describes, from a run of p4d-train. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

enum { WATCHED_MOMENTS = 16, WATCHED_COMMS = 16, WATCHED_TEXT = 160 };

typedef struct watched_moment {
	uint64_t bytes; /* bytes of the GPU that are in use */
	uint64_t count[P4D_REPORT_COUNTS];
	size_t calls; /* number of NCCL calls before it */
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
	unsigned narrowest, widest; /* numbers of multiprocessors of matmuls that are limited: the smallest
				     * and the largest; 0: no matmul is */
	bool ended;                 /* the last moment is the end of the process */
	watched_moment moment[WATCHED_MOMENTS];
	watched_comm comm[WATCHED_COMMS];
	watched_call *call; /* allocated by malloc */
	size_t calls, room;
} watched_rank;

/* Reads the file of a rank. False: the file does not exist, or has another form. */
bool watched_read(watched_rank *rank, const char *path);
void watched_free(watched_rank *rank);

/* How much a count grew in step `step` (1 is the first). The file has these moments: before the arena,
 * before step 1, after each step, at the report, and at the end. */
uint64_t watched_grown(const watched_rank *rank, unsigned step, int count);

/* Rules for every run. If a run breaks one, the function writes the reason to `why` and returns false. */

/*
 * No step allocates, creates or destroys anything, asks a library for an algorithm, or makes the host wait in
 * a call.
 */
bool watched_still(const watched_rank *rank, unsigned steps, char why[WATCHED_TEXT]);
/*
 * All steps from `first` on have the same calls of NCCL, and from the second on the same launches, products
 * and copies.
 */
bool watched_alike(const watched_rank *rank, unsigned first, unsigned steps, char why[WATCHED_TEXT]);
/* At the end, the program has freed everything that it allocated. */
bool watched_freed(const watched_rank *rank, char why[WATCHED_TEXT]);
/* The program has made each kind of a step's NCCL calls before the first step, with at least as many
 * bytes. So NCCL neither connects nor allocates anything during steps. */
bool watched_known(const watched_rank *rank, unsigned steps, char why[WATCHED_TEXT]);
/* All members of a communicator make the same calls in the same order. Each send has a receive. */
bool watched_agree(const watched_rank *ranks, unsigned count, char why[WATCHED_TEXT]);
