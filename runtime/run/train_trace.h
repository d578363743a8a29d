/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "trainer/trainer.h"

/* --trace FILE[,STEP]: the times of one step's passes, on all ranks. Zero before use. */
typedef struct p4d_train_trace {
	char path[4096];
	uint64_t step;   /* number of the step; 0: none */
	p4d_span *spans; /* spans of this rank's instructions; owned */
} p4d_train_trace;

/*
 * text: the option's value. The steps of this run are first to last. Without STEP it traces the second of
 * these steps, because the first one also warms up. Errors: USAGE (no such step), NO_MEMORY.
 */
int p4d_train_trace_open(p4d_train_trace *trace, const char *text, uint64_t first, uint64_t last,
			 const p4d_trainer *trainer, p4d_error *err);
void p4d_train_trace_close(p4d_train_trace *trace);

/*
 * Call these before and after each step. In the traced step all ranks meet, and rank 0 writes the file.
 * Errors: IO, NO_MEMORY, RANK.
 */
int p4d_train_trace_begin(p4d_train_trace *trace, uint64_t step, p4d_trainer *trainer, p4d_group *all,
			  p4d_error *err);
int p4d_train_trace_end(p4d_train_trace *trace, uint64_t step, p4d_trainer *trainer, const p4d_layout *layout,
			p4d_group *all, p4d_error *err);
