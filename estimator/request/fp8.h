/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How operands of products in 8 bits, or 4, are scaled: what plan, cost, guard and devices know of a recipe
 * (P4D_FP8_DELAYED ...). A product sums over the depth of its two operands (rows, depth): y = x w^T over the
 * inputs, dx = dy w over the outputs, dw = dy^T x over the tokens. A number stands for itself times the scale
 * of its block.
 */

/* E4M3: up to 448, 2^-9 apart around 0; E5M2: up to 57344, 2^-16. */
typedef enum p4d_fp8_format { P4D_E4M3, P4D_E5M2 } p4d_fp8_format;
typedef enum p4d_fp8_role { P4D_FP8_INPUT, P4D_FP8_WEIGHT, P4D_FP8_GRADIENT, P4D_FP8_ROLES } p4d_fp8_role;

typedef struct p4d_fp8_recipe {
	const char *name; /* in the option */
	int first_sm;     /* compute capability whose matrix units first have it, 90 for 9.0 */
	int last_sm;      /* p4d-train: the last one with it in cuBLASLt; 0: no end */
	unsigned bits;    /* bits of a number */
	/* numbers that share a scale along the depth, and rows of weights that do; 0: by_tensor all, else a
	 * row */
	unsigned block, weight_rows;
	unsigned scale_bytes; /* bytes of a block's scale: 4 are fp32, 1 an exponent (E8M0), with 4-bit
				 numbers E4M3 */
	bool by_tensor;       /* one scale for all */
	bool maxima;          /* maximum of the whole tensor, which is read once more before */
	p4d_fp8_format format[P4D_FP8_ROLES];
	/*
	 * p4d-train: sizes of a rank's products have to be multiples, so that blocks are the same in every
	 * layout, and matrix units take their rows; 0: it does not train with it.
	 */
	unsigned multiple;
} p4d_fp8_recipe;

/* By number: the values of P4D_FP8_RECIPE. */
extern const p4d_fp8_recipe p4d_fp8_recipes[];
enum { P4D_FP8_RECIPES = 6 };

/* Whether p4d-train has products in it on GPUs of a compute capability; and the best that it has
 * there; -1: none. */
bool p4d_fp8_trains(int64_t recipe, int sm);
int p4d_fp8_recipe_for(int sm);
