/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layers.h"

/*
 * Gradients with ZeRO 1 and 2 (DeepSpeed 0.19's stage_1_and_2.py). All trained parameters form one sequence,
 * which is cut into as many equal windows as there are ranks; a cut may be inside a parameter. Gradients are
 * reduced in buckets. From a reduced bucket, a rank keeps the gradients of each parameter that is at least
 * partly in its window (copy_grads_in_partition). It allocates them all together, when the first of them is
 * reduced. So ranks hold different amounts at different times; these functions compute the maximum over the
 * ranks.
 */

/* Numbers of parameters of a layer, or of one end of the model, in the order of the backward pass; the
 * first `feed` belong to the feed-forward part. */
enum { P4D_ZERO_LIST = 16 };
typedef struct p4d_zero_list {
	unsigned count, feed;
	uint64_t elements[P4D_ZERO_LIST];
} p4d_zero_list;

/*
 * A parameter of the model. `segment` and `at` count from the end of the model or, if `upwards` is set, from
 * its beginning.
 */
typedef struct p4d_zero_cursor {
	const p4d_zero_list *list;
	uint64_t segment; /* counted from the end or beginning where the cursor starts: 0 is that end, then
			     follow the layers and the other end */
	unsigned at;
	bool upwards;
} p4d_zero_cursor;

/* A walk through the windows of the sequence of parameters. Positions and sizes are in elements. */
typedef struct p4d_zero_windows {
	p4d_zero_cursor cursor;
	uint64_t at, edge;       /* position of the walk; end of the current window */
	uint64_t begun, touched; /* counted from the first parameter that reaches into the window: its start,
				    and the elements since then */
	uint64_t slice;          /* the largest part of a parameter inside the window */
	uint64_t most;           /* the maximum over the windows that the walk has passed */
	uint64_t update;         /* the most bytes that a rank's update needs in addition to its states */
} p4d_zero_windows;

typedef struct p4d_zero {
	const p4d_layout *layout; /* NULL: no ZeRO 1 or 2 */
	unsigned element;         /* bytes */
	uint64_t share;           /* elements of a window */
	uint64_t most;            /* the maximum over the ranks, if earlier micro-batches leave gradients */
	p4d_zero_list of[P4D_MIXERS * P4D_FEEDS], begin, end;
	p4d_zero_cursor now;                /* its list is NULL if only adapters are trained */
	p4d_zero_windows ahead;             /* windows of the reduced part */
	uint64_t reduced, waiting, largest; /* elements that have reached the bucket; elements that are in the
					       bucket; the bucket's largest gradient */
	uint64_t boundary;                  /* end of the window in which the bucket's content begins */
	uint64_t group;                     /* elements of whole windows that are reduced together */
	uint64_t kept;                      /* elements that some rank keeps */
} p4d_zero;

/* Parts of the model whose gradients now exist. */
typedef enum p4d_zero_part { P4D_ZERO_END, P4D_ZERO_FEED, P4D_ZERO_MIXER, P4D_ZERO_BEGIN } p4d_zero_part;

/* Parameters of a layer. */
p4d_zero_list p4d_transformers__parameters_of(const p4d_layout *layout, unsigned kind);

/*
 * Starts counting. trained: number of trained parameters. element: bytes of a gradient element. Takes time
 * linear in the layers.
 */
void p4d_transformers__zero_start(p4d_zero *zero, const p4d_layout *layout, uint64_t trained,
				  unsigned element);
/*
 * Whether each gradient enters the bucket as soon as it exists, and stage 1 has no gradients of earlier
 * micro-batches.
 */
static inline bool p4d_transformers__zero_grows(const p4d_layout *l)
{
	return l->zero_stage == 1 && l->overlap_dp && l->micro_batches == 1;
}
/* Bytes that remain allocated after all micro-batches except the last. */
uint64_t p4d_transformers__zero_left(const p4d_zero *zero);
