/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Frozen 4-bit matrices of layers; see plan/nf4.h. */

/*
 * Stores elements at .. at+count-1 of a part of a quantized weight's tensor. Calls must pass all elements of
 * the part in order. The function may change `numbers`. Each call must have whole blocks; only the part's
 * last call may end within a block. Errors: NO_MEMORY.
 */
int p4d_quantized_put(p4d_net *m, const p4d_weight *weight, const p4d_quantized_part *part, uint64_t at,
		      float *numbers, uint64_t count, p4d_error *err);

/*
 * Returns the address of a matrix in the form that a matmul needs. A quantized matrix is expanded to
 * B_DEQUANTIZED, where it stays until the next call.
 */
const void *p4d_quantized__matrix(p4d_net *m, p4d_weight_kind kind, uint32_t layer);
