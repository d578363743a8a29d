/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* One layer of the model: layer_forward.c, layer_backward.c. */

/* Input to output (ns, h); recompute restores what was not kept */
int p4d_layer_forward(p4d_net *m, const p4d_layer *y, void *output, p4d_error *err);
int p4d_layer__recompute(p4d_net *m, const p4d_layer *y, p4d_error *err);
/* norm of x into B_NORM_OUT, all rows. NULL: failed. */
const void *p4d_layer__norm_rows(p4d_net *m, const void *x, float *rstd, p4d_weight_kind norm, uint32_t layer,
				 p4d_error *err);

/* The feed-forward layer's activation, and on the way back: gate_up becomes its gradient, act (NULL: not
 * wanted) is set again. */
void p4d_layer__activate(p4d_net *m, void *act, const void *gate_up);
void p4d_layer__activate_back(p4d_net *m, void *gate_up, void *act, const void *dact);

/* B_HIDDEN is the gradient of the output, and becomes that of the input */
int p4d_layer_backward(p4d_net *m, const p4d_layer *y, p4d_error *err);
int p4d_layer_backward_weights(p4d_net *m, const p4d_layer *y, p4d_error *err);
