/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A p4d-train with --local-ranks, as a child of the test. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LAUNCHED_RANKS = 8 };

typedef struct launched {
	pid_t pid, rank[LAUNCHED_RANKS];
	uint32_t ranks; /* number of ranks that the test has seen */
	bool ended;
	int status; /* the status from waitpid, once the child has ended */
} launched;

double launched_now(void); /* CLOCK_MONOTONIC in seconds */
void launched_sleep(double seconds);

/* Starts argv[0], with its output in two files, which are truncated first. */
void launched_start(launched *l, char *const argv[], const char *output, const char *errors);
/* Waits until `ranks` ranks run. Returns false if p4d-train ended first. */
bool launched_wait_ranks(launched *l, uint32_t ranks);
/* Whether p4d-train has ended. Does not wait. */
bool launched_ended(launched *l);
/* Waits until p4d-train and all ranks that the test saw have ended. Returns false if one still runs after
 * `seconds`. */
bool launched_gone(launched *l, double seconds);
/* The exit status that a shell would give: 137 after SIGKILL. */
int launched_status(const launched *l);
