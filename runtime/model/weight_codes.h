/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * FP8 codes of the layers' matrices, if the plan keeps them (p4d_fp8_keeps_weights). When a step first needs
 * a matrix, it is quantized as it is and transposed. All passes of the step use these codes.
 */

/* Does nothing if the plan keeps no codes. Errors: NO_MEMORY, PLAN_CHANGED. */
int p4d_weight_codes__open(p4d_net *m, p4d_error *err);
void p4d_weight_codes__close(p4d_net *m);
/* Call it before a step or an evaluation, because parameters may have changed. */
void p4d_weight_codes__forget(p4d_net *m);
/*
 * Returns the codes of the matrix (rows, columns) of this kind and layer as an operand. turned: the
 * transposed matrix. If the step has no codes of the matrix yet, it makes both. The plan must keep codes.
 */
p4d_fp8_operand p4d_weight_codes__of(p4d_net *m, p4d_weight_kind kind, uint32_t layer, bool turned);
