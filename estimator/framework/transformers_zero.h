/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layers.h"

/*
 * Gradients with ZeRO 1 and 2 (DeepSpeed 0.19's stage_1_and_2.py). All trained parameters are one sequence,
 * cut into as many equal windows as there are ranks, wherever that falls. Gradients are reduced in buckets;
 * of what was reduced a rank keeps those of its window, all of each parameter of which it has a part
 * (copy_grads_in_partition), from the bucket on that has the first of these: room for all at once. So ranks
 * hold different amounts, at different times; what is counted is the most of any rank.
 */

/* Parameters of a layer, or of an end of the model, from its end on; the first `feed` are its feed-forward
 * part's. */
enum { P4D_ZERO_LIST = 16 };
typedef struct p4d_zero_list {
	unsigned count, feed;
	uint64_t elements[P4D_ZERO_LIST];
} p4d_zero_list;

/* A place in the sequence: from its end on, or, upwards, from its beginning. */
typedef struct p4d_zero_cursor {
	const p4d_zero_list *list;
	uint64_t segment; /* the end, layers, the beginning */
	unsigned at;
	bool upwards;
} p4d_zero_cursor;

/* A walk along the sequence and the windows that it passes; in elements. */
typedef struct p4d_zero_windows {
	p4d_zero_cursor cursor;
	uint64_t at, edge;       /* where the walk is; where the window that it is in ends */
	uint64_t begun, touched; /* from the window's first parameter on: its start, and all elements */
	uint64_t slice;          /* the largest part of a parameter in it */
	uint64_t most;           /* the largest of any window, among those that the walk has passed */
	uint64_t update;         /* most bytes that a rank's update holds in addition to its states */
} p4d_zero_windows;

typedef struct p4d_zero {
	const p4d_layout *layout; /* NULL: nothing of this */
	unsigned element;         /* bytes */
	uint64_t share;           /* elements of a window */
	uint64_t most;            /* the largest of any rank, if micro-batches leave it */
	p4d_zero_list of[P4D_MIXERS * P4D_FEEDS], begin, end;
	p4d_zero_cursor now;    /* its list is NULL where adapters alone are trained */
	p4d_zero_windows ahead; /* windows of the reduced part */
	uint64_t reduced, waiting,
	    largest;       /* elements: that reached the bucket, that are in it, and the largest */
	uint64_t boundary; /* where the window ends in which what waits begins */
	uint64_t group;    /* elements of whole windows that are reduced at once */
	uint64_t kept;     /* elements that some rank keeps */
} p4d_zero;

/* Parts of the model whose gradients are there. */
typedef enum p4d_zero_part { P4D_ZERO_END, P4D_ZERO_FEED, P4D_ZERO_MIXER, P4D_ZERO_BEGIN } p4d_zero_part;

/* Parameters of a layer. */
p4d_zero_list p4d_transformers__parameters_of(const p4d_layout *layout, unsigned kind);

/* trained: parameters; element: bytes of a gradient. Time: linear in the layers. */
void p4d_transformers__zero_start(p4d_zero *zero, const p4d_layout *layout, uint64_t trained,
				  unsigned element);
/* Whether gradients reach the bucket as soon as they exist, and stage 1 has none of earlier micro-batches. */
static inline bool p4d_transformers__zero_grows(const p4d_layout *l)
{
	return l->zero_stage == 1 && l->overlap_dp && l->micro_batches == 1;
}
/* Bytes that micro-batches before the last one have left. */
uint64_t p4d_transformers__zero_left(const p4d_zero *zero);
