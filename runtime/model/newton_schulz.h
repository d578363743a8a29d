/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Orthogonalizes a matrix for Muon (plan/muon.h), on all tensor-parallel ranks together. gradient (out, in):
 * this rank's part, in fp32. Returns this rank's part of the result, in the net's type; the next call
 * overwrites it. NULL: an error of a collective. A plan without B_MUON_GRAMS has no memory for it.
 */
const void *p4d_newton_schulz(p4d_net *net, const p4d_adapted *matrix, const float *gradient, p4d_error *err);

/* Runs its matmuls once, with operands of any contents at `any`. Does nothing if the plan has no Muon. */
void p4d_newton_schulz__warm_up(p4d_net *net, void *any);
