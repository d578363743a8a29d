/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * The third dimension of a tp-grid. Each rank of Z has some rows of a layer's matrices. They are gathered
 * into one of two places during the layer before, and stay there until another layer needs the place. The
 * gradients of all rows, from this rank's sequences, are summed into the gradients of its own rows during the
 * next layer. Without Z these functions do nothing. Errors: RANK.
 */
enum { P4D_DEPTH_MATRICES = 4 };

/* Begins the gather, unless the layer is there; operations queued after the second call can use it. */
int p4d_depth_gather(p4d_net *net, uint32_t layer, p4d_error *err);
int p4d_depth_await(p4d_net *net, uint32_t layer, p4d_error *err);
/* Begins to sum what a pass computed of a layer's gradients, and ends that of the layer before. */
int p4d_depth_reduce(p4d_net *net, uint32_t layer, p4d_error *err);
/* Ends the last, at the end of a pass. */
int p4d_depth_end(p4d_net *net, p4d_error *err);
/* The parameters change. */
void p4d_depth__forget(p4d_net *net);

/* The address of all rows of a matrix, and of its gradient; the latter for a pass that is about to compute
 * it. */
void *p4d_depth__weight(const p4d_net *net, const p4d_weight *weight);
float *p4d_depth__gradient(const p4d_net *net, const p4d_weight *weight);
void p4d_depth__compute(p4d_net *net, const p4d_weight *weight);
