/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"

enum { P4D_STATE_MASTER, P4D_MOST_STATES = 3 };
typedef unsigned p4d_state; /* a number in p4d_optimizer.state */

/*
 * An optimizer's states per parameter, in fp32. The first state of all of them is the parameter itself: the
 * master copy, which has no buffer where parameters are fp32. PyTorch allocates the others at the first step.
 */
typedef struct p4d_optimizer {
	const char *name;
	unsigned states;
	struct {
		const char *row;    /* of plans */
		const char *tensor; /* in checkpoints */
	} state[P4D_MOST_STATES];
} p4d_optimizer;

enum { P4D_ADAMW, P4D_OPTIMIZERS };
extern const p4d_optimizer p4d_optimizers[P4D_OPTIMIZERS];

/* The layout's optimizer; there is only one so far. */
static inline const p4d_optimizer *p4d_optimizer_of(const p4d_layout *layout)
{
	(void)layout;
	return &p4d_optimizers[P4D_ADAMW];
}
