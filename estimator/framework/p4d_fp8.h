/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/plan_rows.h"

/* FP8 in p4d-train (p4d_fp8.c). */

/* Whether p4d-train supports the request's FP8 recipe. Errors: VALUE. */
int p4d_framework__fp8_model(const p4d_request *request, p4d_error *err);

/*
 * Bytes of the largest operands of a layer's matmuls. left, right: for each of the two operands, the maximum
 * over the matmuls; turned: the gradient of a matmul's result, transposed.
 */
typedef struct p4d_fp8_side {
	uint64_t codes, scales;
} p4d_fp8_side;
typedef struct p4d_fp8_room {
	p4d_fp8_side left, turned, right;
} p4d_fp8_room;
p4d_fp8_room p4d_framework__fp8_room(p4d_rows *rows);

/* Bytes of an input of a matmul with `in` columns that a layer keeps as transposed codes; 0: not in FP8. */
uint64_t p4d_framework__fp8_kept(p4d_rows *rows, uint64_t in);

/* Bytes of a layer's matrices that are quantized once per step, in both directions; 0: each matmul quantizes
 * its matrix. */
uint64_t p4d_framework__fp8_weights(const p4d_layout *layout);

/* Whether every block of scales is the same as it would be on one rank. Errors: WIDTH, SEQUENCE. */
int p4d_framework__fp8_check(const p4d_layout *layout, p4d_error *err);
