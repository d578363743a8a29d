/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"

enum { P4D_STATE_MASTER, P4D_MOST_STATES = 3, P4D_MOST_STORED = 4 };
typedef unsigned p4d_state; /* a number in p4d_optimizer.state; in checkpoints, in p4d_optimizer.stored */

/*
 * An optimizer's states per parameter, in fp32 (PyTorch's own have the type of the parameters). The first
 * state of every optimizer is the master copy of the parameter. fp32 parameters are their own master copy,
 * without another buffer. PyTorch allocates the other states at the first step.
 *
 * A checkpoint of p4d-train has 32 bits per parameter for each name in `stored`. With 8-bit moments, "first"
 * and "second" have the scale of the parameter's block, or the moment itself if it is in fp32. "codes" has
 * the codes.
 */
typedef struct p4d_optimizer {
	const char *name;
	unsigned states;
	unsigned bits;  /* bits of a quantized moment, whose blocks have fp32 scales; 0: not quantized */
	unsigned block; /* number of elements in a block */
	bool paged;     /* moments stay in host memory until the driver moves them */
	bool factored;  /* the second moment of a matrix is factored into a row and a column */
	const char *row[P4D_MOST_STATES];    /* names of the rows in plans */
	const char *stored[P4D_MOST_STORED]; /* names of tensors in checkpoints; NULL: no more */
} p4d_optimizer;

/* The optimizers by number (request.h). */
extern const p4d_optimizer p4d_optimizers[P4D_OPTIMIZERS];

static inline const p4d_optimizer *p4d_optimizer_of(const p4d_layout *layout)
{
	return &p4d_optimizers[layout->optimizer];
}

/* Bytes of an element of a state of p4d-train. */
static inline unsigned p4d_state_bytes(const p4d_layout *layout, p4d_state state)
{
	if (state == P4D_STATE_MASTER)
		return 4;
	return p4d_optimizer_of(layout)->bits == 8 ? 1 : layout->half_moments ? 2 : 4;
}

/* How many names p4d_optimizer.stored has. */
static inline unsigned p4d_optimizer_stored(const p4d_optimizer *optimizer)
{
	unsigned count = 0;

	while (count < P4D_MOST_STORED && optimizer->stored[count])
		count++;
	return count;
}
