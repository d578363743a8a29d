/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/player.h"

/* What is printed while a rank is played. Zero before each rank. */
typedef struct p4d_played_progress {
	char last[160];
	double next; /* seconds after the rank's start when it looks again */
} p4d_played_progress;

/* Prints step, phase and memory to stderr when they changed, in one line of a terminal. */
void p4d_played_progress__look(p4d_played_progress *progress, const p4d_player *player,
			       const p4d_played *played);
/* Leaves the terminal's line. */
void p4d_played_progress__end(p4d_played_progress *progress, const p4d_player *player);

/* Prints the last lines that the program wrote to stderr. */
void p4d_played_progress__print_output(const p4d_player *player, uint64_t rank);
