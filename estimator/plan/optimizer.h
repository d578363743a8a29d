/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"

enum { P4D_STATE_MASTER, P4D_MOST_STATES = 3 };
typedef unsigned p4d_state; /* a number in p4d_optimizer.state */

/*
 * An optimizer's states per parameter, in fp32 (PyTorch's own have the type of the parameters). The first
 * state of every optimizer is the master copy of the parameter. fp32 parameters are their own master copy,
 * without another buffer. PyTorch allocates the other states at the first step.
 */
typedef struct p4d_optimizer {
	const char *name;
	unsigned states;
	unsigned bits;  /* bits of a quantized moment, 0 if it is not quantized; each block has an fp32
			 * scale */
	unsigned block; /* number of elements in a block */
	bool paged;     /* moments stay in host memory until the driver moves them */
	bool factored;  /* the second moment of a matrix is factored into a row and a column */
	struct {
		const char *row;    /* name of the row in plans */
		const char *tensor; /* name in checkpoints */
	} state[P4D_MOST_STATES];
} p4d_optimizer;

/* The optimizers by number (request.h). */
extern const p4d_optimizer p4d_optimizers[P4D_OPTIMIZERS];

/* Bytes per element of a state in p4d-train. */
static inline unsigned p4d_state_bytes(const p4d_layout *layout, p4d_state state)
{
	return state != P4D_STATE_MASTER && layout->half_moments ? 2 : 4;
}

static inline const p4d_optimizer *p4d_optimizer_of(const p4d_layout *layout)
{
	return &p4d_optimizers[layout->optimizer];
}
