/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* All norms of the model over rows of hidden states, whose features may be split over ranks. */

/* y (ns, h) = the norm of x. statistics: what the backward pass needs of each row. Errors: RANK. */
int p4d_norm__forward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *y, float *statistics,
		      const void *x, p4d_error *err);
/* dx += the gradient of x, from dy. Also adds to the gradients of the norm's weights. Errors: RANK. */
int p4d_norm__backward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *dx, const void *dy,
		       const void *x, const float *statistics, p4d_error *err);
