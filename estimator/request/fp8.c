/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes of Transformer Engine, torchao and p4d-train. Blocks: DeepSeek-V3 (arXiv 2412.19437, 3.3); MXFP8:
 * OCP Microscaling 1.0; NVFP4: the scales of 16 elements are themselves scaled by one scale per tensor. A
 * recipe with E5M2 gradients is what these libraries call hybrid. cuBLASLt supports matmuls with blocks of
 * 128 only on compute capability 9.0 (13.x, 3.1.4, scaling mode support overview); Transformer Engine
 * converts them to MXFP8 from 10.0 on.
 */
#include "request/fp8.h"

#include <stddef.h>

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
    [P4D_FP8_DELAYED] = {"delayed", 89, 0, 8, 0, 0, 4, true, false, HYBRID, 0},
    [P4D_FP8_CURRENT] = {"current", 89, 0, 8, 0, 0, 4, true, true, HYBRID, 16},
    [P4D_FP8_BLOCKWISE] = {"blockwise", 90, 90, 8, 128, 128, 4, false, false, E4M3, 128},
    [P4D_FP8_MXFP8] = {"mxfp8", 100, 0, 8, 32, 1, 1, false, false, E4M3, 32},
    [P4D_FP8_ROWWISE] = {"rowwise", 89, 0, 8, 0, 1, 4, false, false, E4M3, 0},
    [P4D_FP8_NVFP4] = {"nvfp4", 100, 0, 4, 16, 16, 1, false, true, E4M3, 0},
};
_Static_assert(sizeof(p4d_fp8_recipes) / sizeof(*p4d_fp8_recipes) == P4D_FP8_RECIPES, "all recipes");

bool p4d_fp8_trains(int64_t recipe, int sm)
{
	const p4d_fp8_recipe *r = &p4d_fp8_recipes[recipe];

	return r->multiple && sm >= r->first_sm && (!r->last_sm || sm <= r->last_sm);
}

int p4d_fp8_recipe_for(int sm)
{
	static const int best[] = {P4D_FP8_BLOCKWISE, P4D_FP8_MXFP8, P4D_FP8_CURRENT};

	for (size_t i = 0; i < sizeof(best) / sizeof(*best); i++)
		if (p4d_fp8_trains(best[i], sm))
			return best[i];
	return -1;
}
