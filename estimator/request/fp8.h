/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Scaling of the operands of 8-bit and 4-bit matmuls. Plan, cost, guard and devices take all properties of a
 * recipe (P4D_FP8_DELAYED ...) from here. A matmul sums over the depth of its two operands (rows, depth): y =
 * x w^T over the inputs, dx = dy w over the outputs, dw = dy^T x over the tokens. The value of an element is
 * its code times the scale of its block.
 */

/* E4M3: up to 448, in steps of 2^-9 around 0. E5M2: up to 57344, in steps of 2^-16. */
typedef enum p4d_fp8_format { P4D_E4M3, P4D_E5M2 } p4d_fp8_format;
typedef enum p4d_fp8_role { P4D_FP8_INPUT, P4D_FP8_WEIGHT, P4D_FP8_GRADIENT, P4D_FP8_ROLES } p4d_fp8_role;

typedef struct p4d_fp8_recipe {
	const char *name; /* name in the option */
	int first_sm;     /* lowest compute capability whose matrix units support it, 90 for 9.0 */
	int last_sm;      /* p4d-train: highest compute capability for which cuBLASLt supports it; 0: no
			   * limit */
	unsigned bits;    /* bits of an element */
	/* block size: elements along the depth that share a scale, and rows of weights that do. 0: the
	 * whole tensor (by_tensor), else a row */
	unsigned block, weight_rows;
	unsigned scale_bytes; /* bytes of a block's scale. 4: fp32; 1: an exponent (E8M0) or, with 4-bit
			       * elements, E4M3 */
	bool by_tensor;       /* one scale for the whole tensor */
	bool maxima;          /* the scale needs the maximum of the tensor, so the tensor is read twice */
	p4d_fp8_format format[P4D_FP8_ROLES];
	/*
	 * p4d-train: sizes of a rank's matmuls must be multiples of this, so that blocks are the same in
	 * every layout and rows fit the matrix units; 0: p4d-train lacks this recipe
	 */
	unsigned multiple;
} p4d_fp8_recipe;

/* Indexed by the value of P4D_FP8_RECIPE. */
extern const p4d_fp8_recipe p4d_fp8_recipes[];
enum { P4D_FP8_RECIPES = 6 };

/* Whether p4d-train's matmuls can use the recipe on GPUs of this compute capability. */
bool p4d_fp8_trains(int64_t recipe, int sm);
/* The best recipe for these GPUs; -1: none. */
int p4d_fp8_recipe_for(int sm);
