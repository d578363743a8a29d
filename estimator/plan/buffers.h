/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/optimizer.h"

typedef enum p4d_activation {
#define ACTIVATION(id, name, shard, group, live_range) ACT_##id,
#include "plan/buffers.def"
	ACT_COUNT
} p4d_activation;

/* IDs of the rows of p4d-train's plan, stored in p4d_tensor.id. */
typedef enum p4d_buffer {
	B_NONE, /* rows of other frameworks, which nobody looks up by ID */
#define BUFFER(id, name, shard, part, lifetime, live_range) B_##id,
#include "plan/buffers.def"
	B_ACTIVATION,                       /* more IDs follow, in the order of p4d_activation */
	B_STATE = B_ACTIVATION + ACT_COUNT, /* more IDs follow: rows of the optimizer */
	B_BUFFERS = B_STATE + P4D_MOST_STATES
} p4d_buffer;
