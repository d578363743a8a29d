/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A GPU's memory over time, by kind of tensor. The struct owns nothing. */

/* The order in which bands are drawn, from the bottom to the top. */
typedef enum p4d_history_band {
	P4D_HISTORY_CONTEXT,
	P4D_HISTORY_PARAMETERS,
	P4D_HISTORY_GRADIENTS,
	P4D_HISTORY_OPTIMIZER,
	P4D_HISTORY_ACTIVATIONS,
	P4D_HISTORY_LOGITS,
	P4D_HISTORY_COMMUNICATION,
	P4D_HISTORY_OTHER,
	P4D_HISTORY_BANDS,
} p4d_history_band;

typedef struct p4d_history_moment {
	double event;                             /* number of the allocation event at this moment */
	double reserved, band[P4D_HISTORY_BANDS]; /* bytes; both reserved and band include the CUDA context */
} p4d_history_moment;

typedef struct p4d_history_phase {
	const char *name;
	uint64_t step;
	double begins, ends; /* numbers of allocation events */
} p4d_history_phase;

typedef struct p4d_history {
	const char *title, *subtitle;
	const p4d_history_moment *moment;
	size_t moments; /* at least 1 */
	const p4d_history_phase *phase;
	size_t phases;       /* at least 1; the first begins at event 0 */
	double events, peak; /* number of events, and number of the event at the peak */
	uint64_t allocated, device,
	    capacity; /* in bytes: peak of allocated memory, peak of all memory held, and capacity */
} p4d_history;

/* The band for a kind's name, such as "optimizer"; P4D_HISTORY_OTHER for any other name. */
p4d_history_band p4d_history_band_of(const char *kind);

/*
 * Draws the bands as stacked areas over time, with the reserved memory and the peak. The GPU's capacity is a
 * line, unless it is far above the areas. Errors: IO, NO_MEMORY.
 */
int p4d_history_draw(const p4d_history *history, const char *path, p4d_error *err);
