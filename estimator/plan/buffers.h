/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/optimizer.h"

typedef enum p4d_activation {
#define ACTIVATION(id, name, shard, group, live_range) ACT_##id,
#include "plan/buffers.def"
	ACT_COUNT
} p4d_activation;

/* Which row of the plan: p4d_tensor.id. */
typedef enum p4d_buffer {
	B_NONE, /* rows of other frameworks, never searched by ID */
#define BUFFER(id, name, shard, part, lifetime, live_range) B_##id,
#include "plan/buffers.def"
	B_ACTIVATION,                       /* and so on, in the order of p4d_activation */
	B_STATE = B_ACTIVATION + ACT_COUNT, /* rows of the optimizer, and so on */
	B_BUFFERS = B_STATE + P4D_MOST_STATES
} p4d_buffer;
