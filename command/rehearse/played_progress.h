/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/player.h"

/* Prints progress while a rank runs. Zero before each rank. */
typedef struct p4d_played_progress {
	char last[160];
	double next; /* the rank's files are read again at this time, in seconds after the rank's start */
} p4d_played_progress;

/* Prints step, phase and memory to stderr if they changed. On a terminal it uses a single line. */
void p4d_played_progress__look(p4d_played_progress *progress, const p4d_player *player,
			       const p4d_played *played);
/* Ends the terminal's line. */
void p4d_played_progress__end(p4d_played_progress *progress, const p4d_player *player);

/* Prints the last lines that the program wrote to stderr. */
void p4d_played_progress__print_output(const p4d_player *player, uint64_t rank);
