/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/nf4.h"

/*
 * These functions quantize on the host. As in bitsandbytes, a code stands for the nearest value; between two
 * equally near values, for the lower one.
 */

/*
 * Computes the scale of a block of `count` numbers, and their codes, (count + 1) / 2 bytes. Nothing but the
 * codes is rounded.
 */
float p4d_nf4_quantize_block(uint8_t *codes, const float *numbers, uint64_t count);

/*
 * Replaces the scales of all blocks of a tensor by codes. groups: receives the scales of groups of blocks,
 * followed by the mean. The elements of `scales` become the values of their codes.
 */
void p4d_nf4_quantize_scales(uint8_t *codes, float *groups, float *scales, uint64_t blocks);

/* Replaces a tensor by the values of its codes. Errors: NO_MEMORY. */
int p4d_nf4_round(float *numbers, uint64_t count, p4d_error *err);
