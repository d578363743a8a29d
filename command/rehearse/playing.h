/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "rehearse/read_command.h"
#include "rehearse/rehearse_options.h"
#include "rehearse/rehearsed.h"

/* A rehearsal, from its options to the results of its ranks. Zero before use, except `asked` and `site`. */
typedef struct p4d_playing {
	p4d_rehearse_options asked;
	p4d_site *site;
	p4d_player player;
	p4d_rehearsed *rehearsed; /* one result for each rank of `asked` */
	p4d_read_command job;
	p4d_words words; /* the command that each rank runs */
	p4d_words_memory memory;
	pid_t store;
	int launches; /* number of nested launchers that Python has reported */
} p4d_playing;

/* Finds the program, the GPU and the ranks. Errors: those of a job script and of GPUs. */
int p4d_playing__prepare(p4d_playing *p, p4d_error *err);

/* Rehearses the requested ranks. Errors: IO, JSON. */
int p4d_playing__play(p4d_playing *p, p4d_error *err);

/* Finds the words and variables of a rank, to run it again. Errors: those of a job script. */
int p4d_playing__take_rank(p4d_playing *p, uint64_t rank, p4d_error *err);

void p4d_playing__end(p4d_playing *p);
