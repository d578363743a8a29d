/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* The norms of the model, of any kind: over rows of hidden states, whose features may be split. */

/* y (ns, h) = the norm of x; statistics: of its rows, as planned. Errors: RANK. */
int p4d_norm__forward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *y, float *statistics,
		      const void *x, p4d_error *err);
/* dx += the gradient of dy through the norm; adds the gradients of its weights. Errors: RANK. */
int p4d_norm__backward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *dx, const void *dy,
		       const void *x, const float *statistics, p4d_error *err);
