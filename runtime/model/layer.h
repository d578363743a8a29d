/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/parallel.h"

/* One layer of the model: layer_forward.c, layer_backward.c. */

/*
 * Forward pass from the layer's input to `output` (ns, h). p4d_layer__recompute computes the activations that
 * the layer did not keep.
 */
int p4d_layer_forward(p4d_net *m, const p4d_layer *y, void *output, p4d_error *err);
int p4d_layer__recompute(p4d_net *m, const p4d_layer *y, p4d_error *err);
/*
 * A linear layer with its input: the norm before it, if the model has one there, and the matmul with a
 * weight.
 */
typedef struct p4d_projection {
	p4d_activation input, rstd, normed, codes, output;
	p4d_weight_kind norm, weight;
} p4d_projection;
extern const p4d_projection p4d_layer__qkv, p4d_layer__gate_up;
static inline bool p4d_layer__has_norm(const p4d_layer *y, const p4d_projection *p)
{
	return y->activation[p->rstd];
}
/*
 * Gathers the input of the matmul to B_GATHERED. If the layer did not keep that input, it is recomputed
 * first.
 */
int p4d_layer__normed(p4d_net *m, const p4d_layer *y, const p4d_projection *p, p4d_gathering *to,
		      p4d_error *err);
/* The address of the activation's result (for SwiGLU, silu(gate) * up), if it is stored. */
void *p4d_layer__product(const p4d_net *m, const p4d_layer *y);

/*
 * Backward pass of the feed-forward activation: gate_up becomes its gradient. act: receives the activation's
 * result again; NULL: not wanted.
 */
void p4d_layer__activate_back(p4d_net *m, void *gate_up, void *act, const void *dact);

/*
 * Backward pass: B_HIDDEN must have the gradient of the layer's output, and becomes the gradient of its
 * input.
 */
int p4d_layer_backward(p4d_net *m, const p4d_layer *y, p4d_error *err);
int p4d_layer_backward_weights(p4d_net *m, const p4d_layer *y, p4d_error *err);
/*
 * Whether second halves of split backward passes add to gradients of layers. late_parameters: whether they
 * also read parameters of layers, for recomputed norms or for adapters.
 */
bool p4d_layer_late_gradients(const p4d_net *m);
bool p4d_layer_late_parameters(const p4d_net *m);
