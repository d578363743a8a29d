/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ranks of a world as child processes of the test. Each runs a function and exits with its result. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "comm/comm.h"

enum { FORKED_MOST = 16, FORKED_WRONG = 99 };

/* The end of a rank, in memory shared by parent and children. */
typedef struct forked_end {
	p4d_error err;
	double opened, ended; /* times by CLOCK_MONOTONIC */
} forked_end;

typedef struct forked {
	p4d_ranks ranks; /* a test may change this before forked_start */
	const uint32_t *nodes;
	pid_t pids[FORKED_MOST];
	int status[FORKED_MOST]; /* the status from waitpid */
	forked_end *ends;
	/* called with each rank's settings before the rank joins; NULL: settings stay unchanged */
	void (*change)(p4d_ranks *ranks);
} forked;

/* The work of a rank. Returns 0, or the error of a p4d_* function; *err is then stored in `ends`. */
typedef int (*forked_work)(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err);

void forked_init(forked *f, uint32_t size, const uint32_t *nodes);
/* Starts one rank or all ranks. If a rank cannot join, it stores its error in `ends` and exits with 1. */
void forked_rank(forked *f, uint32_t rank, forked_work work);
void forked_start(forked *f, forked_work work);
/* Waits for all ranks. After `seconds`, kills those that still run and returns false. */
bool forked_finish(forked *f, double seconds);
/* Whether all ranks ended with 0; prints those that did not. */
bool forked_all_well(const forked *f);

double forked_now(void);

/* Assertions for children. cmocka's assertions work only in the parent. */
#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: pid %d: %s\n", __FILE__, __LINE__, (int)getpid(), #what); \
			_exit(FORKED_WRONG); \
		} \
	} while (0)
#define TRY(call) \
	do { \
		if ((call) < 0) \
			return -1; \
	} while (0)

/* A small random number generator, the same on every machine. */
static inline uint32_t forked_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}
