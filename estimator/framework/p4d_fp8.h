/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/plan_rows.h"

/* p4d-train in FP8: p4d_fp8.c. */

/* Whether p4d-train has the recipe of a request. Errors: VALUE. */
int p4d_framework__fp8_model(const p4d_request *request, p4d_error *err);

/* The most bytes that operands of the layers' products take, of those on one side of them. */
typedef struct p4d_fp8_side {
	uint64_t codes, scales;
} p4d_fp8_side;
typedef struct p4d_fp8_room {
	p4d_fp8_side left, right;
} p4d_fp8_room;
p4d_fp8_room p4d_framework__fp8_room(p4d_rows *rows);

/* Whether blocks are the same as on one rank. Errors: WIDTH, SEQUENCE. */
int p4d_framework__fp8_check(const p4d_layout *layout, p4d_error *err);
