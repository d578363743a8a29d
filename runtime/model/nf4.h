/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/nf4.h"

/*
 * Quantization on the host. As in bitsandbytes, a number gets the code of the nearest value; if two values
 * are equally near, the code of the lower one.
 */

/*
 * Quantizes a block of `count` numbers: returns the block's scale and writes the codes, (count + 1) / 2
 * bytes. The scale is not rounded.
 */
float p4d_nf4_quantize_block(uint8_t *codes, const float *numbers, uint64_t count);

/*
 * Replaces the scales of all blocks of a tensor by codes. Writes to `groups` the scales of groups of blocks,
 * and after them the mean. `scales` becomes the values that the codes stand for.
 */
void p4d_nf4_quantize_scales(uint8_t *codes, float *groups, float *scales, uint64_t blocks);

/* Quantizes a tensor and replaces its elements by the values of their codes. Errors: NO_MEMORY. */
int p4d_nf4_round(float *numbers, uint64_t count, p4d_error *err);
