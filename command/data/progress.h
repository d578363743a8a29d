/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A progress bar on standard error; does nothing if that is no terminal. */
typedef struct p4d_progress {
	bool shown;
	const char *what;
	uint64_t total; /* total number of bytes; 0: unknown */
	double start, drawn;
} p4d_progress;

void p4d_progress__start(p4d_progress *progress, const char *what, uint64_t total);
/* done: bytes so far. Draws at most ten times a second. */
void p4d_progress__update(p4d_progress *progress, uint64_t done);
/* Removes the bar. */
void p4d_progress__end(p4d_progress *progress);
