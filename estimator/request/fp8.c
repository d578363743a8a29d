/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes as Transformer Engine, torchao and p4d-train have them. Blocks: DeepSeek-V3 (arXiv
 * 2412.19437, 3.3); MXFP8: OCP Microscaling 1.0; NVFP4: its scales of 16 numbers are of a scale of the
 * tensor. Where gradients are E5M2 it is what these call hybrid.
 */
#include "request/fp8.h"

#include "request/request.h"

#define E4M3 \
	{ \
		P4D_E4M3, P4D_E4M3, P4D_E4M3 \
	}
#define HYBRID \
	{ \
		P4D_E4M3, P4D_E4M3, P4D_E5M2 \
	}

const p4d_fp8_recipe p4d_fp8_recipes[] = {
    [P4D_FP8_DELAYED] = {"delayed", 89, 8, 0, 0, 4, true, false, HYBRID, 0},
    [P4D_FP8_CURRENT] = {"current", 89, 8, 0, 0, 4, true, true, HYBRID, 16},
    [P4D_FP8_BLOCKWISE] = {"blockwise", 90, 8, 128, 128, 4, false, false, E4M3, 128},
    [P4D_FP8_MXFP8] = {"mxfp8", 100, 8, 32, 1, 1, false, false, E4M3, 32},
    [P4D_FP8_ROWWISE] = {"rowwise", 89, 8, 0, 1, 4, false, false, E4M3, 0},
    [P4D_FP8_NVFP4] = {"nvfp4", 100, 4, 16, 16, 1, false, true, E4M3, 0},
};
_Static_assert(sizeof(p4d_fp8_recipes) / sizeof(*p4d_fp8_recipes) == P4D_FP8_RECIPES, "all recipes");
