/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/optimizer.h"

#define MASTER \
	{ \
		"optimizer.master", "master" \
	}
#define FIRST \
	{ \
		"optimizer.first_moment", "first" \
	}
#define SECOND \
	{ \
		"optimizer.second_moment", "second" \
	}

const p4d_optimizer p4d_optimizers[P4D_OPTIMIZERS] = {
    [P4D_ADAMW] = {.name = "adamw", .states = 3, .state = {MASTER, FIRST, SECOND}},
    /* bitsandbytes */
    [P4D_ADAMW_8BIT] =
	{.name = "adamw-8bit", .states = 3, .bits = 8, .block = 256, .state = {MASTER, FIRST, SECOND}},
    [P4D_PAGED_ADAMW_8BIT] = {.name = "paged-adamw-8bit",
			      .states = 3,
			      .bits = 8,
			      .block = 256,
			      .paged = true,
			      .state = {MASTER, FIRST, SECOND}},
    [P4D_ADAFACTOR] = {.name = "adafactor", .states = 2, .factored = true, .state = {MASTER, SECOND}},
    [P4D_SGD] = {.name = "sgd", .states = 1, .state = {MASTER}},
    [P4D_MUON] = {.name = "muon", .states = 2, .state = {MASTER, FIRST}},
    [P4D_PAGED_ADAMW] = {.name = "paged-adamw", .states = 3, .paged = true, .state = {MASTER, FIRST, SECOND}},
    /* torchao */
    [P4D_ADAMW_4BIT] =
	{.name = "adamw-4bit", .states = 3, .bits = 4, .block = 128, .state = {MASTER, FIRST, SECOND}},
};
