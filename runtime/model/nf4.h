/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/nf4.h"

/* Quantizing on the host. Codes are those of bitsandbytes, which takes the nearest number, and the lesser of
 * two that are as near. */

/* The scale of a block of `count` numbers, and its codes, (count + 1) / 2 bytes. Rounds nothing but these. */
float p4d_nf4_quantize_block(uint8_t *codes, const float *numbers, uint64_t count);

/*
 * The scales of all blocks of a tensor become codes. groups: their scales and, behind them, the mean. scales
 * are what the codes stand for afterwards.
 */
void p4d_nf4_quantize_scales(uint8_t *codes, float *groups, float *scales, uint64_t blocks);

/* A tensor becomes what its codes stand for. Errors: NO_MEMORY. */
int p4d_nf4_round(float *numbers, uint64_t count, p4d_error *err);
