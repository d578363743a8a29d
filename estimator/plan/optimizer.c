/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/optimizer.h"

#define MASTER "optimizer.master"
#define FIRST "optimizer.first_moment"
#define SECOND "optimizer.second_moment"

const p4d_optimizer p4d_optimizers[P4D_OPTIMIZERS] = {
    [P4D_ADAMW] = {.name = "adamw",
		   .states = 3,
		   .row = {MASTER, FIRST, SECOND},
		   .stored = {"master", "first", "second"}},
    /* as in bitsandbytes and in p4d-train */
    [P4D_ADAMW_8BIT] = {.name = "adamw-8bit",
			.states = 3,
			.bits = 8,
			.block = 256,
			.row = {MASTER, FIRST, SECOND},
			.stored = {"master", "first", "second", "codes"}},
    [P4D_PAGED_ADAMW_8BIT] = {.name = "paged-adamw-8bit",
			      .states = 3,
			      .bits = 8,
			      .block = 256,
			      .paged = true,
			      .row = {MASTER, FIRST, SECOND}},
    [P4D_ADAFACTOR] = {.name = "adafactor", .states = 2, .factored = true, .row = {MASTER, SECOND}},
    [P4D_SGD] = {.name = "sgd", .states = 1, .row = {MASTER}},
    /* p4d-train has second moments only for the parameters that AdamW updates (muon.h) */
    [P4D_MUON] = {.name = "muon",
		  .states = 2,
		  .row = {MASTER, FIRST},
		  .stored = {"master", "first", "second"}},
    [P4D_PAGED_ADAMW] = {.name = "paged-adamw", .states = 3, .paged = true, .row = {MASTER, FIRST, SECOND}},
    /* as in torchao */
    [P4D_ADAMW_4BIT] =
	{.name = "adamw-4bit", .states = 3, .bits = 4, .block = 128, .row = {MASTER, FIRST, SECOND}},
};
