/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Frozen 4-bit matrices of layers; see plan/nf4.h. */

/*
 * Stores elements at .. at+count-1 of a part of a quantized weight's tensor. All elements must come in order.
 * The function may change `numbers`. Each call has whole blocks, except the part's last call. Errors:
 * NO_MEMORY.
 */
int p4d_quantized_put(p4d_net *m, const p4d_weight *weight, const p4d_quantized_part *part, uint64_t at,
		      float *numbers, uint64_t count, p4d_error *err);

/*
 * The matrix in the form that a matmul needs: its address; or, if the matrix is quantized, B_DEQUANTIZED,
 * where it is expanded until the next call.
 */
const void *p4d_quantized__matrix(p4d_net *m, p4d_weight_kind kind, uint32_t layer);
