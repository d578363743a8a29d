/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cost/cost.h"
#include "plan/stage_memory.h"
#include "schedule/schedule.h"
#include "timeline/timeline.h"

/* The simulated step of `p4d simulate`: every instruction with its time, and the memory of each stage. */

/* The simulation of one stage. */
typedef struct p4d_simulated {
	p4d_stage memory;
	p4d_slots peak; /* largest number of occupied slots along the instruction list */
	uint64_t activation_bytes,
	    vocabulary_bytes; /* bytes of one activation slot, and of one vocabulary slot */
	uint64_t base_bytes;  /* bytes on the device during the passes, while no slot is occupied */
	uint64_t step_bytes;  /* bytes on the device during the optimizer's step; base_bytes if that is not
				 modelled */
	uint64_t passes;      /* number of passes of micro-batches: forward, backward, vocabulary */
	double busy;          /* fraction of the step in which the stage works */
} p4d_simulated;

typedef struct p4d_simulation {
	const p4d_layout *layout;
	p4d_schedule schedule;
	bool timed; /* true: times are in seconds. false: the forward pass of an average chunk takes 1, and
		     * its backward pass 2. */
	p4d_durations durations;
	double *storage;             /* memory in which the lists' durations are stored */
	p4d_instruction_list *lists; /* instruction lists of all stages */
	p4d_timeline timeline;
	p4d_step step;        /* valid if timed */
	p4d_simulated *stage; /* one entry for each stage */
} p4d_simulation;

enum { P4D_MOST_PASSES = 1 << 22 }; /* maximum number of passes in all stages together; p4d refuses more */

/*
 * Makes the instruction lists of a layout, times them and simulates a step; gpu may be NULL. Free it with
 * p4d_simulation_free, also after a failure. Errors: NO_MEMORY; VALUE if the step has more than
 * P4D_MOST_PASSES passes; OVERFLOW.
 */
int p4d_simulation_run(const p4d_layout *layout, int method, const p4d_gpu *gpu, p4d_simulation *simulation,
		       p4d_error *err);
void p4d_simulation_free(p4d_simulation *simulation);

/*
 * Writes the passes to a file in p4d_trace's form. If times are not in seconds, one unit is written as a
 * millisecond. Errors: IO, NO_MEMORY.
 */
int p4d_simulation_trace(const p4d_simulation *simulation, const char *path, p4d_error *err);

/* The slots of a stage that are occupied, updated instruction by instruction. */
typedef struct p4d_live {
	p4d_slots now;
	bool *taken; /* for each activation slot, whether it is occupied; owned */
} p4d_live;

/* Errors: NO_MEMORY. Free with p4d_simulation__live_free. */
int p4d_simulation__live_begin(p4d_live *live, const p4d_instruction_list *list, p4d_error *err);
/* Occupies the slots of an instruction before it runs. */
void p4d_simulation__live_take(p4d_live *live, const p4d_instruction *instruction);
/* Frees the slots of an instruction after it ran. */
void p4d_simulation__live_release(p4d_live *live, const p4d_instruction *instruction);
void p4d_simulation__live_free(p4d_live *live);

/* Bytes on the device of a stage while these slots are occupied. */
uint64_t p4d_simulation__bytes(const p4d_simulated *stage, const p4d_slots *now);
