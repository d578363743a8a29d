/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* The norms of the model, of whatever kind they are: of rows of hidden states. */

/* y (ns, h) of x; statistics: of its rows, as planned */
void p4d_norm__forward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *y, float *statistics,
		       const void *x);
/* dx += the gradient through it of dy; and those of its weights */
void p4d_norm__backward(p4d_net *m, p4d_weight_kind norm, uint32_t layer, void *dx, const void *dy,
			const void *x, const float *statistics);
