/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A p4d-train with --local-ranks, as a child of the test. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LAUNCHED_RANKS = 8 };

typedef struct launched {
	pid_t pid, rank[LAUNCHED_RANKS];
	uint32_t ranks; /* how many of them were seen */
	bool ended;
	int status; /* from waitpid, once it has ended */
} launched;

double launched_now(void); /* CLOCK_MONOTONIC, in seconds */
void launched_sleep(double seconds);

/* Starts argv[0] with its output going to two files, which are emptied first. */
void launched_start(launched *l, char *const argv[], const char *output, const char *errors);
/* Waits until all its ranks are there. False: it ended before. */
bool launched_wait_ranks(launched *l, uint32_t ranks);
/* Has it ended? Does not wait. */
bool launched_ended(launched *l);
/* Waits until it and all ranks that were seen are gone. False: some are still there after this many seconds.
 */
bool launched_gone(launched *l, double seconds);
/* Exit status as in a shell: 137 after SIGKILL, or if it exits with that status. */
int launched_status(const launched *l);
