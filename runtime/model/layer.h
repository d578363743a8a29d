/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/parallel.h"

/* One layer of the model: layer_forward.c, layer_backward.c. */

/* From input to output (ns, h); recompute restores the activations that were not kept */
int p4d_layer_forward(p4d_net *m, const p4d_layer *y, void *output, p4d_error *err);
int p4d_layer__recompute(p4d_net *m, const p4d_layer *y, p4d_error *err);
/* A norm, if the model has one there, and the matmul of its result with a weight. */
typedef struct p4d_projection {
	p4d_activation input, rstd, normed, codes, output;
	p4d_weight_kind norm, weight;
} p4d_projection;
extern const p4d_projection p4d_layer__qkv, p4d_layer__gate_up;
static inline bool p4d_layer__has_norm(const p4d_layer *y, const p4d_projection *p)
{
	return y->activation[p->rstd];
}
/* The input of the matmul, gathered to B_GATHERED; recomputed if it was not kept. */
int p4d_layer__normed(p4d_net *m, const p4d_layer *y, const p4d_projection *p, p4d_gathering *to,
		      p4d_error *err);
/* The address of SwiGLU's product, if it is stored. */
void *p4d_layer__product(const p4d_net *m, const p4d_layer *y);

/* Backward pass of the feed-forward layer's activation: gate_up becomes its gradient; act, unless NULL, is
 * recomputed. */
void p4d_layer__activate_back(p4d_net *m, void *gate_up, void *act, const void *dact);

/* B_HIDDEN contains the gradient of the output, and becomes that of the input */
int p4d_layer_backward(p4d_net *m, const p4d_layer *y, p4d_error *err);
int p4d_layer_backward_weights(p4d_net *m, const p4d_layer *y, p4d_error *err);
/* Whether second halves of backward passes add to gradients of layers; and whether they read parameters of
 * layers, for recomputed norms or for adapters. */
bool p4d_layer_late_gradients(const p4d_net *m);
bool p4d_layer_late_parameters(const p4d_net *m);
